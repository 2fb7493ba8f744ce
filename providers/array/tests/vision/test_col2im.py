"""Col2Im against a loop over every block and tap, onnx.reference, and Im2Col's own arithmetic; types and refusals."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ort_py.errors import InvalidArgument, LimitError
from ort_py_kit.tolerances import assert_close

from ..oracle import BF16, FLOATS, agree, i64, run, sample
from ..test_limits import call


def block_counts(image: Any, block: Any, stride: Any, dilation: Any, pads: Any) -> tuple[int, ...]:
    """Blocks along each axis."""
    rank = len(image)
    return tuple(
        (image[i] + pads[i] + pads[i + rank] - dilation[i] * (block[i] - 1) - 1) // stride[i] + 1 for i in range(rank)
    )


def tap_by_tap(x: Any, image: Any, block: Any, stride: Any, dilation: Any, pads: Any) -> Any:
    """Every column element added at its place, one after the other."""
    counts = block_counts(image, block, stride, dilation, pads)
    columns = x.reshape(x.shape[0], -1, prod(block), prod(counts))
    y = np.zeros((*columns.shape[:2], *image), x.dtype)
    for tap, offsets in enumerate(np.ndindex(*block)):
        for index, place in enumerate(np.ndindex(*counts)):
            at = [
                p * s + o * d - pad
                for p, s, o, d, pad in zip(place, stride, offsets, dilation, pads[: len(image)], strict=True)
            ]
            if all(0 <= position < size for position, size in zip(at, image, strict=True)):
                y[(slice(None), slice(None), *at)] += columns[:, :, tap, index]
    return y


def spatial(rank: int, low: int, high: int) -> st.SearchStrategy[list[int]]:
    """One number per axis."""
    return st.lists(st.integers(low, high), min_size=rank, max_size=rank)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(data=st.data(), rank=st.integers(1, 3), batch=st.integers(1, 2), channels=st.integers(1, 2))
def test_overlap_and_add(data: Any, rank: int, batch: int, channels: int) -> None:
    """Any number of axes, strides that overlap or leave gaps, dilations, uneven pads; few taps and few blocks."""
    image, block = data.draw(spatial(rank, 1, 6)), data.draw(spatial(rank, 1, 4))
    stride, dilation = data.draw(spatial(rank, 1, 3)), data.draw(spatial(rank, 1, 2))
    pads = data.draw(spatial(2 * rank, 0, 3))
    counts = block_counts(image, block, stride, dilation, pads)
    assume(min(counts) > 0)
    x = sample((batch, channels * prod(block), prod(counts)), np.float64)
    (y,) = run(
        "Col2Im",
        [x, i64(*image), i64(*block)],
        strides=tuple(stride),
        dilations=tuple(dilation),
        pads=tuple(pads),
    )
    assert_close(y, tap_by_tap(x, image, block, stride, dilation, pads))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_narrow_floats_are_added_up_in_float32(dtype: Any) -> None:
    """Sums of 25 overlapping blocks are rounded once."""
    x = sample((1, 25, 36), dtype)
    (y,) = run("Col2Im", [x, i64(10, 10), i64(5, 5)])
    ones, zeros = (1, 1), (0,) * 4
    assert_close(y, tap_by_tap(x.astype(np.float64), (10, 10), (5, 5), ones, ones, zeros).astype(dtype))


@pytest.mark.parametrize("dtype", [*"?bBhHiIlLFD"], ids=lambda kind: np.dtype(kind).name)
def test_other_types(dtype: Any) -> None:
    """Integers wrap, bools are or-ed, complex numbers are added."""
    x = np.full((1, 4, 9), 100).astype(dtype)
    (y,) = run("Col2Im", [x, i64(4, 4), i64(2, 2)])
    assert y.dtype == x.dtype
    np.testing.assert_array_equal(y, tap_by_tap(x, (4, 4), (2, 2), (1, 1), (1, 1), (0,) * 4))


def test_strings() -> None:
    """Where blocks meet, strings are joined in the order of the taps; where none is, the string is empty."""
    x = np.array([[["a", "b"], ["c", "d"]]], object)
    (y,) = run("Col2Im", [x, i64(3), i64(2)])
    assert y.tolist() == [[["a", "bc", "d"]]]
    (y,) = run("Col2Im", [x, i64(6), i64(2)], strides=(3,))
    assert y.tolist() == [[["a", "c", "", "b", "d", ""]]]
    many = np.array([[[f"{tap}{block}" for block in "ab"] for tap in range(9)]], object)  # few blocks, many taps
    (y,) = run("Col2Im", [many, i64(10), i64(9)])
    assert y.tolist() == [[["0a", *(f"{tap}b{tap + 1}a" for tap in range(8)), "8b"]]]


def test_blocks_side_by_side_are_a_rearrangement() -> None:
    """Without overlap every column element lands once: cutting the result up again gives the columns."""
    x = sample((2, 3 * 6, 20), np.float32)
    (y,) = run("Col2Im", [x, i64(8, 15), i64(2, 3)], strides=(2, 3))
    again = y.reshape(2, 3, 4, 2, 5, 3).transpose(0, 1, 3, 5, 2, 4).reshape(x.shape)
    np.testing.assert_array_equal(again, x)


@pytest.mark.parametrize(
    "attributes",
    [{}, {"pads": (0, 1, 2, 1)}, {"strides": (2, 1)}, {"dilations": (1, 2)}],
    ids=str,
)
def test_the_reference_agrees(attributes: dict[str, Any]) -> None:
    """The reference is onnx.reference, with one attribute at a time."""
    whole = {"strides": (1, 1), "dilations": (1, 1), "pads": (0,) * 4, **attributes}
    counts = block_counts((5, 6), (2, 3), whole["strides"], whole["dilations"], whole["pads"])
    agree("Col2Im", [sample((1, 12, prod(counts)), np.float32), i64(5, 6), i64(2, 3)], **attributes)


def test_large_pictures_are_added_up_in_parts() -> None:
    """Parts of channels give what all give at once; a block as large as the picture has few places, many taps."""
    x = sample((3, 9 * 20, 62 * 62), np.float32)
    (y,) = run("Col2Im", [x, i64(64, 64), i64(3, 3)])
    for n, c in product((0, 2), (0, 19)):
        part = x[n : n + 1, 9 * c : 9 * c + 9]
        assert_close(run("Col2Im", [part, i64(64, 64), i64(3, 3)])[0][0, 0], y[n, c])
    whole = sample((1, 62 * 62, 9), np.float32)
    (y,) = run("Col2Im", [whole, i64(64, 64), i64(62, 62)])
    assert_close(y, run("Col2Im", [whole.swapaxes(1, 2).copy(), i64(64, 64), i64(3, 3)])[0])


def test_no_batch() -> None:
    """An empty batch gives an empty picture of the right shape."""
    (y,) = run("Col2Im", [np.zeros((0, 4, 9), BF16), i64(4, 4), i64(2, 2)])
    assert (y.shape, y.dtype) == ((0, 1, 4, 4), BF16)


@pytest.mark.parametrize(
    ("shape", "image", "block", "attributes", "text"),
    [
        ((4, 9), (4, 4), (2, 2), {}, r"Col2Im needs \[n\]\[c · 4\]\[9\] columns"),
        ((1, 4, 9), (), (), {}, r"image_shape is \[\] for a picture of 0 spatial axes"),
        ((1, 4, 9), (4, 4), (2,), {}, r"block_shape is \[2\]"),
        ((1, 4, 9), (4, 4), (2, 0), {}, r"block_shape is \[2, 0\]"),
        ((1, 4, 9), (4, -4), (2, 2), {}, r"image_shape is \[4, -4\]"),
        ((1, 4, 9), (4, 4), (2, 2), {"strides": (0, 1)}, r"strides is \[0, 1\]"),
        ((1, 4, 9), (4, 4), (2, 2), {"dilations": (1,)}, r"dilations is \[1\]"),
        ((1, 4, 9), (4, 4), (2, 2), {"pads": (0, -1, 0, 0)}, r"pads is \[0, -1, 0, 0\]"),
        ((1, 4, 8), (4, 4), (2, 2), {}, r"Col2Im needs \[n\]\[c · 4\]\[9\] columns"),
        ((1, 5, 9), (4, 4), (2, 2), {}, r"Col2Im needs \[n\]\[c · 4\]\[9\] columns"),
        ((1, 25, 0), (4, 4), (5, 5), {}, r"Blocks of \[5, 5\] do not fit into a picture of \[4, 4\]"),
    ],
    ids=str,
)
def test_wrong_inputs(
    shape: tuple[int, ...], image: tuple[int, ...], block: tuple[int, ...], attributes: dict[str, Any], text: str
) -> None:
    """Each is refused with what would be right."""
    with pytest.raises(InvalidArgument, match=text) as caught:
        run("Col2Im", [np.zeros(shape, np.float32), i64(*image), i64(*block)], **attributes)
    assert caught.value.fix


def test_large_pictures_are_announced() -> None:
    inputs = [np.zeros((1, 1, 4), np.float32), i64(1 << 20, 1 << 20), i64(1, 1)]
    with pytest.raises(LimitError, match="too large"):
        call("Col2Im", inputs, {"strides": (1 << 19, 1 << 19)}, opset=18)
