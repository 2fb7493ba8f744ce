"""GatherBlockQuantized: Gather from a quantised table; only what is gathered is dequantised."""

from __future__ import annotations

from math import prod
from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelContext, kernel
from ort_py.devices import HOST
from ort_py.errors import InvalidArgument
from ort_py_array.checks import normalized_axis, shape_error
from ort_py_array.contrib.packed_weights import unpacked
from ort_py_array.contrib.schemas.notation import DOMAIN
from ort_py_array.precision import widened

__all__ = ["gather_block_quantized"]

_ELEMENTS = 1 << 16
"""Dequantised at once, in several steps that share a core's cache."""


@kernel("GatherBlockQuantized", domain=DOMAIN, since=1)
def gather_block_quantized(
    ctx: KernelContext,
    data: Array,
    indices: Array,
    scales: Array,
    zero_points: Array | None = None,
    *,
    bits: int = 4,
    block_size: int = 128,
    gather_axis: int = 0,
    quantize_axis: int = 1,
) -> Array:
    """com.microsoft.GatherBlockQuantized-1: ``(data - zero_point) · scale`` of the slices that `indices` name.

    uint8 data hold ``8 / bits`` values a byte of their last axis, the first in the lowest bits. Scales (and zero
    points) have one entry for each block of ``block_size`` along ``quantize_axis``. An index out of range gives zeros.

    Raises:
        InvalidArgument: Shapes, axes, bits or block size do not fit.
        LimitError: The result would be too large.
    """
    xp, where = ctx.xp, ctx.node.location
    gather = normalized_axis(gather_axis, data.ndim, where)
    along = normalized_axis(quantize_axis, data.ndim, where)
    is_float, packed = data.dtype.name.startswith("float"), data.dtype == xp.uint8
    _check_attributes(ctx, data, bits, block_size, gather, along)
    if is_float and zero_points is not None:
        raise InvalidArgument(
            f"There are zero points for data of type {data.dtype.name}.", where=where, fix="Leave them out."
        )
    each = 8 // bits if packed else 1
    logical = (*data.shape[:-1], data.shape[-1] * each)
    block = block_size or max(1, logical[along])
    _check_scales(ctx, logical, scales, zero_points, along, block, each, broadcasts=is_float)
    shape = (*logical[:gather], *indices.shape, *logical[gather + 1 :])
    ctx.check_allocation(shape, xp.float32)
    size = logical[gather]
    if 0 in shape or size == 0:
        return xp.zeros(shape, scales.dtype)

    flat = indices.reshape(-1).astype(xp.int64)
    wrapped = xp.where(flat < 0, flat + size, flat)
    outside = xp.logical_or(wrapped < 0, wrapped >= size)
    wrapped = xp.clip(wrapped, 0, size - 1)
    out = xp.empty((*logical[:gather], flat.shape[0], *logical[gather + 1 :]), scales.dtype)
    before = (slice(None),) * gather

    def gathered(parameter: Array, some: Array, *, packed: bool = False) -> Array:
        """A parameter of some slices, broadcasting to their values."""
        if gather == along:
            return xp.take(parameter, some // block, axis=gather)
        if parameter.shape[gather] != 1:
            parameter = xp.take(parameter, some, axis=gather)
        if packed:
            parameter = unpacked(xp, parameter, bits, scales.shape[-1])
        return xp.repeat(parameter, block, axis=along)[(*(slice(None),) * along, slice(0, logical[along]))]

    def part(start: int, stop: int) -> None:
        for first in range(start, stop, step):
            last = min(first + step, stop)
            some = wrapped[first:last]
            values = xp.take(data, some, axis=gather)
            wide = (unpacked(xp, values, bits, logical[-1]) if packed else values).astype(xp.float32)
            if zero_points is not None:
                xp.subtract(wide, gathered(zero_points, some, packed=packed).astype(xp.float32), out=wide)
            elif packed:
                xp.subtract(wide, float(1 << (bits - 1)), out=wide)
            xp.multiply(wide, widened(xp, gathered(scales, some)), out=wide)
            nothing = outside[first:last].reshape((-1,) + (1,) * (data.ndim - 1 - gather))
            out[(*before, slice(first, last))] = xp.where(nothing, xp.float32(0), wide)

    step = max(1, _ELEMENTS * flat.shape[0] // prod(shape)) if ctx.device == HOST else flat.shape[0]
    ctx.parallel_for(flat.shape[0], step, part)
    return out.reshape(shape)


def _check_attributes(ctx: KernelContext, data: Array, bits: int, block_size: int, gather: int, along: int) -> None:
    where, name = ctx.node.location, data.dtype.name
    is_float = name.startswith("float")
    if not (is_float and block_size == 0) and (block_size < 16 or block_size & (block_size - 1)):
        raise InvalidArgument(
            f"block_size is {block_size}.",
            where=where,
            fix="It must be a power of two and at least 16" + (", or 0 for one block." if is_float else "."),
        )
    if not is_float and bits not in ((2, 4, 8) if name == "uint8" else (4,)):
        raise InvalidArgument(
            f"bits is {bits} for data of type {name}.", where=where, fix="uint8 data hold 2, 4 or 8 bits, others 4."
        )
    if name == "uint8" and (gather != 0 or along != data.ndim - 1 or gather == along):
        raise InvalidArgument(
            f"gather_axis is {gather} and quantize_axis {along} for uint8 data of rank {data.ndim}.",
            where=where,
            fix="uint8 data are gathered along axis 0 and quantised along the last, which must be another.",
        )


def _check_scales(
    ctx: KernelContext,
    logical: tuple[int, ...],
    scales: Array,
    zero_points: Array | None,
    along: int,
    block: int,
    each: int,
    *,
    broadcasts: bool,
) -> None:
    wanted: Any = tuple(-(-dim // block) if axis == along else dim for axis, dim in enumerate(logical))
    fits = scales.ndim == len(wanted) and all(
        own == dim or (broadcasts and own == 1 and axis != along)
        for axis, (own, dim) in enumerate(zip(scales.shape, wanted, strict=True))
    )
    if not fits:
        raise shape_error(f"The scales need the shape {wanted}.", ctx.node.location, [logical, scales.shape])
    packed = (*wanted[:-1], -(-wanted[-1] // each))
    if zero_points is not None and tuple(zero_points.shape) != packed:
        raise shape_error(f"The zero points need the shape {packed}.", ctx.node.location, [zero_points.shape])
