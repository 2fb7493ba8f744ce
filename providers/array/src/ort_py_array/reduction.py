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
from ort_py_array.precision import is_narrow

_Formula: TypeAlias = Callable[[Any, Array, tuple[int, ...], bool], Array]
"""``f(xp, x, axes, keepdims)``; axes may be negative, and what NumPy refuses about them, it may refuse."""


def _sum(xp: Any, x: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    # Arrays' own methods, whose order of arguments NumPy and CuPy share, cost half of what the module's functions do.
    return x.sum(axes, x.dtype, None, keepdims)


def _mean(xp: Any, x: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    return xp.divide(x.sum(axes, None, None, keepdims), prod([x.shape[axis] for axis in axes]))


def _prod(xp: Any, x: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    return x.prod(axes, x.dtype, None, keepdims)


def _extreme_of_nothing(xp: Any, dtype: Any, *, largest: bool) -> Any:
    if dtype.kind == "b":
        return largest
    if dtype.kind in "iu":
        limits = xp.iinfo(dtype)
        return limits.max if largest else limits.min
    return float("inf") if largest else float("-inf")


def _max(xp: Any, x: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    return _extremum(xp, x, axes, keepdims, largest=True)


def _min(xp: Any, x: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    return _extremum(xp, x, axes, keepdims, largest=False)


def _extremum(xp: Any, x: Array, axes: tuple[int, ...], keepdims: bool, *, largest: bool) -> Array:
    if x.size == 0:
        # CuPy's reductions take no `initial`; what they would return is written down instead.
        gone = {axis % x.ndim for axis in axes}
        shape = [1 if axis in gone else dim for axis, dim in enumerate(x.shape) if keepdims or axis not in gone]
        return xp.full(shape, _extreme_of_nothing(xp, x.dtype, largest=not largest), x.dtype)
    return (x.max if largest else x.min)(axes, None, keepdims)


def _l1(xp: Any, x: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    return _sum(xp, xp.absolute(x), axes, keepdims)


def _sum_square(xp: Any, x: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    return _sum(xp, xp.square(x), axes, keepdims)


def _l2(xp: Any, x: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    return xp.sqrt(_sum_square(xp, x, axes, keepdims))


def _log_sum(xp: Any, x: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    return xp.log(_sum(xp, x, axes, keepdims))


def _log_sum_exp(xp: Any, x: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    # The greatest element is taken out of the exponentials; where it is infinite there is nothing to take out.
    top = _max(xp, x, axes, keepdims=True)
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
    keepdims = bool(attributes.get("keepdims", 1))
    all_when_empty = not attributes.get("noop_with_empty_axes", 0)
    given = attributes.get("axes")
    known = tuple(given) if given is not None else host_ints(constant_input(ctx, 1))

    def run(x: Array, axes_input: Array | None = None) -> Array:
        axes = known if known is not None else host_ints(axes_input)
        if not axes:
            axes = tuple(range(x.ndim)) if all_when_empty else ()
        dtype = x.dtype
        if dtype.itemsize == 2 and is_narrow(dtype):
            x = x.astype(xp.float32)
        elif dtype.kind in "iu" and formula in _THROUGH_FLOAT:
            x = x.astype(xp.float64)
        try:
            result = formula(xp, x, axes, keepdims)
        except (IndexError, ValueError):
            normalized_axes(axes, x.ndim, where)  # for its message
            raise
        return result if result.dtype == dtype else result.astype(dtype)

    return run


def _definitions(op_type: str, formula: _Formula, attribute_until: int, input_since: int, last: int) -> list[KernelDef]:
    factory = partial(reduction, formula)
    name = f"{__name__}:{formula.__name__.lstrip('_')}"
    return [
        KernelDef(op_type, factory, since=1, until=attribute_until, strided=True, implementation=name),
        KernelDef(
            op_type,
            factory,
            since=input_since,
            until=last,
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
