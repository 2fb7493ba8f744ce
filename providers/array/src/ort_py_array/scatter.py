"""ScatterElements, ScatterND and the older Scatter: a copy of a tensor with elements replaced or combined.

Without a reduction, ONNX leaves open which of several updates of one element wins; NumPy keeps the last. With a
reduction all count; narrow floats are then summed and multiplied in float32.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelCallable, KernelContext, KernelDef
from ort_py.errors import InvalidArgument
from ort_py_array.checks import normalized_axis, shape_error
from ort_py_array.indexing import element_positions, row_positions
from ort_py_array.parts import LARGE_PART, rounded_by_parts, widened_by_parts
from ort_py_array.two_forms import copied

_COMBINE = {"add": "add", "mul": "multiply", "min": "minimum", "max": "maximum"}

_Combine = Callable[[Array, tuple[int, ...], Any, Array, "Array | None"], Array]
"""``f(x, shape, places, updates, out)``: `x` seen in `shape`, with `updates` put into `places`, which are rows that may
repeat, or a block as slices. `out` is None, or an array of the shape of `x`, which may be `x`."""


def _combine(ctx: KernelContext) -> _Combine:
    """The function of the node's `reduction`.

    Raises:
        InvalidArgument: There is no such reduction.
    """
    xp, reduction = ctx.xp, ctx.node.attributes.get("reduction", "none")

    def replaced(x: Array, shape: tuple[int, ...], places: Any, updates: Array, out: Array | None) -> Array:
        result = copied(xp, x, out)
        if updates.size:
            result.reshape(shape)[places] = updates
        return result

    if reduction == "none":
        return replaced
    if reduction not in _COMBINE:
        raise InvalidArgument(
            f"{ctx.node.op_type} has the unknown reduction '{reduction}'.",
            where=ctx.node.location,
            fix=f"Known: none, {', '.join(_COMBINE)}.",
        )
    combine = getattr(xp, _COMBINE[reduction])

    def reduced(x: Array, shape: tuple[int, ...], places: Any, updates: Array, out: Array | None) -> Array:
        wide = widened_by_parts(ctx, x)
        result = copied(xp, x, out) if wide is x else xp.ascontiguousarray(wide)
        if updates.size:
            target, given = result.reshape(shape), widened_by_parts(ctx, updates)
            if isinstance(places, tuple):
                part = target[places]
                combine(part, given, out=part)
            else:
                for start in range(0, places.shape[0], LARGE_PART):
                    ctx.check_time()
                    some = slice(start, start + LARGE_PART)
                    combine.at(target, places[some], given[some] if given.ndim else given)
        return rounded_by_parts(ctx, result, x.dtype, out)

    return reduced


def scatter_elements(ctx: KernelContext) -> KernelCallable:
    """ScatterElements-11..18: one update for each index; `reduction` add, mul from 16, min, max from 18.

    Scatter-9 is its older name.

    Raises:
        InvalidArgument: The shapes do not fit, an index or `axis` is out of range, the reduction is unknown.
    """
    axis, where, combined = ctx.node.attributes.get("axis", 0), ctx.node.location, _combine(ctx)

    def run(x: Array, indices: Array, updates: Array, out: Array | None = None) -> Array:
        if updates.shape != indices.shape:
            raise shape_error(
                "Updates and indices must have one shape.", where, [x.shape, indices.shape, updates.shape]
            )
        places = element_positions(ctx, x.shape, indices, normalized_axis(axis, x.ndim, where))
        if isinstance(places, tuple):
            return combined(x, x.shape, places, updates, out)
        return combined(x, (-1,), places.reshape(-1), updates.reshape(-1), out)

    return run


def scatter_nd(ctx: KernelContext) -> KernelCallable:
    """ScatterND-11..18: slices put where tuples of indices say; reductions as in ScatterElements.

    Raises:
        InvalidArgument: The shapes do not fit, an index is out of range, the reduction is unknown.
    """
    combined = _combine(ctx)

    def run(x: Array, indices: Array, updates: Array, out: Array | None = None) -> Array:
        rows = row_positions(ctx, x.shape, indices)
        inner = tuple(x.shape[indices.shape[-1] :])
        if tuple(updates.shape) != (*rows.shape, *inner):
            raise shape_error(
                f"The updates must have the shape {(*rows.shape, *inner)}.",
                ctx.node.location,
                [x.shape, indices.shape, updates.shape],
            )
        width = prod(inner)
        return combined(x, (-1, width), rows.reshape(-1), updates.reshape((rows.size, width)), out)

    return run


_DECLARED: dict[str, Any] = {"strided": True, "out": True, "inplace": ((0, 0),)}

KERNELS: list[KernelDef] = [
    KernelDef(op_type, factory, since=since, until=until, implementation=f"{__name__}:{factory.__name__}", **_DECLARED)
    for op_type, factory, since, until in (
        ("ScatterElements", scatter_elements, 11, 18),
        ("Scatter", scatter_elements, 9, 11),
        ("ScatterND", scatter_nd, 11, 18),
    )
]
