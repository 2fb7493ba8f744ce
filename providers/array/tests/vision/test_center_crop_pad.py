"""CenterCropPad against its definition element by element, on every kind of type; views and refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ort_py.errors import InvalidArgument, LimitError

from ..oracle import BF16, agree, i64, run
from ..test_limits import call


def element_by_element(x: Any, sizes: tuple[int, ...]) -> Any:
    """Origin of each element of the result, by the documentation's words; 0 from outside."""
    y = np.zeros(sizes, x.dtype)
    for place in np.ndindex(*sizes):
        source = []
        for index, have, want in zip(place, x.shape, sizes, strict=True):
            cut, added = max(have - want, 0), max(want - have, 0)
            source.append(index + cut // 2 - added // 2)
        if all(0 <= index < size for index, size in zip(source, x.shape, strict=True)):
            y[place] = x[tuple(source)]
    return y


@settings(max_examples=25, deadline=None, derandomize=True)
@given(pairs=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=3))
def test_crop_and_pad(pairs: list[tuple[int, int]]) -> None:
    """Any mixture of even and odd differences, empty axes and scalars too."""
    shape, sizes = tuple(pair[0] for pair in pairs), tuple(pair[1] for pair in pairs)
    x = np.arange(1, 1 + np.prod(shape, dtype=int), dtype=np.int32).reshape(shape)
    (y,) = run("CenterCropPad", [x, i64(*sizes)])
    np.testing.assert_array_equal(y, element_by_element(x, sizes))


@pytest.mark.parametrize(
    "dtype",
    [*"?bBhHiIlLefdFD", BF16],
    ids=lambda kind: np.dtype(kind).name,
)
def test_every_type(dtype: Any) -> None:
    """Values pass through and the padding is 0, or False."""
    x = np.ones((2, 3), dtype)
    (y,) = run("CenterCropPad", [x, np.array([3, 5], np.int32)])
    assert y.dtype == x.dtype
    np.testing.assert_array_equal(y, element_by_element(x, (3, 5)))


def test_strings() -> None:
    """They are padded with empty strings, ONNX's default value of a string."""
    (y,) = run("CenterCropPad", [np.array(["a", "b"], object), i64(5)])
    assert y.tolist() == ["", "a", "b", "", ""]


@pytest.mark.parametrize("axes", [(0, 2), (-1, 1), (2, 0), ()], ids=str)
def test_axes(axes: tuple[int, ...]) -> None:
    """Only the named ones change, in the order of the sizes; an empty list names none."""
    x = np.arange(60, dtype=np.float32).reshape(3, 4, 5)
    sizes = (5, 2)[: len(axes)]
    wanted = list(x.shape)
    for axis, size in zip(axes, sizes, strict=True):
        wanted[axis] = size
    (y,) = run("CenterCropPad", [x, i64(*sizes)], axes=axes)
    np.testing.assert_array_equal(y, element_by_element(x, tuple(wanted)))


def test_the_reference_agrees() -> None:
    agree("CenterCropPad", [np.arange(20, dtype=np.float32).reshape(4, 5), i64(7, 2)])


def test_a_crop_is_a_view() -> None:
    """Nothing is copied where nothing is added, which the declaration allows."""
    x = np.zeros((9, 9), np.float32)
    assert np.shares_memory(run("CenterCropPad", [x, i64(3, 4)])[0], x)
    assert not np.shares_memory(run("CenterCropPad", [x, i64(3, 10)])[0], x)


@pytest.mark.parametrize(
    ("sizes", "attributes", "text"),
    [
        ((3,), {}, r"CenterCropPad has the sizes \[3\] for the axes \[0, 1\]"),
        ((3, -1), {}, r"CenterCropPad has the sizes \[3, -1\]"),
        ((3, 3), {"axes": (1, -1)}, r"for the axes \[1, 1\]"),
        ((3,), {"axes": (2,)}, "Axis 2 is out of range for rank 2"),
    ],
    ids=str,
)
def test_wrong_inputs(sizes: tuple[int, ...], attributes: dict[str, Any], text: str) -> None:
    """Each is refused with what would be right."""
    with pytest.raises(InvalidArgument, match=text) as caught:
        run("CenterCropPad", [np.zeros((4, 4), np.float32), i64(*sizes)], **attributes)
    assert caught.value.fix


def test_large_results_are_announced() -> None:
    with pytest.raises(LimitError, match="too large"):
        call("CenterCropPad", [np.zeros((4, 4), np.float32), i64(1 << 20, 1 << 20)], {}, opset=18)
