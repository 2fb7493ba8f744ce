"""Products of 8-bit integers: the right operand made ready, the product by cuBLASLt, and what its sums become.

cuBLASLt multiplies signed bytes that lie along the axis that is summed over, in units of 16. So the right operand is
transposed and filled up, once where it is constant, and the left one is filled up by a kernel that also adds up its
rows: zero points are corrections of the sums, see `quantized.cuh`. Comes before `quantized_matmul`; knows no
operator.
"""

from __future__ import annotations

from functools import cache
from math import prod
from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelContext
from ort_py.errors import InvalidArgument
from ort_py.lazy_dataclass import dataclass
from ort_py_cuda.code import Kernel
from ort_py_cuda.code.sources import program
from ort_py_cuda.cublaslt.products import multiply

__all__ = [
    "DEEPEST",
    "Parameter",
    "Sums",
    "columns_of",
    "multiplied",
    "per_column",
    "per_row",
    "results",
    "results_kernel",
    "rows_kernel",
]

DEEPEST = 32768
"""Terms of a sum up to which sums of products of bytes, zero points subtracted, fit 32 bits."""

_UNIT = 16
_C_TYPES = {"int8": "int8", "uint8": "uint8", "float32": "float", "int32": "int"}
_KINDS = {"int32": 0, "float32": 1, "int8": 2, "uint8": 2}


@cache
def rows_kernel(source: str) -> Kernel:
    """Makes the left operand of a dtype."""
    return Kernel(_program(), "quantized_rows", "PPPPPiii", _options(source, "int32", "int8", "int8"))


@cache
def results_kernel(result: str, left: str, right: str) -> Kernel:
    """Makes results of a dtype of the sums for operands of two dtypes."""
    return Kernel(_program(), "quantized_results", "PPPPPiiPPiiPPPiiPqiii", _options("int8", result, left, right))


@cache
def _program() -> str:
    return program("reduce", "quantized")


def _options(source: str, result: str, left: str, right: str) -> tuple[str, ...]:
    return (
        f"-DSOURCE={_C_TYPES[source]}",
        f"-DRESULT={_C_TYPES[result]}",
        f"-DKIND={_KINDS[result]}",
        f"-DA_UNSIGNED={'true' if left != 'int8' else 'false'}",
        f"-DB_UNSIGNED={'true' if right != 'int8' else 'false'}",
    )


def _filled(size: int) -> int:
    return -(-size // _UNIT) * _UNIT


def columns_of(xp: Any, b: Array) -> tuple[Array, Array]:
    """A right operand (k, n) as signed bytes (n, k), both filled up, and the sum of each of its columns."""
    k, n = b.shape
    signed = b if b.dtype == xp.int8 else xp.bitwise_xor(b, xp.uint8(128)).view(xp.int8)
    packed = xp.zeros((_filled(n), _filled(k)), xp.int8)
    packed[:n, :k] = signed.T
    return packed, xp.sum(packed, axis=1, dtype=xp.int32)


@dataclass(frozen=True, slots=True)
class Sums:
    """A product of bytes before zero points.

    Attributes:
        sums: int32 ``(rows, columns filled up)``.
        rows: Sum of each row of the left operand.
        columns: Sum of each column of the right operand.
        depth: Terms of a sum.
        size: Columns.
        left: dtype name of the left operand as it is counted.
    """

    sums: Array
    rows: Array
    columns: Array
    depth: int
    size: int
    left: str


def multiplied(
    ctx: KernelContext,
    a: Array,
    right: tuple[Array, Array],
    size: int,
    scale: Array | None = None,
    zero: Array | None = None,
) -> Sums:
    """The product of A ``(..., k)``, its leading axes as rows.

    Args:
        ctx: Context of the node.
        a: int8 or uint8; or float32, which is quantised to uint8.
        right: What `columns_of` made.
        size: Columns of the right operand.
        scale: float32 of one element, for float32.
        zero: uint8 of one element, for float32.
    """
    xp = ctx.xp
    packed, column_sums = right
    k, rows, pitch = a.shape[-1], prod(a.shape[:-1]), packed.shape[1]
    left, row_sums = xp.empty((rows, pitch), xp.int8), xp.empty((rows,), xp.int32)
    a = xp.ascontiguousarray(a)
    rows_kernel(a.dtype.name)(
        (-(-rows // 8), 1, 1),
        (32, 8, 1),
        int(xp.cuda.get_current_stream().ptr),
        a.data.ptr,
        left.data.ptr,
        row_sums.data.ptr,
        0 if scale is None else scale.data.ptr,
        0 if zero is None else zero.data.ptr,
        rows,
        k,
        pitch,
    )
    sums = multiply(left, packed.T)
    return Sums(sums, row_sums, column_sums, k, size, "int8" if a.dtype == xp.int8 else "uint8")


@dataclass(frozen=True, slots=True)
class Parameter:
    """A scale or zero point: its array, and 1 where there is one entry per row or column, 0 where one for all."""

    array: Array | None = None
    step: int = 0

    @property
    def address(self) -> int:
        """Its address; 0 for none."""
        return 0 if self.array is None else int(self.array.data.ptr)


def per_row(ctx: KernelContext, a: Array, parameter: Array | None, dtype: Any = None) -> Parameter:
    """A parameter of the left operand or of the result: one, one per row, or ``(..., rows, 1)``.

    Raises:
        InvalidArgument: It is none of these.
    """
    if parameter is None:
        return Parameter()
    xp = ctx.xp
    parameter = parameter if dtype is None else parameter.astype(dtype, copy=False)
    if parameter.size == 1:
        return Parameter(parameter)
    lead = tuple(a.shape[:-1])
    spread = parameter[:, None] if parameter.ndim == 1 else parameter
    if spread.shape[-1] != 1 or any(s not in (1, t) for s, t in zip(spread.shape[-2::-1], lead[::-1], strict=False)):
        raise _refused(ctx, "first", parameter, lead[-1] if lead else 1)
    return Parameter(xp.ascontiguousarray(xp.broadcast_to(spread, (*lead, 1))), 1)


def per_column(ctx: KernelContext, size: int, parameter: Array | None, dtype: Any = None) -> Parameter:
    """A parameter of the right operand: one, or one per column.

    Raises:
        InvalidArgument: It is neither.
    """
    if parameter is None:
        return Parameter()
    parameter = parameter if dtype is None else parameter.astype(dtype, copy=False)
    if parameter.size == 1:
        return Parameter(parameter)
    if parameter.size != size or parameter.shape[-1] != size:
        raise _refused(ctx, "second", parameter, size)
    return Parameter(ctx.xp.ascontiguousarray(parameter), 1)


def _refused(ctx: KernelContext, which: str, parameter: Array, length: int) -> InvalidArgument:
    return InvalidArgument(
        f"The {which} operand's scale or zero point has shape {list(parameter.shape)}; it needs 1 or {length} entries.",
        where=ctx.node.location,
        fix="Give it one entry, or one for each row of A or column of B.",
    )


_NONE = Parameter()


def results(
    ctx: KernelContext,
    sums: Sums,
    shape: tuple[int, ...],
    dtype: Any,
    right: str,
    *,
    a_zero: Parameter = _NONE,
    b_zero: Parameter = _NONE,
    a_scale: Parameter = _NONE,
    b_scale: Parameter = _NONE,
    bias: Array | None = None,
    y_scale: Parameter = _NONE,
    y_zero: Parameter = _NONE,
) -> Array:
    """The sums less zero points: as int32, scaled with a bias as float32, or requantised as int8 or uint8.

    Args:
        ctx: Context of the node.
        sums: What `multiplied` gave.
        shape: Of the result.
        dtype: Of the result; says which of the three it is.
        right: dtype name of the right operand.
        a_zero, b_zero, a_scale, b_scale: Of the operands; scales are float32.
        bias: float32, one entry per column.
        y_scale, y_zero: Of a requantised result.
    """
    xp = ctx.xp
    y = xp.empty(shape, dtype)
    count = y.size
    results_kernel(y.dtype.name, sums.left, right)(
        (min(-(-count // 256), 1 << 16), 1, 1),
        (256, 1, 1),
        int(xp.cuda.get_current_stream().ptr),
        sums.sums.data.ptr,
        sums.rows.data.ptr,
        sums.columns.data.ptr,
        a_zero.address,
        b_zero.address,
        a_zero.step,
        b_zero.step,
        a_scale.address,
        b_scale.address,
        a_scale.step,
        b_scale.step,
        0 if bias is None else bias.data.ptr,
        y_scale.address,
        y_zero.address,
        y_scale.step,
        y_zero.step,
        y.data.ptr,
        count,
        sums.size,
        sums.sums.shape[-1],
        sums.depth,
    )
    return y
