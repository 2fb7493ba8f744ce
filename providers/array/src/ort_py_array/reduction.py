"""The Reduce operators: Sum, Mean, Max, Min, Prod, L1, L2, LogSum, LogSumExp, SumSquare.

Axes are an attribute at first and a host input later (Sum from 13, the others from 18); the rest of the meaning is the
same in all versions. Narrow floats are accumulated in float32, float32 stays float32, integers keep their type: sums
and products wrap around, and what needs a root, a logarithm or a quotient passes through float64 and is cut.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any, TypeAlias

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelCallable, KernelContext, KernelDef
from ort_py_array.checks import constant_input, host_ints, normalized_axes
from ort_py_array.parts import converted, widened_by_parts
from ort_py_array.precision import is_narrow, rounded
from ort_py_array.two_forms import two_forms

_Formula: TypeAlias = Callable[[Any, Array, tuple[int, ...], bool, Array | None], Array]
"""``f(xp, x, axes, keepdims, out)``; axes may be negative, and what NumPy refuses about them, it may refuse.

Where `out` is an array, of the type of `x`, the result may be written there; it is so only if `out` is returned."""


def _sum(xp: Any, x: Array, axes: tuple[int, ...], keepdims: bool, out: Array | None = None) -> Array:
    # Arrays' own methods, whose order of arguments NumPy and CuPy share, cost half of what the module's functions do.
    return x.sum(axes, x.dtype, out, keepdims)


def _mean(xp: Any, x: Array, axes: tuple[int, ...], keepdims: bool, out: Array | None = None) -> Array:
    return xp.divide(x.sum(axes, None, out, keepdims), prod([x.shape[axis] for axis in axes]), out)


def _prod(xp: Any, x: Array, axes: tuple[int, ...], keepdims: bool, out: Array | None = None) -> Array:
    return x.prod(axes, x.dtype, out, keepdims)


def _extreme_of_nothing(xp: Any, dtype: Any, *, largest: bool) -> Any:
    if dtype.kind == "b":
        return largest
    if dtype.kind in "iu":
        limits = xp.iinfo(dtype)
        return limits.max if largest else limits.min
    return float("inf") if largest else float("-inf")


def _max(xp: Any, x: Array, axes: tuple[int, ...], keepdims: bool, out: Array | None = None) -> Array:
    return _extremum(xp, x, axes, keepdims, out, largest=True)


def _min(xp: Any, x: Array, axes: tuple[int, ...], keepdims: bool, out: Array | None = None) -> Array:
    return _extremum(xp, x, axes, keepdims, out, largest=False)


def _extremum(xp: Any, x: Array, axes: tuple[int, ...], keepdims: bool, out: Array | None, *, largest: bool) -> Array:
    if x.size == 0:
        # CuPy's reductions take no `initial`; what they would return is written down instead.
        gone = {axis % x.ndim for axis in axes}
        shape = [1 if axis in gone else dim for axis, dim in enumerate(x.shape) if keepdims or axis not in gone]
        return xp.full(shape, _extreme_of_nothing(xp, x.dtype, largest=not largest), x.dtype)
    return (x.max if largest else x.min)(axes, out=out, keepdims=keepdims)


def _l1(xp: Any, x: Array, axes: tuple[int, ...], keepdims: bool, out: Array | None = None) -> Array:
    return _sum(xp, xp.absolute(x), axes, keepdims, out)


def _sum_square(xp: Any, x: Array, axes: tuple[int, ...], keepdims: bool, out: Array | None = None) -> Array:
    return _sum(xp, xp.square(x), axes, keepdims, out)


def _l2(xp: Any, x: Array, axes: tuple[int, ...], keepdims: bool, out: Array | None = None) -> Array:
    # Integers are squared as float64 without a copy of them all.
    squares = xp.square(x, dtype=xp.float64) if x.dtype.kind in "iu" else xp.square(x)
    return xp.sqrt(_sum(xp, squares, axes, keepdims, out), out)


def _log_sum(xp: Any, x: Array, axes: tuple[int, ...], keepdims: bool, out: Array | None = None) -> Array:
    return xp.log(_sum(xp, x, axes, keepdims, out), out)


def _log_sum_exp(xp: Any, x: Array, axes: tuple[int, ...], keepdims: bool, out: Array | None = None) -> Array:
    # The greatest element is taken out of the exponentials; where it is infinite there is nothing to take out.
    top = _max(xp, x, axes, True)
    shift = xp.where(xp.isfinite(top), top, xp.zeros_like(top))
    total = xp.exp(xp.subtract(x, shift)).sum(axes, None, None, True)
    result = xp.add(xp.log(total), shift)
    return result if keepdims else xp.squeeze(result, axis=axes)


_THROUGH_FLOAT = (_mean, _l2, _log_sum, _log_sum_exp)
"""Formulas that leave the integers: these pass through float64."""


def reduction(formula: _Formula, ctx: KernelContext) -> KernelCallable:
    """A Reduce operator of any version; see the module for what depends on the version.

    The callable takes the data and, from the version that has it on, the axes (host, int64, optional).
    Output: the data's type; reduced axes have size 1, or are gone with ``keepdims=0``.

    Raises:
        InvalidArgument: An axis is out of range or given twice.
    """
    xp, where, attributes = ctx.xp, ctx.node.location, ctx.node.attributes
    keepdims = attributes.get("keepdims", 1) == 1
    all_when_empty = not attributes.get("noop_with_empty_axes", 0)
    given = attributes.get("axes")
    known = tuple(given) if given is not None else host_ints(constant_input(ctx, 1))
    inputs = ctx.node.inputs
    decided = known is not None or len(inputs) < 2 or inputs[1] is None

    def run(x: Array, axes_input: Array | None = None, *, out: Array | None = None) -> Array:
        axes = known if known is not None else host_ints(axes_input)
        if not axes:
            axes = tuple(range(x.ndim)) if all_when_empty else ()
        dtype = x.dtype
        target = out
        if dtype.itemsize == 2 and is_narrow(dtype):
            x, target = widened_by_parts(ctx, x), None
        elif dtype.kind in "iu" and formula in _THROUGH_FLOAT:
            x, target = x if formula is _l2 else converted(ctx, x, xp.float64), None
        try:
            result = formula(xp, x, axes, keepdims, target)
        except (IndexError, ValueError):
            normalized_axes(axes, x.ndim, where)  # for its message
            raise
        if out is not None:
            return rounded(result, dtype, out)
        return result if result.dtype == dtype else result.astype(dtype)

    return two_forms(ctx, run, known=decided)


def _definitions(op_type: str, formula: _Formula, attribute_until: int, input_since: int, last: int) -> list[KernelDef]:
    factory = partial(reduction, formula)
    name = f"{__name__}:{formula.__name__.lstrip('_')}"
    return [
        KernelDef(op_type, factory, since=1, until=attribute_until, out=True, strided=True, implementation=name),
        KernelDef(
            op_type,
            factory,
            since=input_since,
            until=last,
            out=True,
            strided=True,
            host_inputs=frozenset({1}),
            implementation=name,
        ),
    ]


KERNELS: list[KernelDef] = [
    *_definitions("ReduceSum", _sum, 11, 13, 13),
    *_definitions("ReduceMean", _mean, 13, 18, 18),
    *_definitions("ReduceMax", _max, 13, 18, 20),
    *_definitions("ReduceMin", _min, 13, 18, 20),
    *_definitions("ReduceProd", _prod, 13, 18, 18),
    *_definitions("ReduceL1", _l1, 13, 18, 18),
    *_definitions("ReduceL2", _l2, 13, 18, 18),
    *_definitions("ReduceLogSum", _log_sum, 13, 18, 28),
    *_definitions("ReduceLogSumExp", _log_sum_exp, 13, 18, 28),
    *_definitions("ReduceSumSquare", _sum_square, 13, 18, 18),
]
