"""RotaryEmbedding and MRotaryEmbedding of com.microsoft against onnxruntime; bfloat16 against a float64 formula."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ort_py.errors import InvalidArgument

from ..oracle import BF16, i64
from .attention_oracle import agree, f32, on_device
from .closed_forms import contrib, rounded_once

ONE, THREE = "RotaryEmbedding", "MRotaryEmbedding"
_ANGLES = np.arange(64)[:, None] * 0.3 ** np.arange(4)
COS, SIN = np.cos(_ANGLES).astype(np.float32), np.sin(_ANGLES).astype(np.float32)
X = f32((2, 5, 24))


def ids(*shape: int, seed: int = 0) -> Any:
    """Positions that the caches have."""
    return np.random.default_rng(seed).integers(0, 60, shape)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    batch=st.integers(1, 3),
    length=st.integers(1, 6),
    heads=st.integers(1, 3),
    rest=st.sampled_from([0, 4]),
    split=st.booleans(),
    offset=st.booleans(),
    interleaved=st.integers(0, 1),
    seed=st.integers(0, 99),
)
def test_it_agrees_with_onnxruntime(
    batch: int, length: int, heads: int, rest: int, split: bool, offset: bool, interleaved: int, seed: int
) -> None:
    """Both forms of the input, positions as an offset or as a matrix, whole heads or a part of them."""
    size = 8 + rest
    x = f32((batch, heads, length, size) if split else (batch, length, heads * size), seed)
    part: dict[str, Any] = {"num_heads": heads, "rotary_embedding_dim": 8} if rest else {}
    positions = i64(seed % 40) if offset else ids(batch, length, seed=seed)
    agree(ONE, [x, positions, COS, SIN], interleaved=interleaved, **part)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    batch=st.integers(1, 3),
    length=st.integers(1, 6),
    rest=st.sampled_from([0, 4]),
    split=st.booleans(),
    section=st.sampled_from([(2, 1, 1), (4, 0, 0), (0, 2, 2), (1, 1, 2), (0, 0, 4)]),
    layout=st.integers(0, 1),
    scale=st.sampled_from([1.0, 0.7]),
    interleaved=st.integers(0, 1),
    seed=st.integers(0, 99),
)
def test_three_positions_agree_with_onnxruntime(
    batch: int,
    length: int,
    rest: int,
    split: bool,
    section: tuple[int, ...],
    layout: int,
    scale: float,
    interleaved: int,
    seed: int,
) -> None:
    """Sections one after the other or in turns."""
    size = 8 + rest
    x = f32((batch, 3, length, size) if split else (batch, length, 3 * size), seed)
    attributes: dict[str, Any] = {"num_heads": 3, "mrope_section": section, "mrope_layout": layout, "scale": scale}
    attributes |= {"rotary_embedding_dim": 8} if rest else {}
    agree(THREE, [x, ids(3, batch, length, seed=seed), COS, SIN], interleaved=interleaved, **attributes)


def test_attributes_that_change_nothing() -> None:
    """scale, and is_packed_batching beyond the caches' length."""
    agree(ONE, [X, i64(3), COS, SIN], scale=2.0, num_heads=3)
    agree(ONE, [f32((1, 80, 24)), ids(1, 80), COS, SIN], is_packed_batching=1)


def test_float16_agrees_with_onnxruntime() -> None:
    x, cos, sin = (value.astype(np.float16) for value in (X, COS, SIN))
    agree(ONE, [x, i64(3), cos, sin], (np.float16,))
    agree(THREE, [x, ids(3, 2, 5), cos, sin], (np.float16,), num_heads=3, mrope_section=[2, 1, 1])


def test_bfloat16() -> None:
    """Turned in float32 and rounded once."""
    x, cos, sin = (value.astype(BF16) for value in (X, COS, SIN))
    wide = x.astype(np.float64).reshape(2, 5, 3, 2, 4)
    c, s = (table[3:8, None].astype(np.float64) for table in (cos, sin))
    a, b = wide[:, :, :, 0], wide[:, :, :, 1]
    exact = np.stack((a * c - b * s, a * s + b * c), axis=3).reshape(2, 5, 24)
    rounded_once(contrib(ONE, [x, i64(3), cos, sin])[0], exact, BF16)
    positions = np.broadcast_to(np.arange(3, 8), (3, 2, 5))
    rounded_once(contrib(THREE, [x, positions, cos, sin], num_heads=3, mrope_section=(2, 1, 1))[0], exact, BF16)


@pytest.mark.parametrize("shape", [(0, 5, 24), (2, 0, 24)], ids=str)
def test_nothing_gives_nothing(shape: tuple[int, ...]) -> None:
    x = np.zeros(shape, np.float32)
    assert contrib(ONE, [x, i64(3), COS, SIN])[0].shape == shape
    assert contrib(THREE, [x, ids(3, *shape[:2]), COS, SIN], num_heads=3, mrope_section=(2, 1, 1))[0].shape == shape


def test_on_another_array_module() -> None:
    on_device(ONE, [X, i64(3), COS, SIN])
    on_device(THREE, [X, ids(3, 2, 5), COS, SIN], num_heads=3, mrope_section=(2, 1, 1), mrope_layout=1)


@pytest.mark.parametrize(
    ("inputs", "attributes", "message"),
    [
        ([X, i64(60), COS, SIN], {}, r"Position 64 is outside the caches[\s\S]*positions 0 to 63"),
        ([X, ids(2, 5) - 60, COS, SIN], {}, "Position -[0-9]+ is outside"),
        ([X, i64(1, 2), COS, SIN], {}, "position_ids must be one number or"),
        ([X, ids(2, 4), COS, SIN], {}, "The positions are not one a place of the input"),
        ([X, i64(3), COS, SIN[:5]], {}, "cos_cache and sin_cache must both be"),
        ([X[:, :, :20], i64(3), COS, SIN], {}, r"The input must be \(batch, length, heads · 8\)"),
        ([X, i64(3), COS, SIN], {"rotary_embedding_dim": 8}, r"num_heads 0[\s\S]*Set num_heads beside it"),
        ([X, i64(3), COS, SIN], {"rotary_embedding_dim": 6, "num_heads": 3}, "rotary_embedding_dim is 6"),
    ],
)
def test_what_does_not_fit_is_refused(inputs: list[Any], attributes: dict[str, Any], message: str) -> None:
    """With what was given and what would fit."""
    with pytest.raises(InvalidArgument, match=message):
        contrib(ONE, inputs, **attributes)


@pytest.mark.parametrize(
    ("inputs", "attributes", "message"),
    [
        ([X, ids(3, 2, 5), COS, SIN], {"num_heads": 0}, r"num_heads 0 and[\s\S]*Set num_heads"),
        ([X, ids(3, 2, 5), COS, SIN], {"mrope_section": (2, 1, 2)}, r"mrope_section is \[2, 1, 2\][\s\S]*add up to 4"),
        ([X, ids(3, 2, 5), COS, SIN], {"mrope_layout": 2}, "mrope_layout 2"),
        ([X, ids(2, 2, 5), COS, SIN], {}, r"position_ids must have the shape \[3, 2, 5\]"),
    ],
)
def test_three_positions_that_do_not_fit_are_refused(
    inputs: list[Any], attributes: dict[str, Any], message: str
) -> None:
    """With what was given and what would fit."""
    with pytest.raises(InvalidArgument, match=message):
        contrib(THREE, inputs, **{"num_heads": 3, "mrope_section": (2, 1, 1), **attributes})
