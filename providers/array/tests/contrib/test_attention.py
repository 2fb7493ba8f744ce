"""Attention of com.microsoft against onnxruntime: masks of every form, pasts, biases; formulas for what it lacks."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ort_py.errors import InvalidArgument
from ort_py_kit.tolerances import assert_close

from ..oracle import BF16
from .attention_oracle import agree, attended, f32, i32, on_device
from .closed_forms import contrib, rounded_once

HEADS, SIZE = 3, 4
X, W, B = f32((2, 5, 6)), f32((6, 36), 1), f32((36,), 2)
PAST = f32((2, 2, HEADS, 3, SIZE), 3)


def mask_of(form: str, batch: int, rows: int, keys: int, seed: int) -> Any:
    """A mask of one of the operator's forms, in which each sequence keeps at least its first key."""
    rng = np.random.default_rng(seed)
    if form == "lengths":
        return rng.integers(1, keys + 1, batch).astype(np.int32)
    if form == "ends and starts":
        return np.concatenate([np.full(batch, keys), rng.integers(0, keys, batch)]).astype(np.int32)
    if form == "one entry":
        return np.ones((batch, 1), np.int32)
    raw = (rng.random((batch, rows, keys) if form == "by query" else (batch, keys)) < 0.7).astype(np.int32)
    raw[..., 0] = 1
    return None if form == "none" else raw


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    batch=st.integers(1, 3),
    rows=st.integers(1, 6),
    past=st.sampled_from([None, 0, 1, 4]),
    causal=st.integers(0, 1),
    form=st.sampled_from(["none", "lengths", "ends and starts", "one entry", "by key", "by query"]),
    bias=st.booleans(),
    seed=st.integers(0, 99),
)
def test_it_agrees_with_onnxruntime(
    batch: int, rows: int, past: int | None, causal: int, form: str, bias: bool, seed: int
) -> None:
    """Result and present over batches, lengths, pasts and masks; there, a past excludes a bias of scores."""
    keys = rows + (past or 0)
    mask = mask_of(form, batch, rows, keys, seed)
    if causal and form == "ends and starts":
        mask = None  # a first query that sees only its padded self
    inputs: list[Any] = [f32((batch, rows, 6), seed), W, B, mask]
    if past is not None:
        inputs += [f32((2, batch, HEADS, past, SIZE), seed + 1)]
    elif bias:
        inputs += [None, f32((1 if seed % 2 else batch, HEADS, rows, keys), seed + 2)]
    agree("Attention", inputs, (np.float32,) * 2, num_heads=HEADS, unidirectional=causal)


def test_sizes_of_values_of_their_own() -> None:
    """qkv_hidden_sizes, a scale, and a value of hidden keys."""
    inputs = [X, f32((6, 30), 1), f32((30,), 2), i32(3, 5)]
    agree("Attention", inputs, num_heads=HEADS, qkv_hidden_sizes=[12, 12, 6], scale=0.7, mask_filter_value=-2.0)


def test_weights_known_at_planning() -> None:
    """Are widened once, and give the same."""
    agree("Attention", [X, W, B], constants=(1,), num_heads=HEADS)


def test_without_a_bias() -> None:
    """Is a bias of zeros. (onnxruntime ends the process.)"""
    (y,) = contrib("Attention", [X, W], num_heads=HEADS)
    np.testing.assert_array_equal(y, contrib("Attention", [X, W, np.zeros_like(B)], num_heads=HEADS)[0])


def _projected(x: Any, w: Any, b: Any) -> list[Any]:
    y = x.astype(np.float64) @ w.astype(np.float64) + b.astype(np.float64)
    return [part.reshape(*x.shape[:2], HEADS, -1).swapaxes(1, 2) for part in np.split(y, 3, axis=-1)]


@pytest.mark.parametrize("dtype", [np.dtype(np.float16), BF16], ids=str)
def test_narrow_floats(dtype: Any) -> None:
    """Projected, attended and stored in float32, each result rounded once."""
    x, w, b, past = (value.astype(dtype) for value in (X, W, B, PAST))
    y, present = contrib("Attention", [x, w, b, None, past], outputs=2, num_heads=HEADS)
    q, k, v = _projected(x, w, b)
    both = [np.concatenate((old.astype(np.float64), new), axis=2) for old, new in zip(past, (k, v), strict=True)]
    rounded_once(y, attended(q, both[0], both[1], 0.5), dtype)
    rounded_once(present, np.stack(both), dtype)


def test_a_mask_by_position() -> None:
    """(batch, 1, longest, longest): queries read the rows of their positions. onnxruntime's CPU lacks this form."""
    mask = (np.random.default_rng(0).random((2, 1, 10, 10)) < 0.6).astype(np.int32)
    mask[..., 0] = 1
    (y,) = contrib("Attention", [X, W, B, mask, PAST], num_heads=HEADS)
    (expected,) = contrib("Attention", [X, W, B, mask[:, 0, 3:8, :8].copy(), PAST], num_heads=HEADS)
    np.testing.assert_array_equal(y, expected)


def test_lengths_among_cumulated_ones() -> None:
    """The first of (3 · batch + 2) entries are the lengths."""
    (y,) = contrib("Attention", [X, W, B, i32(3, 5, 0, 5, 10, 0, 3, 8)], num_heads=HEADS)
    (expected,) = contrib("Attention", [X, W, B, i32(3, 5)], num_heads=HEADS)
    np.testing.assert_array_equal(y, expected)


def test_a_past_in_a_buffer() -> None:
    """past_present_share_buffer: the filled rows count; the present is a new array of the same size."""
    buffer = f32((2, 2, HEADS, 9, SIZE), 5)
    attributes: dict[str, Any] = {"num_heads": HEADS, "unidirectional": 1}
    inputs = [X, W, B, None, buffer, None, i32(3)]
    y, present = contrib("Attention", inputs, outputs=2, past_present_share_buffer=1, **attributes)
    filled = [X, W, B, None, buffer[:, :, :, :3].copy()]
    wanted, rows = contrib("Attention", filled, outputs=2, **attributes)
    np.testing.assert_array_equal(y, wanted)
    np.testing.assert_array_equal(present, np.concatenate((rows, buffer[:, :, :, 8:]), axis=3))


@pytest.mark.parametrize("size", [None, 2], ids=str)
def test_rotary_positions(size: int | None) -> None:
    """Halves of a head are turned against each other by position, the past counted; bases of 10,000."""
    attributes = {} if size is None else {"rotary_embedding_dim": size}
    (y,) = contrib("Attention", [X, W, B, None, PAST], num_heads=HEADS, do_rotary=1, **attributes)
    q, k, v = _projected(X, W, B)
    half = (size or SIZE) // 2
    angle = np.arange(3, 8)[:, None] * 10000.0 ** (-np.arange(half) / half)

    def turned(x: Any) -> Any:
        first, second, rest = np.split(x, [half, 2 * half], axis=-1)
        turns = first * np.cos(angle) - second * np.sin(angle), first * np.sin(angle) + second * np.cos(angle)
        return np.concatenate((*turns, rest), axis=-1)

    keys, values = np.concatenate((PAST[0], turned(k)), axis=2), np.concatenate((PAST[1], v), axis=2)
    assert_close(y, attended(turned(q), keys, values, 0.5).astype(np.float32))


@pytest.mark.parametrize("shape", [(0, 5, 6), (2, 0, 6)], ids=str)
def test_nothing_gives_nothing(shape: tuple[int, ...]) -> None:
    y, present = contrib("Attention", [np.zeros(shape, np.float32), W, B], outputs=2, num_heads=HEADS)
    assert y.shape == (*shape[:2], 12)
    assert present.shape == (2, shape[0], HEADS, shape[1], SIZE)


def test_on_another_array_module() -> None:
    """Masks, a past and a turn."""
    inputs = [X, W, B, i32(4, 8, 0, 1), PAST]
    on_device("Attention", inputs, 2, num_heads=HEADS, unidirectional=1, do_rotary=1)


def _call(*inputs: Any, **attributes: Any) -> None:
    contrib("Attention", [X, W, B, *inputs], outputs=2, **{"num_heads": HEADS, **attributes})


@pytest.mark.parametrize(
    ("inputs", "attributes", "message"),
    [
        ((np.ones((2, 4), np.int32),), {}, r"mask of keys has shape \[2, 4\][\s\S]*2 batch entries, 5 queries and 5"),
        ((None, PAST[:, :1]), {}, r"past must have the shape \(2, 2, 3, rows, 4\)"),
        ((None, PAST), {"qkv_hidden_sizes": [15, 15, 6]}, "past must have the shape"),
        ((), {"qkv_hidden_sizes": [15, 15, 6], "num_heads": 3}, "A present holds keys and values of one size"),
        ((), {"qkv_hidden_sizes": [12, 9, 15]}, r"qkv_hidden_sizes \[12, 9, 15\][\s\S]*Give sizes"),
        ((), {"num_heads": 0}, "num_heads is 0"),
        ((), {"num_heads": 5}, "columns for queries, keys and values of 5 heads"),
        ((None, PAST), {"past_present_share_buffer": 1}, "past_sequence_length is absent"),
        (
            (None, PAST, None, i32(1)),
            {"past_present_share_buffer": 1},
            r"past_sequence_length is 1[\s\S]*buffer of 3 rows",
        ),
        ((), {"do_rotary": 1, "rotary_embedding_dim": 6}, "6 elements of heads of 4 cannot be turned"),
    ],
)
def test_what_does_not_fit_is_refused(inputs: tuple[Any, ...], attributes: dict[str, Any], message: str) -> None:
    """With what was given and what would fit."""
    with pytest.raises(InvalidArgument, match=message):
        _call(*inputs, **attributes)


def test_a_bias_of_scores_of_another_shape_is_refused() -> None:
    """By the library's attention, with the shape of the scores."""
    with pytest.raises(InvalidArgument, match=re.escape("does not broadcast to [2, 3, 5, 5]")):
        _call(None, None, f32((1, 1, 5, 6)))
