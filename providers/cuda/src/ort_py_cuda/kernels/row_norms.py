"""LayerNormalization, RMSNormalization and their forms of com.microsoft, one kernel each: a row is read once.

Rows that fit stay in registers between the sum, the squares and the result; longer ones are read again. Statistics are
formed in float32 (float64 for float64). What is not covered goes to the array library: scales that broadcast in
another way than one entry per column, other types for scales than for the input, `stash_type` other than float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelCallable, KernelContext, KernelDef, KernelForms
from ort_py.contracts.kernel import kernel_defs as declared
from ort_py.dtypes import DataType
from ort_py_array import normalization as library
from ort_py_array.checks import normalized_axis
from ort_py_array.contrib import normalization as contrib_library
from ort_py_array.two_forms import two_forms
from ort_py_cuda.code.elements import c_type, pack_of, rows_of
from ort_py_cuda.kernels.covering import FLOATS, built, contiguous, covering, current_stream

__all__ = ["KERNELS", "normalize_into", "normalize_rows_code", "row_norm", "skip_norm"]

_ARGUMENTS = "PPPPPPPPPqqqf"
_PARAMETERS = (
    "const {T} *x, const {T} *skip, const {T} *bias, const {T} *scale, const {T} *shift, {T} *y, {S} *mean, "
    "{S} *inverse, {T} *total, int64 rows, int64 width, int64 period, float epsilon"
)
_FIELDS = "{x, skip, bias, scale, shift, y, mean, inverse, total, rows, width, period, epsilon}"


def normalize_into(
    x: Array,
    scale: Array,
    out: Array,
    width: int,
    epsilon: float,
    *,
    centred: bool,
    rounds: bool,
    skip: Array | None = None,
    bias: Array | None = None,
    shift: Array | None = None,
    mean: Array | None = None,
    inverse: Array | None = None,
    total: Array | None = None,
) -> None:
    """Enqueue the normalisation of rows of `width` elements. All arrays are C-contiguous, of the type of `x`.

    Args:
        x: Rows.
        scale: One entry per column.
        out: Where the result goes, of the size of `x`; it may be `x`.
        width: Elements of a row.
        epsilon: Added to the mean of the squares.
        centred: Whether the mean is subtracted.
        rounds: Whether a standardised element is rounded to the type of `x` before it is scaled.
        skip: Added to `x`; as many rows, or fewer that repeat.
        bias: Added to `x`, one entry per column.
        shift: Added to the result, one entry per column.
        mean: Where means go, float32, one per row.
        inverse: Where inverse deviations go, likewise.
        total: Where what was normalised goes, of the size of `x`.
    """
    if not x.size:
        return
    rows = x.size // width
    arrays = (x, skip, bias, scale, shift, out, mean, inverse, total)
    addresses = [0 if array is None else array.data.ptr for array in arrays]
    laid = rows_of(rows, width, pack_of(x.itemsize, width, *addresses[:6], addresses[8]))
    kind, flags = c_type(x.dtype), f"{str(centred).lower()}, {str(rounds).lower()}"
    template = (
        f"norm_registers<{kind}, float, {laid.pack}, {laid.packs}, {flags}>"
        if laid.packs
        else f"norm_long<{kind}, float, {laid.pack}, {flags}>"
    )
    parameters, before = normalize_rows_code(kind)
    kernel = built(
        ("reduce", "norm"),
        "normalize_rows",
        *(parameters, _ARGUMENTS),
        f"{before}{template}(n);",
    )
    period = rows if skip is None else skip.size // width
    kernel(laid.grid, laid.block, current_stream(), *addresses, rows, width, max(1, period), epsilon)


def normalize_rows_code(kind: str | None) -> tuple[str, str]:
    """Parameters of the kernel for elements of a C++ type, and the statement that its body begins with."""
    return _PARAMETERS.format(T=kind, S="float"), f"Norm<{kind}, float> n = {_FIELDS}; "


def row_norm(ctx: KernelContext, general: KernelCallable) -> KernelCallable:
    """LayerNormalization-1..17, RMSNormalization-23 and SimplifiedLayerNormalization-1."""
    xp, where, node = ctx.xp, ctx.node.location, ctx.node
    centred, several = node.op_type == "LayerNormalization", node.op_type != "RMSNormalization"
    if node.attributes.get("stash_type", 1) != DataType.FLOAT or _of(node.inputs[0]) is DataType.DOUBLE:
        return general
    epsilon = float(node.attributes.get("epsilon", 1e-5))
    axis_given = node.attributes.get("axis", -1)
    # ONNX's function bodies round before they scale; the simplified one, which has no body of ONNX's, does not.
    rounds = node.op_type != "SimplifiedLayerNormalization"

    def run(x: Array, scale: Array, bias: Array | None = None, out: Any = None) -> Any:
        axis = normalized_axis(axis_given, x.ndim, where)
        width, lead = prod(x.shape[axis:]), tuple(x.shape[:axis])
        parameters = (scale,) if bias is None else (scale, bias)
        if (
            any(one.dtype != x.dtype or one.ndim > x.ndim for one in parameters)
            or not all(_one_a_column(one.shape, x.shape[axis:]) for one in parameters)
            or not x.size
            or not contiguous(x, *parameters)
        ):
            return _generally(general, (x, scale) if bias is None else (x, scale, bias), out)
        if out is None:
            kept = (*lead, *(1 for _ in x.shape[axis:]))
            out = _made(xp, node.outputs, ((x.shape, x.dtype), (kept, xp.float32), (kept, xp.float32)))
        outs = out if isinstance(out, tuple) else (out,)
        statistics = outs[1:] if centred else (None, *outs[1:])
        mean, inverse = (*statistics, None, None)[:2]
        normalize_into(
            x,
            scale,
            outs[0],
            width,
            epsilon,
            centred=centred,
            rounds=rounds,
            shift=bias,
            mean=mean,
            inverse=inverse,
        )
        return outs if several else outs[0]

    return two_forms(ctx, run)


def skip_norm(ctx: KernelContext, general: KernelCallable) -> KernelCallable:
    """SkipLayerNormalization-1 and SkipSimplifiedLayerNormalization-1 of com.microsoft."""
    xp, node = ctx.xp, ctx.node
    centred = node.op_type == "SkipLayerNormalization"
    if _of(node.inputs[0]) is DataType.DOUBLE:
        return general
    epsilon = float(node.attributes.get("epsilon", 1e-12))

    def run(x: Array, skip: Array, scale: Array, *rest: Array | None, out: Any = None) -> Any:
        shift, bias = (*rest, None, None)[:2] if centred else (None, rest[0] if rest else None)
        columns = [one for one in (scale, shift, bias) if one is not None]
        shape = tuple(x.shape)
        if (
            x.ndim not in (2, 3)
            or not x.size
            or tuple(skip.shape) not in (shape, (1, *shape[1:]), shape[-2:])
            or any(tuple(one.shape) != shape[-1:] for one in columns)
            or any(one.dtype != x.dtype for one in (skip, *columns))
            or not contiguous(x, skip, *columns)
        ):
            return _generally(general, (x, skip, scale, *rest), out)
        if out is None:
            kept = (*shape[:-1], 1)
            forms = ((shape, x.dtype), (kept, xp.float32), (kept, xp.float32), (shape, x.dtype))
            out = _made(xp, node.outputs, forms)
        outs = out if isinstance(out, tuple) else (out,)
        mean, inverse, total = (*outs[1:], None, None, None)[:3]
        normalize_into(
            x,
            scale,
            outs[0],
            shape[-1],
            epsilon,
            centred=centred,
            rounds=False,
            skip=skip,
            bias=bias,
            shift=shift,
            mean=mean,
            inverse=inverse,
            total=total,
        )
        return outs

    return two_forms(ctx, run)


def _generally(general: KernelCallable, inputs: tuple[Array | None, ...], out: Any) -> Any:
    if out is None:
        return general(*inputs)
    outs = out if isinstance(out, tuple) else (out,)
    return (
        general.into(*inputs, *outs) if isinstance(general, KernelForms) and general.into else general(*inputs, *outs)
    )


def _of(value: Any) -> DataType | None:
    found: DataType | None = None if value is None else value.data_type
    return found


def _one_a_column(shape: Sequence[int], axes: Sequence[int]) -> bool:
    """Return whether a parameter has an entry for each element of the last axes, perhaps behind axes of size 1."""
    extra = len(shape) - len(axes)
    return extra >= 0 and tuple(shape[extra:]) == tuple(axes) and all(size == 1 for size in shape[:extra])


def _made(xp: Any, outputs: Sequence[Any], forms: Sequence[tuple[Sequence[int], Any]]) -> tuple[Array | None, ...]:
    return tuple(
        None if output is None else xp.empty(shape, dtype)
        for output, (shape, dtype) in zip(outputs, forms, strict=False)
    )


KERNELS: list[KernelDef] = [
    *covering(declared(library), ("LayerNormalization", "RMSNormalization"), row_norm, types=FLOATS),
    *covering(declared(contrib_library), ("SimplifiedLayerNormalization",), row_norm, types=FLOATS),
    *covering(
        declared(contrib_library),
        ("SkipLayerNormalization", "SkipSimplifiedLayerNormalization"),
        skip_norm,
        types=FLOATS,
    ),
]
