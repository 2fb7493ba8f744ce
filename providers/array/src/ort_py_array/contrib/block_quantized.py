"""MatMulNBits and MatMulBnb4: products with weights of a few bits, which stay packed.

Unpacking them once, at planning, would hold four to sixteen times what the model stores, and the reason for such a
model is that it fits. So rows are unpacked for each product, into scratch (see `packed_weights`), which costs between
one and two milliseconds for 2048 × 2048 weights. Only the zero points, a few hundredths of the weights, are unpacked
at planning.
"""

from __future__ import annotations

from math import prod
from typing import Any

from ort_py import errors
from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelCallable, KernelContext, KernelDef
from ort_py.errors import InvalidArgument
from ort_py_array.checks import check_indices
from ort_py_array.contrib.packed_weights import PackedMatrix, times_in_parts, unpacked
from ort_py_array.contrib.schemas.notation import DOMAIN
from ort_py_array.precision import rounded, widened

__all__ = ["KERNELS", "checked_block_size", "matmul_bnb4", "matmul_n_bits", "shifts_of"]


def checked_block_size(ctx: KernelContext) -> int:
    """The attribute ``block_size``.

    Raises:
        InvalidArgument: It is not a power of two of at least 16.
    """
    size = int(ctx.node.attributes["block_size"])
    if size < 16 or size & (size - 1):
        raise InvalidArgument(
            f"block_size is {size}.", where=ctx.node.location, fix="It must be a power of two and at least 16."
        )
    return size


def checked_bits(ctx: KernelContext, name: str, default: int = 4) -> int:
    """An attribute that says how many bits a weight has.

    Raises:
        InvalidArgument: Not 2, 4 or 8.
    """
    bits = int(ctx.node.attributes.get(name, default))
    if bits not in (2, 4, 8):
        raise InvalidArgument(f"{name} is {bits}.", where=ctx.node.location, fix="It must be 2, 4 or 8.")
    return bits


def _checked_sizes(ctx: KernelContext) -> tuple[int, int]:
    """The attributes N and K.

    Raises:
        InvalidArgument: One is not positive.
    """
    n, k = int(ctx.node.attributes["N"]), int(ctx.node.attributes["K"])
    if n < 1 or k < 1:
        raise InvalidArgument(
            f"N is {n} and K is {k}.",
            where=ctx.node.location,
            fix="They are the weights' shape; both must be positive.",
        )
    return n, k


def check_size(ctx: KernelContext, name: str, parameter: Array, wanted: tuple[int, ...]) -> None:
    """Refuse a parameter with another number of elements: exporters write some of them flat.

    Raises:
        InvalidArgument: It has.
    """
    if parameter.size != prod(wanted):
        raise InvalidArgument(
            f"{name} has shape {list(parameter.shape)} instead of {list(wanted)}.",
            where=ctx.node.location,
            fix="Check the attributes N, K, bits and block_size, which decide the shapes of all parameters.",
        )


def shifts_of(ctx: KernelContext, zero_points: Array, bits: int, shape: tuple[int, int]) -> Array:
    """Zero points less the middle of the range, as float32 of `shape`; given packed as weights are, or as floats.

    Raises:
        InvalidArgument: Their number does not fit.
    """
    xp = ctx.xp
    rows, blocks = shape
    if zero_points.dtype == xp.uint8:
        packed = (rows, -(-blocks * bits // 8))
        check_size(ctx, "zero_points", zero_points, packed)
        values = unpacked(xp, zero_points.reshape(packed), bits, blocks)
    else:
        check_size(ctx, "zero_points", zero_points, shape)
        values = zero_points.reshape(shape)
    return values.astype(xp.float32) - float(1 << (bits - 1))


def matmul_n_bits(ctx: KernelContext) -> KernelCallable:
    """com.microsoft.MatMulNBits-1: ``A @ dequantised(B).T + bias``, B ``(N, blocks, block_size · bits / 8)`` uint8.

    ``accuracy_level`` allows less exact arithmetic than float32, of which no use is made. Scales and zero points may be
    flat. Raises InvalidArgument where sizes, bits or block size do not fit, NotImplemented for prepacked weights.
    """
    xp, attributes, where = ctx.xp, ctx.node.attributes, ctx.node.location
    n, k = _checked_sizes(ctx)
    bits, block = checked_bits(ctx, "bits"), checked_block_size(ctx)
    if attributes.get("weight_prepacked", 0):
        raise errors.NotImplemented(
            f"Weights prepacked for a device (weight_prepacked={attributes['weight_prepacked']}).",
            where=where,
            fix="Export the model with weight_prepacked=0.",
        )
    blocks = -(-k // block)
    size = block * bits // 8
    prepared = ctx.packed((3,), f"shifts of {bits} bits", lambda known: shifts_of(ctx, known, bits, (n, blocks)))

    def run(
        a: Array,
        b: Array,
        scales: Array,
        zero_points: Array | None = None,
        g_idx: Array | None = None,
        bias: Array | None = None,
    ) -> Array:
        if a.ndim < 1 or a.shape[-1] != k:
            raise InvalidArgument(
                f"A has shape {list(a.shape)}; its last axis must have K={k} entries.",
                where=where,
                fix="Check the shapes of the inputs that were fed.",
            )
        check_size(ctx, "B", b, (n, blocks, size))
        check_size(ctx, "scales", scales, (n, blocks))
        if bias is not None:
            check_size(ctx, "bias", bias, (n,))
        shape = (*a.shape[:-1], n)
        ctx.check_allocation(shape, xp.float32)
        shifts = prepared
        if shifts is None and zero_points is not None:
            shifts = shifts_of(ctx, zero_points, bits, (n, blocks))
        weights = PackedMatrix(
            b.reshape((n, blocks * size)),
            scales.reshape((n, blocks)),
            shifts,
            bits,
            None if g_idx is None else _groups(ctx, g_idx, k, blocks, block),
        )
        y = weights.times(ctx, widened(xp, a.reshape((prod(a.shape[:-1]), k))))
        if bias is not None:
            xp.add(y, widened(xp, bias.reshape(-1)), out=y)
        return rounded(y.reshape(shape), a.dtype)

    return run


def _groups(ctx: KernelContext, g_idx: Array, k: int, blocks: int, block: int) -> Array:
    """Block numbers of all columns, those of the padding being 0."""
    xp = ctx.xp
    if g_idx.size not in (k, blocks * block):
        raise InvalidArgument(
            f"g_idx has shape {list(g_idx.shape)}; it needs one entry for each of the K={k} columns.",
            where=ctx.node.location,
            fix="Leave it out where blocks are runs of columns.",
        )
    check_indices(ctx, g_idx, blocks)
    groups = xp.zeros((blocks * block,), xp.int64)
    groups[: g_idx.size] = g_idx.reshape(-1)
    return groups


_FP4 = (0.0, 0.0625, 8.0, 12.0, 4.0, 6.0, 2.0, 3.0)
"""Magnitudes of bitsandbytes' 4-bit floats; a twelfth of each, and the fourth bit is the sign."""

_NF4 = (
    -1.0,
    -0.6961928009986877,
    -0.5250730514526367,
    -0.39491748809814453,
    -0.28444138169288635,
    -0.18477343022823334,
    -0.09105003625154495,
    0.0,
    0.07958029955625534,
    0.16093020141124725,
    0.24611230194568634,
    0.33791524171829224,
    0.44070982933044434,
    0.5626170039176941,
    0.7229568362236023,
    1.0,
)
"""Quantiles of the normal distribution, from QLoRA (https://arxiv.org/abs/2305.14314), appendix E."""


def matmul_bnb4(ctx: KernelContext) -> KernelCallable:
    """com.microsoft.MatMulBnb4-1: a product with weights ``(N, K)`` in bitsandbytes' FP4 or NF4.

    The flat weights are quantised in blocks of ``block_size``, two per byte, the first in the upper half. With
    ``transB`` (the default) A is ``(..., K)`` and the result ``(..., N)``; without, the other way round.

    Raises InvalidArgument where sizes, block size or ``quant_type`` do not fit.
    """
    xp, attributes, where = ctx.xp, ctx.node.attributes, ctx.node.location
    (n, k), block = _checked_sizes(ctx), checked_block_size(ctx)
    if attributes["quant_type"] not in (0, 1):
        raise InvalidArgument(
            f"quant_type is {attributes['quant_type']}.", where=where, fix="It must be 0 (FP4) or 1 (NF4)."
        )
    table = _NF4 if attributes["quant_type"] else tuple(sign * entry / 12 for sign in (1, -1) for entry in _FP4)
    pairs = xp.asarray([(high, low) for high in table for low in table], dtype=xp.float32)
    # Both elements of a byte are looked up at once, as one number of eight bytes.
    pairs = pairs.view(xp.complex64).reshape(-1)
    transposed = bool(attributes.get("transB", 1))
    inner, outer = (k, n) if transposed else (n, k)

    def run(a: Array, b: Array, absmax: Array) -> Array:
        if a.ndim < 1 or a.shape[-1] != inner:
            raise InvalidArgument(
                f"A has shape {list(a.shape)}; its last axis must have {'K' if transposed else 'N'}={inner} entries.",
                where=where,
                fix="Check the shapes of the inputs that were fed.",
            )
        check_size(ctx, "B", b, (-(-n * k // 2),))
        check_size(ctx, "absmax", absmax, (-(-n * k // block),))
        shape = (*a.shape[:-1], outer)
        ctx.check_allocation(shape, xp.float32)
        rows = widened(xp, a.reshape((prod(a.shape[:-1]), inner)))
        flat, largest = b.reshape(-1), widened(xp, absmax.reshape(-1))

        def unpack(start: int, stop: int) -> Array:
            return _bnb4_rows(xp, pairs, flat, largest, block, k, start, stop)

        if transposed:
            y = times_in_parts(ctx, (n, k), rows.shape[0], lambda first, last: xp.matmul(rows, unpack(first, last).T))
        else:
            y = _times_untransposed(xp, rows, n, k, unpack)
        return rounded(y.reshape(shape), a.dtype)

    return run


def _bnb4_rows(
    xp: Any, pairs: Array, packed: Array, absmax: Array, block: int, width: int, start: int, stop: int
) -> Array:
    """Rows as float32. They begin and end anywhere in the blocks, so whole blocks around them are unpacked."""
    first, last = start * width // block, -(-stop * width // block)
    values = pairs[packed[first * block // 2 : last * block // 2]].view(xp.float32)
    xp.multiply(values, xp.repeat(absmax[first:last], block)[: values.shape[0]], out=values)
    offset = start * width - first * block
    return values[offset : offset + (stop - start) * width].reshape((stop - start, width))


def _times_untransposed(xp: Any, x: Array, n: int, k: int, unpack: Any) -> Array:
    """``x @ W``: each part of W adds to the whole result."""
    y = xp.zeros((x.shape[0], k), xp.float32)
    step = max(1, (1 << 19) // max(1, k))
    for first in range(0, n, step):
        last = min(first + step, n)
        xp.add(y, xp.matmul(x[:, first:last], unpack(first, last)), out=y)
    return y


KERNELS = [
    KernelDef(name, factory, domain=DOMAIN, since=1, implementation=f"{__name__}:{factory.__name__}")
    for name, factory in (("MatMulNBits", matmul_n_bits), ("MatMulBnb4", matmul_bnb4))
]
