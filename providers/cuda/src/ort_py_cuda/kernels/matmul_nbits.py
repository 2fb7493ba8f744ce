"""MatMulNBits of com.microsoft: weights of 4 or 8 bits that stay packed.

A decoder's step multiplies one row, or a few: there a kernel of our own reads each packed weight once and nothing
else of size, see `nbits.cuh`. For more rows, rows of B are dequantised to the type of A, a tile at a time, and
cuBLASLt multiplies. Weights of 2 bits and columns put into groups by ``g_idx`` are left to the array library.
"""

from __future__ import annotations

from functools import cache
from math import prod
from typing import Any

from ort_py import errors
from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelCallable, KernelContext, KernelDef, tensors
from ort_py.dtypes import DataType
from ort_py.errors import InvalidArgument
from ort_py_array.contrib.block_quantized import checked_block_size, matmul_n_bits
from ort_py_cuda.code import Kernel
from ort_py_cuda.code.sources import program
from ort_py_cuda.cublaslt.products import multiply
from ort_py_cuda.settings import current

__all__ = ["KERNELS", "dequantize_kernel", "few_rows_kernel", "matmul_nbits"]

_FEW = 8
"""Rows of A up to which packed weights are multiplied as they are: twice what is read of A for each weight at once."""

_TILE = 64 << 20
"""Bytes of dequantised weights that exist at once; on today's devices about what the second-level cache holds."""

_LOAD = 16
"""Bytes of packed weights that are read at once."""

_ROWS = 2
_LANES = 32
_WARPS = 4

C_TYPES = {"float32": "float", "float16": "half_t", "bfloat16": "bfloat16_t"}


@cache
def _program() -> str:
    return program("reduce", "nbits")


def _unit(bits: int, block: int) -> int:
    """Weights that a lane reads at once: 16 bytes, or one block."""
    return min(128 // bits, block)


@cache
def few_rows_kernel(dtype: str, bits: int, unit: int, m: int, zero: int, wide: bool) -> Kernel:
    """The kernel for a few rows, compiled for one way in which weights are stored."""
    options = (
        f"-DELEMENT={C_TYPES[dtype]}",
        f"-DW_BITS={bits}",
        f"-DW_UNIT={unit}",
        f"-DW_ROWS={_ROWS}",
        f"-DW_COUNT={m}",
        f"-DW_ZERO={zero}",
        f"-DW_WIDE={'true' if wide else 'false'}",
    )
    return Kernel(_program(), "nbits_few_rows", "PPPPPPiiii", options)


@cache
def dequantize_kernel(dtype: str, bits: int, unit: int, zero: int) -> Kernel:
    """The kernel that dequantises rows."""
    options = (
        f"-DELEMENT={C_TYPES[dtype]}",
        f"-DW_BITS={bits}",
        f"-DW_UNIT={unit}",
        "-DW_ROWS=1",
        "-DW_COUNT=1",
        f"-DW_ZERO={zero}",
        "-DW_WIDE=false",
    )
    return Kernel(_program(), "nbits_dequantize", "PPPPiiii", options)


def matmul_nbits(ctx: KernelContext) -> KernelCallable:
    """com.microsoft.MatMulNBits-1: ``A @ dequantised(B).T + bias``, B ``(N, blocks, block_size · bits / 8)`` uint8.

    Added up in float32, whatever ``accuracy_level`` would allow. Scales and zero points may be flat. Raises
    InvalidArgument where sizes, bits or block size do not fit, NotImplemented for prepacked weights.
    """
    attributes, where = ctx.node.attributes, ctx.node.location
    bits = int(attributes.get("bits", 4))
    inputs = ctx.node.inputs
    if bits not in (4, 8) or (len(inputs) > 4 and inputs[4] is not None):
        return matmul_n_bits(ctx)
    if attributes.get("weight_prepacked", 0):
        raise errors.NotImplemented(
            f"Weights prepacked for a device (weight_prepacked={attributes['weight_prepacked']}).",
            where=where,
            fix="Export the model with weight_prepacked=0.",
        )
    n, k, block = int(attributes["N"]), int(attributes["K"]), checked_block_size(ctx)
    if n < 1 or k < 1:
        raise InvalidArgument(f"N is {n} and K is {k}.", where=where, fix="Both must be positive.")
    return _Product(ctx, n, k, bits, block)


class _Product:
    """One node: what is decided once, and the two ways to multiply."""

    def __init__(self, ctx: KernelContext, n: int, k: int, bits: int, block: int) -> None:
        self._ctx = ctx
        self._sizes = (n, k)
        self._bits, self._block = bits, block
        self._unit = _unit(bits, block)
        self._tf32 = current().tf32

    def __call__(
        self,
        a: Array,
        b: Array,
        scales: Array,
        zeros: Array | None = None,
        g_idx: Array | None = None,
        bias: Array | None = None,
    ) -> Array:
        ctx, xp, (n, k) = self._ctx, self._ctx.xp, self._sizes
        self._check(a, b, scales, zeros, bias)
        shape = (*a.shape[:-1], n)
        ctx.check_allocation(shape, a.dtype)
        scales = scales.astype(a.dtype, copy=False)
        if zeros is not None and zeros.dtype != xp.uint8:
            zeros = zeros.astype(a.dtype, copy=False)
        m = prod(a.shape[:-1])
        y = xp.empty((m, n), a.dtype)
        if m:
            self._multiply(a.reshape((m, k)), b, scales, zeros, bias, y)
        return y.reshape(shape)

    def _multiply(self, a: Array, b: Array, scales: Array, zeros: Array | None, bias: Array | None, y: Array) -> None:
        xp, (n, k) = self._ctx.xp, self._sizes
        m = a.shape[0]
        stream = int(xp.cuda.get_current_stream().ptr)
        zero = 0 if zeros is None else 1 if zeros.dtype == xp.uint8 else 2
        if b.data.ptr % _LOAD:
            b = (
                b.copy()
            )  # a view, or memory of somebody's: kernels read it in whole loads, and a device faults at others
        packed = (b.data.ptr, scales.data.ptr, 0 if zeros is None else zeros.data.ptr)
        if m <= _FEW:
            at_once = next(size for size in (1, 2, 4) if size >= min(m, 4))
            wide = k % self._unit == 0 and a.data.ptr % _LOAD == 0
            kernel = few_rows_kernel(a.dtype.name, self._bits, self._unit, at_once, zero, wide)
            warps = min(_WARPS, -(-k // (self._unit * _LANES)))
            kernel(
                (-(-n // _ROWS), -(-m // at_once), 1),
                (_LANES * warps, 1, 1),
                stream,
                a.data.ptr,
                *packed,
                0 if bias is None else bias.data.ptr,
                y.data.ptr,
                m,
                n,
                k,
                self._block,
            )
            return
        rows = min(n, max(_LANES, _TILE // (k * a.itemsize) // _LANES * _LANES))
        tile = xp.empty((rows, k), a.dtype)
        kernel = dequantize_kernel(a.dtype.name, self._bits, self._unit, zero)
        units = -(-k // self._unit)
        for first in range(0, n, rows):
            count = min(rows, n - first)
            blocks = min(-(-count * units // 256), 1 << 16)
            kernel((blocks, 1, 1), (256, 1, 1), stream, *packed, tile.data.ptr, first, count, k, self._block)
            columns = slice(first, first + count)
            multiply(a, tile[:count].T, y[:, columns], bias=None if bias is None else bias[columns], tf32=self._tf32)

    def _check(self, a: Array, b: Array, scales: Array, zeros: Array | None, bias: Array | None) -> None:
        """Refuse inputs of other sizes than the attributes say; exporters write some of them flat.

        Raises:
            InvalidArgument: There are.
        """
        n, k = self._sizes
        blocks = -(-k // self._block)
        if a.ndim < 1 or a.shape[-1] != k:
            raise InvalidArgument(
                f"A has shape {list(a.shape)}; its last axis must have K={k} entries.",
                where=self._ctx.node.location,
                fix="Check the shapes of the inputs that were fed.",
            )
        packed_zeros = zeros is not None and zeros.dtype.itemsize == 1
        wanted: dict[str, tuple[Any, int]] = {
            "B": (b, n * blocks * (self._block * self._bits // 8)),
            "scales": (scales, n * blocks),
            "zero_points": (zeros, n * -(-blocks * self._bits // 8) if packed_zeros else n * blocks),
            "bias": (bias, n),
        }
        for name, (parameter, size) in wanted.items():
            if parameter is not None and parameter.size != size:
                raise InvalidArgument(
                    f"{name} has shape {list(parameter.shape)} instead of {size} entries.",
                    where=self._ctx.node.location,
                    fix="Check the attributes N, K, bits and block_size, which decide the shapes of all parameters.",
                )


KERNELS = [
    KernelDef(
        "MatMulNBits",
        matmul_nbits,
        domain="com.microsoft",
        since=1,
        types={"T1": tensors(DataType.FLOAT, DataType.FLOAT16, DataType.BFLOAT16)},
        implementation=f"{__name__}:matmul_nbits",
    )
]
