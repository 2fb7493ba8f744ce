"""TopK: order, ties, NaN, versions, and its shortcut for a few of many. Unique: its four outputs in both orders."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ort_py.errors import InvalidArgument

from .oracle import FLOATS, agree, i64, run, sample


@pytest.mark.parametrize("dtype", [*FLOATS[2:], np.int8, np.uint64], ids=str)
@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_top_k(axis: int, largest: int, dtype: Any) -> None:
    """Values and indices along any axis, greatest or smallest first."""
    x = np.random.default_rng(1).permutation(60).reshape(4, 5, 3).astype(dtype)
    agree("TopK", [x, i64(2)], outputs=2, axis=axis, largest=largest)


@pytest.mark.parametrize("opset", [1, 10, 11, 24])
def test_versions(opset: int) -> None:
    x = np.array([1, 3, 2], np.float32)
    values, indices = (
        run("TopK", [x], opset=opset, outputs=2, k=2)
        if opset == 1
        else run("TopK", [x, i64(2)], opset=opset, outputs=2)
    )
    assert (values.tolist(), indices.tolist()) == ([3, 2], [1, 2])
    assert indices.dtype == np.int64


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize("size", [9, 900])
def test_ties_come_in_the_order_of_their_indices(size: int, largest: int, dtype: Any) -> None:
    """Whether the axis is sorted or partitioned."""
    x = np.tile(np.array([1.0, 2.0, 2.0]), (2, size // 3)).astype(dtype)
    values, indices = run("TopK", [x, i64(4)], outputs=2, largest=largest)
    expected = [1, 2, 4, 5] if largest else ([0, 3, 6, 1] if size == 9 else [0, 3, 6, 9])
    assert indices.tolist() == [expected, expected]
    np.testing.assert_array_equal(values, np.take_along_axis(x, indices, 1))


@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_few_of_many_are_what_sorting_gives(axis: int, largest: int) -> None:
    """The shortcut agrees with the whole sort, equal elements included."""
    x = np.moveaxis(np.random.default_rng(2).integers(0, 50, (3, 2, 500)), 2, axis).astype(np.float32)
    values, indices = run("TopK", [x, i64(20)], outputs=2, axis=axis, largest=largest)
    order = np.argsort(-x if largest else x, axis=axis, kind="stable")
    expected = np.take(order, range(20), axis=axis)
    np.testing.assert_array_equal(indices, expected)
    np.testing.assert_array_equal(values, np.take_along_axis(x, expected, axis))


@pytest.mark.parametrize("size", [5, 500])
@pytest.mark.parametrize("count", [1, 4, 60])
def test_nan_is_the_greatest(count: int, size: int) -> None:
    """NaN comes first among the greatest and last among the smallest, in either way of finding them."""
    x = np.arange(size, dtype=np.float32)
    x[[1, 3]] = np.nan
    k = min(count, size)
    assert run("TopK", [x, i64(k)], outputs=2)[1].tolist()[:2] == [1, 3][:k]
    smallest = [index for index in range(size) if index not in (1, 3)] + [1, 3]
    assert run("TopK", [x, i64(k)], outputs=2, largest=0)[1].tolist() == smallest[:k]


@pytest.mark.parametrize("size", [400, 500, 1003])
def test_few_of_many_real_numbers(size: int) -> None:
    """Whether or not the rows can be dealt evenly; the extremes at either end, where a row may leave a rest."""
    x = np.random.default_rng(4).normal(size=(3, size)).astype(np.float32)
    x[0, -1], x[1, 0], x[2, -2:] = 9, 9, -9
    for largest in (0, 1):
        indices = run("TopK", [x, i64(20)], outputs=2, largest=largest)[1]
        np.testing.assert_array_equal(indices, np.argsort(-x if largest else x, axis=1, kind="stable")[:, :20])


@pytest.mark.parametrize("place", [0, 499])
def test_one_nan_among_many(place: int) -> None:
    """Wherever it is: a row may not be dealt evenly."""
    x = np.random.default_rng(5).normal(size=(2, 500)).astype(np.float32)
    x[1, place] = np.nan
    assert run("TopK", [x, i64(20)], outputs=2)[1][1, 0] == place
    assert place not in run("TopK", [x, i64(20)], outputs=2, largest=0)[1][1]


def test_all_and_none() -> None:
    """k may be the whole axis or nothing."""
    x = np.array([1, 3, 2], np.float32)
    assert run("TopK", [x, i64(3)], outputs=2)[0].tolist() == [3, 2, 1]
    assert run("TopK", [x, i64(0)], outputs=2)[0].tolist() == []


def test_unsorted_is_sorted_too() -> None:
    x = sample((10,), np.float32)
    assert run("TopK", [x, i64(3)], outputs=2, sorted=0)[0].tolist() == np.sort(x)[:-4:-1].tolist()


@pytest.mark.parametrize("k", [4, -1])
def test_k_out_of_range(k: int) -> None:
    """k is at most the axis."""
    with pytest.raises(InvalidArgument, match=f"TopK cannot find {k} elements"):
        run("TopK", [np.zeros(3, np.float32), i64(k)], outputs=2)


@pytest.mark.parametrize("dtype", [np.float32, np.int8, object], ids=str)
@pytest.mark.parametrize("in_order", [0, 1])
def test_unique_elements(in_order: int, dtype: Any) -> None:
    """Different elements, sorted or as they come, with their places and counts, strings too."""
    x = np.array([[3, 1], [2, 3]]).astype(str if dtype is object else dtype).astype(dtype)
    values, first, inverse, counts = run("Unique", [x], outputs=4, sorted=in_order)
    expected = [1, 2, 3] if in_order else [3, 1, 2]
    assert [int(value) for value in values] == expected
    np.testing.assert_array_equal(x.reshape(-1)[first], values)
    np.testing.assert_array_equal(values[inverse], x.reshape(-1))
    assert counts.tolist() == [1, 1, 2] if in_order else [2, 1, 1]
    assert {part.dtype for part in (first, inverse, counts)} == {np.dtype(np.int64)}


@pytest.mark.parametrize("in_order", [0, 1])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_unique_slices(axis: int, in_order: int) -> None:
    """Whole slices along an axis; the reference is wrong for unsorted ones of another axis than the first."""
    x = np.array([[2, 2, 0], [1, 1, 0], [2, 2, 0]], np.float32)
    values, first, inverse, counts = run("Unique", [x], outputs=4, axis=axis, sorted=in_order)
    np.testing.assert_array_equal(np.take(x, first, axis), values)
    np.testing.assert_array_equal(np.take(values, inverse, axis), x)
    assert sorted(counts.tolist()) == [1, 2]
    other = 1 if axis == 0 else 2
    assert first.tolist() == ([other, 0] if in_order else [0, other])


def test_unique_axis_out_of_range() -> None:
    """An axis that does not exist is refused."""
    with pytest.raises(InvalidArgument, match="Axis 1 is out of range for rank 1"):
        run("Unique", [np.zeros(2, np.float32)], outputs=4, axis=1)
