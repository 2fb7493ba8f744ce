"""Scan outputs made of what iterations left: along any axis, of nothing, and what cannot be stacked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ort_py.dtypes import DataType, SequenceType, TensorType, ValueType
from ort_py.errors import InvalidArgument, Location
from ort_py.execution.stacking import padding, slice_form, stack
from ort_py.planning.plan import ExecutionPlan, NestedPlan, StackingStep


def stacked(items: list[Any], axis: int = 0, value_type: ValueType | None = None) -> Any:
    """`stack` without limits, as scan output 3."""
    step = StackingStep(
        location=Location(node="n", op_type="Scan"),
        body=NestedPlan(ExecutionPlan("g", (), (), (), (), ()), 0, ()),
        scan_types=(value_type,) * 4,
        scan_modules=(np,) * 4,
        check_allocation=lambda _shape, _dtype: None,
    )
    return stack(step, 3, items, axis)


@pytest.mark.parametrize("axis", range(-3, 3))
def test_any_axis_of_the_result(axis: int) -> None:
    """NumPy's axes: from 0 to the rank of an item, or from the back."""
    items = [np.full((2, 3), number) for number in range(4)]
    np.testing.assert_array_equal(stacked(items, axis), np.stack(items, axis))


@pytest.mark.parametrize(
    ("axis", "shape"), [(0, (0, 2, 0)), (1, (2, 0, 0)), (2, (2, 0, 0)), (-1, (2, 0, 0)), (-3, (0, 2, 0))]
)
def test_nothing_has_length_zero_along_the_new_axis(axis: int, shape: tuple[int, ...]) -> None:
    """The declared slice gives the other sizes; unknown ones are zero."""
    found = stacked([], axis, TensorType(DataType.INT8, (2, "K")))
    assert (found.shape, found.dtype) == (shape, np.int8)


@pytest.mark.parametrize("value_type", [None, SequenceType(TensorType(DataType.INT8))])
def test_nothing_of_an_unknown_type(value_type: ValueType | None) -> None:
    """An empty vector of float32: there is nothing to go by."""
    assert slice_form(value_type) == ([], np.float32)
    assert stacked([], 0, value_type).shape == (0,)


@pytest.mark.parametrize("axis", [2, -3])
def test_an_axis_beyond_the_result_is_refused(axis: int) -> None:
    """The error says which axes there are."""
    with pytest.raises(InvalidArgument, match=f"Scan output 3 cannot be stacked along axis {axis}") as caught:
        stacked([np.zeros(2)], axis)
    assert "[-2, 1]" in str(caught.value)
    assert caught.value.location.node == "n"


def test_items_of_other_shapes_are_refused() -> None:
    """All shapes are in the error."""
    with pytest.raises(InvalidArgument, match="Scan output 3 changes its shape") as caught:
        stacked([np.zeros(2), np.zeros(3), np.zeros(2)])
    assert "[(2,), (3,)]" in str(caught.value)


def test_padding_is_zero_or_an_empty_string() -> None:
    """Padding is the neutral content of an array of the type."""
    assert padding(np, (2,), np.dtype(object)).tolist() == ["", ""]
    assert padding(np, (1, 2), np.dtype(bool)).tolist() == [[False, False]]
