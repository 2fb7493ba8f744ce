"""Stacking of the values that iterations leave to the scan outputs of Loop and Scan. Does not depend on frames.

Results are checked and announced to the limits before they are made.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ort_py.dtypes import TensorType, ValueType, numpy_dtype
from ort_py.errors import InvalidArgument, Location

if TYPE_CHECKING:
    from ort_py.planning.plan import StackingStep


def stack(step: StackingStep, index: int, items: list[Any], axis: int = 0) -> Any:
    """The scan output of a number, made of one item an iteration. Without one, it has length zero along the new axis.

    Raises:
        InvalidArgument: The items differ in shape, or are not tensors.
    """
    module = step.scan_modules[index]
    if not items:
        shape, dtype = slice_form(step.scan_types[index])
        shape.insert(axis if axis >= 0 else axis + len(shape) + 1, 0)
        return module.empty(shape, dtype)
    check_stackable(items, f"Scan output {index}", step.location)
    first = items[0]
    rank = first.ndim + 1
    if not -rank <= axis < rank:
        raise InvalidArgument(
            f"Scan output {index} cannot be stacked along axis {axis}.",
            where=step.location,
            why=f"its slices have rank {first.ndim}",
            fix=f"The axis must be in [{-rank}, {rank - 1}].",
        )
    shape = list(first.shape)
    shape.insert(axis % rank, len(items))
    step.check_allocation(shape, first.dtype)
    return module.stack(items, axis=axis)


def check_states(before: Sequence[Any], after: Sequence[Any], where: Location) -> None:
    """Refuse states of a Scan whose shape an iteration changes: the types behind it follow from the initial ones.

    Raises:
        InvalidArgument: A state has another shape than before the iteration, or is not a tensor.
    """
    for index, (old, new) in enumerate(zip(before, after, strict=False)):
        if getattr(new, "shape", None) != old.shape:
            check_stackable((old, new), f"State {index}", where)


def check_stackable(items: Sequence[Any], what: str, where: Location) -> None:
    """Refuse items that make no tensor.

    Raises:
        InvalidArgument: They differ in shape, or are not tensors.
    """
    if not all(hasattr(item, "shape") for item in items):
        found = next(item for item in items if not hasattr(item, "shape"))
        raise InvalidArgument(
            f"{what} is {'absent' if found is None else 'a sequence'}, not a tensor.",
            where=where,
            fix="Only tensors can be stacked: carry a sequence from iteration to iteration instead.",
        )
    first = items[0].shape
    if any(item.shape != first for item in items):
        raise InvalidArgument(
            f"{what} changes its shape between iterations.",
            where=where,
            why=f"shapes {sorted({tuple(item.shape) for item in items})}",
            fix="What iterations stack, and the states of a Scan, must have one shape in all of them.",
        )


def slice_form(value_type: ValueType | None) -> tuple[list[int], Any]:
    """Shape and dtype of what an iteration would have left; unknown dimensions are zero."""
    if not isinstance(value_type, TensorType):
        return [], np.dtype(np.float32)
    shape = [dim if isinstance(dim, int) else 0 for dim in value_type.shape or ()]
    return shape, numpy_dtype(value_type.data_type)


def padding(module: Any, shape: Sequence[int], dtype: Any) -> Any:
    """Make an array without information: zeros or empty strings."""
    return module.full(tuple(shape), "" if np.dtype(dtype).kind == "O" else 0, dtype)
