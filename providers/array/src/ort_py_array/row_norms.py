"""Layer and root-mean-square normalisation of float32 rows: the usual case, without what the general one has to ask.

`row_kernel` and `sum_kernel` bind a kernel that handles everything to a node, and put a short way in front of it: no
statistics wanted, the last axis, contiguous float32 with float32 parameters. Rows are handled in blocks that stay in
the cache. It does not depend on operators.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelCallable, KernelContext
from ort_py.devices import HOST
from ort_py.dtypes import DataType
from ort_py_array.two_forms import two_forms

__all__ = ["row_kernel", "sum_kernel"]

_ELEMENTS = 65536
"""Of a block: 256 KiB, which a core's second-level cache holds through the steps."""

_REMEMBERED = 8
"""Widths whose means a node keeps the weights of; a dictionary that stops growing is safe to share between threads."""


def row_kernel(
    function: Callable[..., Any], ctx: KernelContext, *, centred: bool, several: bool = True
) -> KernelCallable:
    """``run(x, scale, bias=None, out=None)`` for a node, `function` being what handles all other cases.

    Args:
        function: ``f(ctx, x, scale, bias, out=…, **attributes)``.
        ctx: Context of the node.
        centred: Whether the mean is subtracted.
        several: Whether the operator may have several outputs, so that its callable returns a tuple.
    """
    xp, attributes = ctx.xp, ctx.node.attributes
    general = partial(function, ctx, **attributes)
    usual = len(ctx.node.outputs) == 1 and attributes.get("stash_type", 1) == DataType.FLOAT
    if not usual or ctx.device != HOST:
        return two_forms(ctx, general)
    axis = attributes.get("axis", -1)
    epsilon = xp.float32(attributes.get("epsilon", 1e-5))
    float32 = xp.dtype(xp.float32)
    column = _Columns(xp)

    def run(x: Array, scale: Array, bias: Array | None = None, out: Array | None = None) -> Any:
        width = x.shape[-1] if x.ndim else 0
        if (
            (axis != -1 and axis != x.ndim - 1)
            or x.dtype != float32
            or scale.dtype != float32
            or scale.shape != (width,)
            or (bias is not None and bias.shape != scale.shape)
            or not x.size
            or not x.flags.c_contiguous
        ):
            rest = () if bias is None else (bias,)
            return general(x, scale, *rest, out=out)
        y = xp.empty(x.shape, float32) if out is None else out
        ones = column.of(width) if centred else None
        rows, results = x.reshape((-1, width)), y.reshape((-1, width))

        def part(start: int, stop: int) -> None:
            _normalize(xp, rows[start:stop], results[start:stop], ones, epsilon, scale, bias)

        _in_blocks(ctx, rows, part)
        return (y,) if several else y

    return two_forms(ctx, run)


def sum_kernel(function: Callable[..., Any], ctx: KernelContext, *, centred: bool) -> KernelCallable:
    """``run(x, skip, scale, [shift,] bias=None, out=None)``: as `row_kernel`, on sums that may be an output too.

    Args:
        function: ``f(ctx, x, skip, scale, …, out=…, **attributes)``, what handles all other cases.
        ctx: Context of the node.
        centred: Whether the mean is subtracted; only then there is a shift.
    """
    xp, attributes, outputs = ctx.xp, ctx.node.attributes, ctx.node.outputs
    general = partial(function, ctx, **attributes)
    if ctx.device != HOST or any(output is not None for output in outputs[1:3]):
        return two_forms(ctx, general)
    epsilon = xp.float32(attributes.get("epsilon", 1e-12))
    float32 = xp.dtype(xp.float32)
    column = _Columns(xp)

    def run(x: Array, skip: Array, scale: Array, *rest: Array | None, out: Any = None) -> Any:
        shift, bias = (*rest, None, None)[:2] if centred else (None, rest[0] if rest else None)
        columns = [one for one in (scale, shift, bias) if one is not None]
        if (
            x.ndim not in (2, 3)
            or not x.size
            or x.shape != skip.shape
            or any(one.shape != x.shape[-1:] for one in columns)
            or any(one.dtype != float32 for one in (x, skip, *columns))
            or not (x.flags.c_contiguous and skip.flags.c_contiguous)
        ):
            return general(x, skip, scale, *rest, out=out)
        shape = x.shape
        if out is None:
            out = tuple([None if output is None else xp.empty(shape, float32) for output in outputs])
        elif not isinstance(out, tuple):
            out = (out,)
        rows = (-1, shape[-1])
        left, right, y = x.reshape(rows), skip.reshape(rows), out[0].reshape(rows)
        sums = y if len(out) < 4 else out[3].reshape(rows)
        ones = column.of(shape[-1]) if centred else None

        def part(start: int, stop: int) -> None:
            some = xp.add(left[start:stop], right[start:stop], sums[start:stop])
            if bias is not None:
                xp.add(some, bias, some)
            _normalize(xp, some, y[start:stop], ones, epsilon, scale, shift)

        _in_blocks(ctx, left, part)
        return out

    return two_forms(ctx, run)


class _Columns:
    """Columns of ``1 / width``, by width: a product with one is the mean."""

    def __init__(self, xp: Any) -> None:
        self._xp = xp
        self._known: dict[int, Array] = {}

    def of(self, width: int) -> Array:
        """The column of a width, float32."""
        found = self._known.get(width)
        if found is None:
            found = self._xp.full((width, 1), 1 / width, self._xp.float32)
            if len(self._known) < _REMEMBERED:
                self._known[width] = found
        return found


def _in_blocks(ctx: KernelContext, rows: Array, part: Callable[[int, int], None]) -> None:
    """Call ``part(start, stop)`` for rows that fit into the cache together."""
    count = rows.shape[0]
    if rows.size <= _ELEMENTS:
        part(0, count)
        return
    step = max(1, _ELEMENTS // rows.shape[1])

    def blocks(start: int, stop: int) -> None:
        for first in range(start, stop, step):
            part(first, min(first + step, stop))

    ctx.parallel_for(count, step, blocks)


def _normalize(
    xp: Any, rows: Array, y: Array, ones: Array | None, epsilon: Any, scale: Array, bias: Array | None
) -> None:
    """Write normalised, scaled and shifted rows to `y`, which may be `rows`.

    Args:
        xp: Array module.
        rows: Shape ``(n, width)``.
        y: Likewise.
        ones: A column of ``1 / width``: with it the mean is subtracted before. BLAS adds a row up three times as fast
            as `sum` does.
        epsilon: Added to the mean of the squares, a scalar of the rows' type.
        scale: One entry per column.
        bias: Likewise, or None.
    """
    if ones is not None:
        rows = xp.subtract(rows, xp.matmul(rows, ones), y)
    if rows.shape[0] == 1:
        # One number: NumPy's functions take half as long on scalars as on arrays of one element.
        row = rows.reshape(-1)
        inverse = 1 / xp.sqrt(xp.dot(row, row) / row.size + epsilon)
    else:
        inverse = xp.matmul(rows.reshape((-1, 1, rows.shape[1])), rows.reshape((-1, rows.shape[1], 1))).reshape((-1, 1))
        xp.divide(inverse, inverse.dtype.type(rows.shape[1]), inverse)
        xp.add(inverse, epsilon, inverse)
        xp.sqrt(inverse, inverse)
        xp.divide(1, inverse, inverse)
    xp.multiply(rows, inverse, y)
    xp.multiply(y, scale, y)
    if bias is not None:
        xp.add(y, bias, y)
