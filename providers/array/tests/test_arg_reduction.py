"""ArgMax, ArgMin, CumSum and CumProd."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ort_py.errors import InvalidArgument

from .oracle import FLOATS, agree, i64, run, sample


@pytest.mark.parametrize("dtype", [*FLOATS, np.int8, np.uint64], ids=str)
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("op_type", ["ArgMax", "ArgMin"])
def test_positions(op_type: str, axis: int, dtype: Any) -> None:
    """Positions are int64, whatever the data."""
    agree(op_type, [sample((3, 4, 5), dtype, 1)], axis=axis)


@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("op_type", ["ArgMax", "ArgMin"])
def test_ties(op_type: str, last: int, keepdims: int) -> None:
    agree(op_type, [np.array([[2, 2, 2], [1, 3, 3]], np.float32)], axis=1, select_last_index=last, keepdims=keepdims)


@pytest.mark.parametrize("opset", [7, 11, 12, 13])
def test_versions(opset: int) -> None:
    """All versions are one, `select_last_index` aside."""
    agree("ArgMax", [sample((3, 4), np.float32)], opset=opset, axis=1)


@pytest.mark.parametrize("keepdims", [0, 1])
def test_vectors(keepdims: int) -> None:
    """The position in a vector is one number, without axes or with one."""
    agree("ArgMax", [np.array([1, 3, 2], np.float32)], axis=0, keepdims=keepdims)


def test_other_axes_may_be_empty() -> None:
    """An array without lines has no positions."""
    assert run("ArgMax", [np.zeros((0, 3), np.float32)], axis=1, keepdims=1)[0].shape == (0, 1)


def test_empty_axis() -> None:
    """An empty axis has no extreme element."""
    with pytest.raises(InvalidArgument, match="ArgMax of an empty axis"):
        run("ArgMax", [np.zeros((2, 0), np.float32)], axis=1)


def test_axis_out_of_range() -> None:
    """An axis that does not exist is refused."""
    with pytest.raises(InvalidArgument, match="Axis 2 is out of range for rank 2"):
        run("ArgMin", [np.zeros((2, 2), np.float32)], axis=2)


@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("reverse", [0, 1])
@pytest.mark.parametrize("dtype", [*FLOATS[2:], np.int32, np.uint64], ids=str)
@pytest.mark.parametrize("op_type", ["CumSum", "CumProd"])
def test_running_totals(op_type: str, dtype: Any, reverse: int, exclusive: int) -> None:
    """Forward or backward, with or without the element itself, along any axis."""
    for axis in (0, 1, -1):
        agree(op_type, [sample((3, 4), dtype, 1, 1, 3), np.array(axis)], reverse=reverse, exclusive=exclusive)


def test_running_total_of_an_empty_axis() -> None:
    assert run("CumSum", [np.zeros((2, 0), np.float32), i64(1)], exclusive=1)[0].shape == (2, 0)


def test_running_total_axis_out_of_range() -> None:
    """An axis that does not exist is refused."""
    with pytest.raises(InvalidArgument, match="Axis -3 is out of range"):
        run("CumSum", [np.zeros((2, 2), np.float32), i64(-3)])


@pytest.mark.parametrize("axes", [(), (0, 1)], ids=str)
def test_running_total_along_other_than_one_axis(axes: tuple[int, ...]) -> None:
    """It runs along one axis: none and two are refused."""
    with pytest.raises(InvalidArgument, match=r"CumSum has the axes \(.*\)\.(.|\n)*It must be one axis"):
        run("CumSum", [np.zeros((2, 2), np.float32), i64(*axes)])


def test_narrow_floats_run_wide() -> None:
    """A float16 running sum does not lose its small terms on the way."""
    (result,) = run("CumSum", [np.full(4000, 1, np.float16), i64(0)])
    assert result[-1] == 4000
