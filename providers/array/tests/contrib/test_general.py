"""Operators that ONNX has too, in com.microsoft, and Inverse, NGramRepeatBlock and CDist: against onnxruntime."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ort_py import errors
from ort_py.errors import InvalidArgument
from ort_py_kit.tolerances import assert_close

from ..oracle import BF16, run, sample
from ..runtime_oracle import agree_with_runtime
from .closed_forms import DOMAIN, contrib, rounded_once


def _agree(op_type: str, inputs: list[Any], outputs: int = 1, **attributes: Any) -> None:
    agree_with_runtime(op_type, inputs, opset=1, domain=DOMAIN, outputs=outputs, **attributes)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("shape", [(4, 4), (2, 3, 5, 5), (3, 1, 1)], ids=str)
def test_inverse(shape: tuple[int, ...], dtype: Any) -> None:
    x = (sample(shape, np.float64) + 8 * np.eye(shape[-1])).astype(dtype)
    rounded_once(contrib("Inverse", [x])[0], np.linalg.inv(x.astype(np.float64)), dtype)
    _agree("Inverse", [x])


def test_inverse_of_nothing() -> None:
    """No matrices, or matrices without entries."""
    for shape in ((0, 3, 3), (2, 0, 0)):
        assert contrib("Inverse", [np.zeros(shape, np.float32)])[0].shape == shape


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.ones((3, 2, 3), np.float32), "Inverse needs square matrices"),
        (np.ones((2, 2), np.float32), r"A matrix has no inverse[\s\S]*must be invertible"),
    ],
)
def test_inverse_refuses(x: Any, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        contrib("Inverse", [x])


@pytest.mark.parametrize("upper", [0, 1])
@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.bool_, BF16, np.uint16], ids=str)
def test_trilu(dtype: Any, upper: int) -> None:
    x = sample((2, 4, 5), np.float32).astype(dtype)
    for inputs in ([x], [x, np.array(-1)]):
        expected = run("Trilu", inputs, opset=14, upper=upper)[0]
        np.testing.assert_array_equal(contrib("Trilu", inputs, upper=upper)[0], expected)
    _agree("Trilu", [sample((2, 4, 5), np.float32), np.array(1)], upper=upper)


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge"])
@pytest.mark.parametrize("pads", [[1, 0, 2, 1], [[1, 2, 0, 1]]], ids=["vector", "row"])
def test_pad(pads: Any, mode: str) -> None:
    """Pads may stand in a row of a matrix; the value may be absent."""
    _agree("Pad", [sample((3, 4), np.float32), np.array(pads)], mode=mode)
    _agree("Pad", [sample((3, 4), np.float32), np.array(pads), np.array([2.0], np.float32)], mode=mode)


def test_pad_crops() -> None:
    _agree("Pad", [sample((3, 4), np.float32), np.array([-1, 1, 0, -2]), np.array(1.0, np.float32)])


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.int8, np.float64])
def test_unique(dtype: Any) -> None:
    """In the order of first places, with places of all and counts."""
    x = sample((40,), np.int64, 0, -4, 4).astype(dtype)
    y, places, counts = contrib("Unique", [x], outputs=3)
    np.testing.assert_array_equal(y[places], x)
    assert y.tolist() == list(dict.fromkeys(x.tolist()))
    np.testing.assert_array_equal(counts, [(x == value).sum() for value in y])
    if dtype is np.float32:  # the only type that onnxruntime's CPU has
        _agree("Unique", [x], outputs=3)


def test_unique_of_strings_and_of_nothing() -> None:
    """Different strings are kept apart; an empty vector has no elements."""
    y, places, counts = contrib("Unique", [np.array(["b", "a", "b"], object)], outputs=3)
    assert (y.tolist(), places.tolist(), counts.tolist()) == (["b", "a"], [0, 1, 0], [2, 1])
    assert [part.size for part in contrib("Unique", [np.zeros(0, np.float32)], outputs=3)] == [0, 0, 0]


def test_unique_refuses_matrices() -> None:
    with pytest.raises(InvalidArgument, match="Unique needs a vector; the input has rank 2"):
        contrib("Unique", [np.zeros((2, 2), np.float32)], outputs=3)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16, np.int32, np.int64])
def test_range(dtype: Any) -> None:
    """Scalars or vectors of one element; the step is 1 where it is absent."""
    numbers = [np.array(value, dtype) for value in (1, 9, 3)]
    _agree("Range", numbers)
    _agree("Range", numbers[:2])
    _agree("Range", [number.reshape(1) for number in numbers])


@pytest.mark.parametrize(
    ("numbers", "message"), [([[1, 2], 9, 3], r"start has 2 elements instead of one"), ([1, 9, 0], "in steps of 0")]
)
def test_range_refuses(numbers: list[Any], message: str) -> None:
    """Several numbers in one input, and a step of 0."""
    with pytest.raises(InvalidArgument, match=message):
        contrib("Range", [np.array(number, np.int64) for number in numbers])


@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_gather_nd(kind: Any) -> None:
    _agree("GatherND", [sample((3, 4, 5), np.float32), np.array([[0, 1], [-1, 2]], kind)])
    words = np.array([["a", "b"], ["c", "d"]], object)
    assert contrib("GatherND", [words, np.array([[1, 0]], kind)])[0].tolist() == ["c"]


@pytest.mark.parametrize("metric", ["sqeuclidean", "euclidean"])
@pytest.mark.parametrize("width", [3, 20])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_cdist(dtype: Any, width: int, metric: str) -> None:
    """Both metrics, short and long rows."""
    _agree("CDist", [sample((6, width), dtype), sample((9, width), dtype, 1)], metric=metric)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.integers(0, 6), st.integers(0, 6), st.integers(0, 5), st.booleans(), st.integers(0, 99))
def test_cdist_of_any_shape(m: int, k: int, n: int, double: bool, seed: int) -> None:
    """No rows, no columns; points far from 0 and near each other keep their digits."""
    dtype = np.float64 if double else np.float32
    a, b = (sample((rows, n), dtype, seed + rows, 1000.0, 1001.0) for rows in (m, k))
    exact = ((a.astype(np.longdouble)[:, None] - b.astype(np.longdouble)) ** 2).sum(-1)
    np.testing.assert_allclose(contrib("CDist", [a, b])[0], exact, rtol=1e-5, atol=1e-7)


def test_cdist_of_near_points() -> None:
    """Points that nearly meet far from all others keep their digits, in float64 too."""
    far = sample((2, 700), np.float64, 0, -1e3, 1e3)
    a = np.repeat(far, 300, axis=0)
    b = a[::3] + sample((200, 700), np.float64, 1, -1e-6, 1e-6)
    exact = ((a.astype(np.longdouble)[:, None, :50] - b[:, :50]) ** 2).sum(-1)
    np.testing.assert_allclose(contrib("CDist", [a[:, :50].copy(), b[:, :50].copy()])[0], exact, rtol=1e-9)
    assert_close(contrib("CDist", [a, b])[0], np.stack([((row - b) ** 2).sum(-1) for row in a]))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_cdist_of_infinite_points(dtype: Any) -> None:
    """They are infinitely far from all others, and spoil no other's distance; NaN has none."""
    a, b = np.array([[0, 0], [np.inf, 0], [np.nan, 1]], dtype), np.array([[3, 4], [-np.inf, 0], [0, 0]], dtype)
    expected = np.array([[25, np.inf, 0], [np.inf, np.inf, np.inf], [np.nan] * 3], dtype)
    assert_close(contrib("CDist", [a, b])[0], expected)


def test_cdist_refuses() -> None:
    """Other metrics, and rows of different lengths."""
    a = np.ones((2, 3), np.float32)
    with pytest.raises(errors.NotImplemented, match=r"The metric 'cosine'[\s\S]*'euclidean'"):
        contrib("CDist", [a, a], metric="cosine")
    with pytest.raises(InvalidArgument, match="two matrices of the same width"):
        contrib("CDist", [a, a.T])


@pytest.mark.parametrize("bias", [[], [sample((3,), np.float32, 3)]], ids=["plain", "bias"])
@pytest.mark.parametrize(
    "attributes", [{}, {"strides": [2, 1], "output_padding": [1, 0], "dilations": [1, 2]}], ids=str
)
def test_conv_transpose_with_dynamic_pads(attributes: dict[str, Any], bias: list[Any]) -> None:
    """Pads at both ends of each axis are an input."""
    x, w = sample((2, 2, 5, 6), np.float32), sample((2, 3, 3, 3), np.float32, 1)
    _agree("ConvTransposeWithDynamicPads", [x, w, np.array([1, 0, 1, 2]), *bias], **attributes)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_conv_transpose_without_pads(dtype: Any) -> None:
    """Where the input is absent, nothing is cut off, as in ONNX (onnxruntime insists on it)."""
    x, w = sample((1, 2, 4, 4), dtype), sample((2, 3, 3, 3), dtype, 1)
    np.testing.assert_array_equal(contrib("ConvTransposeWithDynamicPads", [x, w])[0], run("ConvTranspose", [x, w])[0])


def test_conv_transpose_refuses_pads_of_another_rank() -> None:
    inputs = [np.ones((1, 2, 4, 4), np.float32), np.ones((2, 3, 3, 3), np.float32), np.array([1, 1])]
    with pytest.raises(InvalidArgument, match=re.escape("pads is [1, 1]")):
        contrib("ConvTransposeWithDynamicPads", inputs)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.integers(1, 4), st.integers(1, 15), st.integers(1, 5), st.integers(0, 99))
def test_n_gram_repeat_block(batch: int, length: int, size: int, seed: int) -> None:
    """The result equals a loop over positions, and onnxruntime's."""
    tokens = np.random.default_rng(seed).integers(0, 3, (batch, length))
    scores = sample((batch, 5), np.float32, seed)
    expected = scores.copy()
    for b, row in enumerate(tokens.tolist()):
        tail = row[length - size + 1 :]
        for start in range(length - size + 1):
            if row[start : start + size - 1] == tail:
                expected[b, row[start + size - 1]] = -np.inf
    np.testing.assert_array_equal(contrib("NGramRepeatBlock", [tokens, scores], ngram_size=size)[0], expected)
    _agree("NGramRepeatBlock", [tokens, scores], ngram_size=size)


@pytest.mark.parametrize(
    ("tokens", "scores", "size", "message"),
    [
        ([[0, 1, 0]], (1, 5), 0, r"ngram_size is 0[\s\S]*at least 1"),
        ([[0, 9, 0]], (1, 5), 2, r"Token 9 has no score[\s\S]*5 columns[\s\S]*vocabulary"),
        ([[0, -1, 0]], (1, 5), 2, "Token -1 has no score"),
        ([[0, 1, 0]], (2, 5), 2, "Tokens and scores must be matrices of one batch"),
    ],
)
def test_n_gram_repeat_block_refuses(tokens: Any, scores: tuple[int, int], size: int, message: str) -> None:
    """Sizes, tokens and shapes that do not fit."""
    with pytest.raises(InvalidArgument, match=message):
        contrib("NGramRepeatBlock", [np.array(tokens), np.zeros(scores, np.float32)], ngram_size=size)


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("padding", ["zeros", "reflection"])
def test_grid_sample(padding: str, mode: str) -> None:
    """The names of modes are those of opset 16 (its border mode is compared in ONNX's domain)."""
    inputs = [sample((2, 3, 5, 6), np.float32), sample((2, 3, 4, 2), np.float32, 1, -1.3, 1.3)]
    _agree("GridSample", inputs, mode=mode, padding_mode=padding, align_corners=1)


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_grid_sample_of_other_floats(dtype: Any) -> None:
    inputs = [sample((1, 2, 5, 6), dtype), sample((1, 3, 4, 2), dtype, 1, -1, 1)]
    np.testing.assert_array_equal(contrib("GridSample", inputs)[0], run("GridSample", inputs, opset=16)[0])
