"""RotaryEmbedding-23: the reference and onnxruntime over layouts, pairings and partial rotations; what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ort_py.errors import InvalidArgument
from ort_py_array.attention import rotary_embedding
from ort_py_kit.tolerances import assert_close

from ..oracle import BF16, agree, i64, run, sample
from ..runtime_oracle import agree_with_runtime

X = sample((2, 3, 4, 8), np.float32)  # (batch, heads, length, size)
ROWS = sample((2, 4, 4), np.float32, 1)
CACHE = sample((6, 4), np.float32, 2)
PLACES = i64(*range(4), 5, 4, 3, 0).reshape(2, 4)


@st.composite
def nodes(draw: Any) -> tuple[list[Any], dict[str, Any]]:
    """Inputs and attributes of one node."""
    batch, heads, length = (draw(st.integers(1, 3)) for _ in range(3))
    pairs, seed = draw(st.integers(1, 4)), draw(st.integers(0, 99))
    turned = draw(st.integers(1, pairs))
    x = sample((batch, heads, length, 2 * pairs), np.float32, seed)
    attributes: dict[str, Any] = {"interleaved": draw(st.integers(0, 1))}
    if turned < pairs or draw(st.booleans()):
        attributes["rotary_embedding_dim"] = 2 * turned
    if draw(st.booleans()):
        x = x.swapaxes(1, 2).reshape(batch, length, -1)
        attributes["num_heads"] = heads
    if draw(st.booleans()):
        places = np.random.default_rng(seed).integers(0, 7, (batch, length))
        return [x, *(sample((7, turned), np.float32, seed + n) for n in (1, 2)), places], attributes
    return [x, *(sample((batch, length, turned), np.float32, seed + n) for n in (1, 2))], attributes


@settings(max_examples=25, deadline=None, derandomize=True)
@given(node=nodes())
def test_it_agrees_with_the_reference(node: tuple[list[Any], dict[str, Any]]) -> None:
    """Both layouts, both pairings, whole and part of a head, caches by position and by place."""
    inputs, attributes = node
    agree("RotaryEmbedding", inputs, **attributes)


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("inputs", [[X, CACHE, CACHE + 1, PLACES], [X, ROWS, ROWS + 1]], ids=["positions", "places"])
def test_it_agrees_with_onnxruntime(inputs: list[Any], interleaved: int) -> None:
    agree_with_runtime("RotaryEmbedding", inputs, opset=23, interleaved=interleaved)


@pytest.mark.parametrize("dtype", [np.dtype(np.float16), BF16, np.dtype(np.float32)], ids=str)
def test_every_type(dtype: Any) -> None:
    """Narrow floats are turned in float32 and rounded once; what is not turned is copied."""
    inputs = [X.astype(dtype), CACHE[:, :2].astype(dtype), CACHE[:, 2:].astype(dtype), PLACES]
    agree("RotaryEmbedding", inputs, rotary_embedding_dim=4)
    (y,) = run("RotaryEmbedding", inputs, rotary_embedding_dim=4)
    np.testing.assert_array_equal(y[..., 4:], inputs[0][..., 4:])


@pytest.mark.parametrize("elements", [1, X[0].size, X[0].size * 2 // 3])
def test_blocks_give_the_same(elements: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Positions and entries of the batch are independent of each other."""
    whole = run("RotaryEmbedding", [X, ROWS, ROWS + 1])
    monkeypatch.setattr(rotary_embedding, "_ELEMENTS", elements)
    assert_close(run("RotaryEmbedding", [X, ROWS, ROWS + 1]), whole)


@pytest.mark.parametrize("shape", [(0, 3, 4, 8), (2, 0, 4, 8), (2, 3, 0, 8)])
def test_empty_tensors(shape: tuple[int, ...]) -> None:
    """No batch entries, heads or positions."""
    rows = np.zeros((shape[0], shape[2], 4), np.float32)
    (y,) = run("RotaryEmbedding", [np.zeros(shape, np.float32), rows, rows])
    assert y.shape == shape


@pytest.mark.parametrize(
    ("inputs", "attributes", "message"),
    [
        ([X[0, 0], ROWS, ROWS], {}, "must have rank 3 or 4"),
        ([X[0], ROWS, ROWS], {}, "num_heads is None"),
        ([X[0], ROWS, ROWS], {"num_heads": 3}, "num_heads is 3"),
        ([X, ROWS, ROWS], {"rotary_embedding_dim": 3}, "3 elements of heads of 8"),
        ([X, ROWS, ROWS], {"rotary_embedding_dim": 10}, "10 elements of heads of 8"),
        ([X, ROWS, ROWS], {"rotary_embedding_dim": -2}, "-2 elements of heads of 8"),
        ([X, ROWS, ROWS], {"rotary_embedding_dim": 4}, r"must have the shape \[2, 4, 2\]"),
        ([X, ROWS, ROWS[:1]], {}, r"must have the shape \[2, 4, 4\]"),
        ([X, CACHE, CACHE[:4], PLACES], {}, r"must have the shape \[6, 4\]"),
        ([X, CACHE, CACHE, PLACES[:1]], {}, r"position_ids must have the shape \[2, 4\]"),
        ([X, CACHE, CACHE, PLACES + 1], {}, "Index 6 is out of range"),
    ],
)
def test_what_does_not_fit_is_refused(inputs: list[Any], attributes: dict[str, Any], message: str) -> None:
    """The message names the node and says what to do."""
    with pytest.raises(InvalidArgument, match=message) as caught:
        run("RotaryEmbedding", inputs, **attributes)
    assert "RotaryEmbedding_under_test" in str(caught.value)
    assert caught.value.fix
