"""Pad: modes, crops, axes, versions, element types, errors."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ort_py.errors import InvalidArgument

from .oracle import BF16, FLOATS, agree, i64, run, sample


@pytest.mark.parametrize("pads", [(0, 1, 2, 0), (1, 0, 0, 1), (0, 0, 0, 0), (2, 2, 2, 2)], ids=str)
@pytest.mark.parametrize("mode", ["constant", "reflect", "edge", "wrap"])
def test_modes(mode: str, pads: Any) -> None:
    """Each border agrees with the reference."""
    agree("Pad", [sample((3, 4), np.float32, 1), i64(*pads)], mode=mode)


@pytest.mark.parametrize("opset", [11, 13, 18, 25])
@pytest.mark.parametrize("dtype", [*FLOATS, np.int8, np.uint64, np.bool_, np.complex64], ids=str)
def test_constants_of_every_type(dtype: Any, opset: int) -> None:
    """The value has the data's type; without one it is 0."""
    x, value = np.ones((2,)).astype(dtype), np.array(1).astype(dtype)
    (result,) = run("Pad", [x, i64(1, 1), value], opset=opset)
    np.testing.assert_array_equal(result, np.ones(4).astype(dtype))
    assert run("Pad", [x, i64(1, 0)], opset=opset)[0].astype(np.complex64).tolist() == [0, 1, 1]
    assert result.dtype == np.dtype(dtype)


def test_float8e8m0_has_no_zero_to_pad_with() -> None:
    """Without a value its least number stands in the border, which is also what Cast makes of 0."""
    x = np.ones(1, ml_dtypes.float8_e8m0fnu)
    (y,) = run("Pad", [x, i64(1, 0)], opset=24)
    assert y.astype(np.float64).tolist() == [2.0**-127, 1]


def test_strings() -> None:
    """Strings are padded with the value, or with nothing."""
    x = np.array(["a"], object)
    assert run("Pad", [x, i64(1, 0), np.array("b", object)])[0].tolist() == ["b", "a"]
    assert run("Pad", [x, i64(0, 1)])[0].tolist() == ["a", ""]
    assert run("Pad", [x, i64(1, 1)], mode="edge")[0].tolist() == ["a", "a", "a"]


@pytest.mark.parametrize("axes", [(1,), (-1,), (1, 0), (-2, -1)], ids=str)
@pytest.mark.parametrize("mode", ["constant", "reflect"])
def test_axes(mode: str, axes: Any) -> None:
    """From version 18 on, pads can name their axes, in any order."""
    agree("Pad", [sample((3, 4), np.float32), i64(*range(2 * len(axes))), None, i64(*axes)], mode=mode)


def test_negative_pads_crop() -> None:
    """Crops and borders mix, on both sides."""
    x = np.arange(5.0)
    assert run("Pad", [x, i64(-1, 2), np.array(9.0)])[0].tolist() == [1, 2, 3, 4, 9, 9]
    assert run("Pad", [x, i64(2, -4)])[0].tolist() == [0, 0, 0]
    assert run("Pad", [x, i64(-2, 1)], mode="edge")[0].tolist() == [2, 3, 4, 4]


@pytest.mark.parametrize("pads", [(-1, 2), (2, -1), (-2, 4), (4, -2), (-3, 7), (-1, -1), (3, -3)], ids=str)
@pytest.mark.parametrize("mode", ["reflect", "edge", "wrap"])
def test_what_a_crop_leaves_is_repeated(mode: str, pads: tuple[int, int]) -> None:
    """Cropped elements are not repeated or mirrored, as in onnxruntime."""
    x = np.arange(5.0)
    begin, end = pads
    cropped = x[max(0, -begin) : 5 - max(0, -end)]
    expected = np.pad(cropped, (max(0, begin), max(0, end)), mode=mode)  # type: ignore[call-overload]  # mode is a str
    np.testing.assert_array_equal(run("Pad", [x, i64(*pads)], mode=mode)[0], expected)


@pytest.mark.parametrize("mode", ["reflect", "edge", "wrap"])
def test_crops_that_leave_nothing(mode: str) -> None:
    """They give an empty tensor, around which nothing can be repeated."""
    assert run("Pad", [np.arange(5.0), i64(-2, -3)], mode=mode)[0].shape == (0,)
    with pytest.raises(InvalidArgument, match="pads of -5 and 2 leave none"):
        run("Pad", [np.arange(5.0), i64(-5, 2)], mode=mode)


@pytest.mark.parametrize("mode", ["reflect", "edge", "wrap"])
def test_borders_wider_than_the_tensor(mode: str) -> None:
    """Mirroring and repeating go on as long as it takes, as in NumPy, which the specification's reference calls.

    The specification sets no bound; onnxruntime refuses to mirror more than once, and repeats as often as asked.
    """
    x = np.arange(3.0)
    np.testing.assert_array_equal(run("Pad", [x, i64(7, 8)], mode=mode)[0], np.pad(x, (7, 8), mode=mode))  # type: ignore[call-overload]  # mode is a str


def test_reflection_of_one_element() -> None:
    """There is only itself to mirror."""
    assert run("Pad", [np.array([5.0]), i64(1, 2)], mode="reflect")[0].tolist() == [5, 5, 5, 5]


def test_result_is_a_copy() -> None:
    """Even without pads, no view is returned, because none is declared."""
    x = np.zeros(3)
    for mode in ("constant", "edge"):
        assert not np.shares_memory(run("Pad", [x, i64(0, 0)], mode=mode)[0], x)


def test_older_versions() -> None:
    x = np.array([1.0], np.float32)
    assert run("Pad", [x], opset=10, pads=(1, 1), value=2.0)[0].tolist() == [2, 1, 2]
    assert run("Pad", [x], opset=1, paddings=(1, 0), mode="edge")[0].tolist() == [1, 1]


@pytest.mark.parametrize("dtype", [np.float32, BF16], ids=str)
def test_pads_in_an_empty_tensor(dtype: Any) -> None:
    """A constant border can surround nothing; nothing can be repeated around nothing."""
    assert run("Pad", [np.zeros(0).astype(dtype), i64(1, 1)])[0].shape == (2,)
    with pytest.raises(InvalidArgument, match="empty axis 0"):
        run("Pad", [np.zeros(0).astype(dtype), i64(1, 1)], mode="edge")


@pytest.mark.parametrize(
    ("pads", "axes", "mode", "message"),
    [
        ((1, 1, 1), None, "constant", "Pad has 3 pads for 2 axes"),
        ((1, 1), (2,), "constant", "Axis 2 is out of range"),
        ((-2, 0, -1, 0), None, "constant", "crop more than"),
        ((1, 1, 1, 1), None, "mirror", "unknown mode 'mirror'"),
    ],
)
def test_bad_pads(pads: Any, axes: Any, mode: str, message: str) -> None:
    inputs = [np.zeros((2, 2)), i64(*pads), None, *([] if axes is None else [i64(*axes)])]
    with pytest.raises(InvalidArgument, match=message):
        run("Pad", inputs if axes else inputs[:2], mode=mode)
