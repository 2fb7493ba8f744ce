"""Softmax and LogSoftmax as one kernel: rows in registers, or read twice where they are long.

Along another axis than the last, each thread does a column. Narrow floats are computed in float32 and rounded once.
The array library's kernels do Hardmax and all other types. Comes after `covering`.
"""

from __future__ import annotations

from math import prod

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelCallable, KernelContext, KernelDef
from ort_py_array.checks import normalized_axis
from ort_py_array.softmax import KERNELS as LIBRARY
from ort_py_cuda.code.elements import THREADS, blocks_for, c_type, pack_of, rows_of
from ort_py_cuda.kernels.covering import FLOATS, built, contiguous, covering, current_stream

__all__ = ["KERNELS", "softmax", "softmax_into"]

_PARTS = ("reduce", "softmax")


def softmax_into(x: Array, out: Array, outer: int, width: int, inner: int, *, log: bool) -> None:
    """Enqueue softmax or log-softmax along the middle one of three axes.

    Args:
        x: C-contiguous, of a type of `elements`, with ``outer * width * inner`` elements.
        out: Likewise, of the same type; it may be `x`.
        outer, width, inner: Sizes of the axes.
        log: Log-softmax.
    """
    if not x.size:
        return
    kind, flag = c_type(x.dtype), "true" if log else "false"
    source, target, stream = x.data.ptr, out.data.ptr, current_stream()
    if inner > 1:
        kernel = built(
            _PARTS,
            "softmax_of_columns",
            f"const {kind} *x, {kind} *y, int64 columns, int64 width, int64 inner",
            "PPqqq",
            f"softmax_columns<{kind}, {flag}>(x, y, columns, width, inner);",
        )
        columns = outer * inner
        kernel(blocks_for(columns), (THREADS, 1, 1), stream, source, target, columns, width, inner)
        return
    laid = rows_of(outer, width, pack_of(x.itemsize, width, source, target))
    template = (
        f"softmax_registers<{kind}, {laid.pack}, {laid.packs}, {flag}>"
        if laid.packs
        else f"softmax_long<{kind}, {laid.pack}, {flag}>"
    )
    kernel = built(
        _PARTS,
        "softmax_of_rows",
        f"const {kind} *x, {kind} *y, int64 rows, int64 width",
        "PPqq",
        f"{template}(x, y, rows, width);",
    )
    kernel(laid.grid, laid.block, stream, source, target, outer, width)


def softmax(ctx: KernelContext, general: KernelCallable) -> KernelCallable:
    """Softmax-1..13 and LogSoftmax-1..13.

    Raises:
        InvalidArgument: The axis does not exist.
    """
    xp, where = ctx.xp, ctx.node.location
    log = ctx.node.op_type == "LogSoftmax"
    flattens = ctx.node.since_version < 13
    axis_given = ctx.node.attributes.get("axis", 1 if flattens else -1)

    def run(x: Array, out: Array | None = None) -> Array:
        if c_type(x.dtype) is None or x.ndim == 0 or not contiguous(x, out):
            return general(x) if out is None else general(x, out)
        axis = normalized_axis(axis_given, x.ndim, where, inclusive=flattens)
        if out is None:
            out = xp.empty(x.shape, x.dtype)
        if flattens:
            softmax_into(x, out, prod(x.shape[:axis]), prod(x.shape[axis:]), 1, log=log)
        else:
            softmax_into(x, out, prod(x.shape[:axis]), x.shape[axis], prod(x.shape[axis + 1 :]), log=log)
        return out

    return run


KERNELS: list[KernelDef] = covering(LIBRARY, ("Softmax", "LogSoftmax"), softmax, types=FLOATS)
