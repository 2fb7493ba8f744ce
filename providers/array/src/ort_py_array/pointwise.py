"""Evaluating formulas of several element-wise steps without streaming whole arrays through memory at each step.

A formula is a function ``(xp, x, out, **attributes)`` that writes its result to `out`, which may be `x` itself.
`pointwise` declares it as an operator. At run time a large contiguous array is cut into blocks that stay in the cache
and go to the context's pool; float16 and bfloat16 blocks are computed in float32 and rounded once. It is independent of
operators.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelCallable, KernelContext, kernel
from ort_py.devices import HOST
from ort_py.errors import InvalidArgument
from ort_py_array.precision import is_narrow, rounded, widened
from ort_py_array.two_forms import two_forms

__all__ = ["Formula", "blocked", "blocked_with_bias", "pointwise"]

Formula: TypeAlias = Callable[[Array, Array], Any]
"""``f(x, out)``: writes to `out`, which may be the very array `x`, but no other view of its memory.

Both have at least one axis, so that every step's result is an array."""

_BLOCK = 32768
"""Elements a step works on at once: 128 KiB of float32, with a temporary or two, stay in a core's second-level cache,
and the steps of one block take long enough to hide what calling them costs."""


def pointwise(op_type: str, *, since: int, until: int | None = None, **declaration: Any) -> Callable[..., Any]:
    """Declare a unary operator from a formula ``f(xp, x, out, **attributes)``."""
    return kernel(
        op_type, since=since, until=until, bind=_bind, out=True, inplace=((0, 0),), strided=True, **declaration
    )


def _bind(formula: Callable[..., Any], ctx: KernelContext) -> KernelCallable:
    # `consumed_inputs` of the first schema versions was a hint for in-place work, without meaning for the result.
    attributes = {name: value for name, value in ctx.node.attributes.items() if name != "consumed_inputs"}
    return blocked(ctx, partial(formula, ctx.xp, **attributes))


def blocked(ctx: KernelContext, formula: Formula) -> KernelCallable:
    """``run(x, out=None)`` for a formula: allocates, widens narrow floats, and cuts large arrays on the host."""
    xp = ctx.xp
    on_host = ctx.device == HOST

    def run(x: Array, out: Array | None = None) -> Array:
        if out is None:
            out = xp.empty(x.shape, x.dtype)
        narrow = x.dtype.itemsize == 2 and is_narrow(x.dtype)  # the size first: `name` is slow to read
        evaluate = partial(_widened, xp, formula) if narrow else formula
        if x.ndim == 0:  # NumPy's ufuncs make scalars of these, which no later step could write to
            evaluate(x.reshape((1,)), out.reshape((1,)))
            return out
        if x.size <= _BLOCK or not on_host or not (x.flags.c_contiguous and out.flags.c_contiguous):
            evaluate(x, out)
            return out
        flat_x, flat_out = x.reshape(-1), out.reshape(-1)

        def part(start: int, stop: int) -> None:
            for first in range(start, stop, _BLOCK):
                last = min(first + _BLOCK, stop)
                evaluate(flat_x[first:last], flat_out[first:last])

        ctx.parallel_for(x.size, _BLOCK, part)
        return out

    return run


def blocked_with_bias(ctx: KernelContext, formula: Formula) -> KernelCallable:
    """Both forms of ``run(x, bias=None)``: `blocked` on ``x + bias``.

    The bias (one entry per column) is added to each block in the cache.

    Raises:
        InvalidArgument: The bias is not one-dimensional, or not as long as the last axis.
    """
    xp, plain = ctx.xp, blocked(ctx, formula)

    def run(x: Array, bias: Array | None = None, *, out: Array | None = None) -> Array:
        if bias is None:
            return plain(x, out)
        if x.ndim == 0 or tuple(bias.shape) != tuple(x.shape[-1:]):
            raise InvalidArgument(
                f"A bias of shape {list(bias.shape)} does not fit an input of shape {list(x.shape)}.",
                where=ctx.node.location,
                fix="It must have one entry for each column, that is for the last axis.",
            )
        if out is None:
            out = xp.empty(x.shape, x.dtype)
        if x.size == 0:
            return out
        width = x.shape[-1]
        rows, results, wide_bias = x.reshape((-1, width)), out.reshape((-1, width)), widened(xp, bias)
        step = max(1, _BLOCK // width) if ctx.device == HOST else rows.shape[0]

        def part(start: int, stop: int) -> None:
            for first in range(start, stop, step):
                last = min(first + step, stop)
                row, result = rows[first:last], results[first:last]
                if wide_bias.dtype == result.dtype:
                    formula(xp.add(row, wide_bias, result), result)
                else:
                    total = xp.add(widened(xp, row), wide_bias)
                    formula(total, total)
                    result[...] = total

        if rows.shape[0] <= step:
            part(0, rows.shape[0])
        else:
            ctx.parallel_for(rows.shape[0], step, part)
        return out

    return two_forms(ctx, run)


def _widened(xp: Any, formula: Formula, x: Array, out: Array) -> None:
    wide = widened(xp, x)
    formula(wide, wide)
    rounded(wide, x.dtype, out)
