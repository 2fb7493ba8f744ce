"""DFT: the discrete Fourier transform along one axis, its inverse, and the halves of both that real signals need.

Everything is one call of the array module's FFT on a view of the input; this module finds axis, length and shapes.
Narrow floats are computed in float32. Comes after `fourier`.
"""

from __future__ import annotations

from math import prod
from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import ALL_FLOATS, KernelCallable, KernelContext, KernelDef
from ort_py.errors import InvalidArgument
from ort_py_array.checks import normalized_axis
from ort_py_array.durations import ahead_of_transform
from ort_py_array.precision import rounded, widened
from ort_py_array.signal.fourier import Transform, along_middle, as_pairs, as_signal, complex_of, scalar

__all__ = ["KERNELS", "dft"]


def dft(ctx: KernelContext) -> KernelCallable:
    """DFT-17 and 20 of a tensor ``[…][1]`` (real) or ``[…][2]`` (complex); any floating type.

    The axis is an attribute with default 1 in version 17, an optional host scalar with default -2 in version 20. The
    optional host scalar ``dft_length`` cuts the axis or pads it with zeros. ``onesided`` keeps the first
    ``dft_length // 2 + 1`` values of a real signal's spectrum, and with ``inverse`` makes a real signal of them. A
    transform of length 0 is a sum of nothing.

    Raises:
        InvalidArgument: The last axis is not 1 or 2 long, the axis is out of range or the last one, the length is
            negative, or ``onesided`` does not go with the input.
        LimitError: The length asks for too much memory.
    """
    attributes = ctx.node.attributes
    inverse, onesided = bool(attributes.get("inverse", 0)), bool(attributes.get("onesided", 0))
    default_axis = int(attributes.get("axis", 1)) if ctx.node.since_version < 20 else -2
    fft = ctx.xp.fft
    transform: Transform = (fft.irfft if onesided else fft.ifft) if inverse else (fft.rfft if onesided else fft.fft)

    def run(x: Array, dft_length: Array | None = None, axis: Array | None = None) -> Array:
        chosen = default_axis if axis is None else scalar(ctx, axis, "axis")
        wide = widened(ctx.xp, x)
        signal = as_signal(ctx, wide)
        place = _checked_axis(ctx, chosen, x.ndim)
        if onesided:
            _check_onesided(ctx, inverse, x)
        length = _length(ctx, dft_length, signal.shape[place], inverse and onesided)
        half = onesided and not inverse
        shape = (*signal.shape[:place], length // 2 + 1 if half else length, *signal.shape[place + 1 :])
        real = inverse and onesided
        return rounded(_transformed(ctx, transform, signal, place, length, shape, wide.dtype, real), x.dtype)

    return run


def _transformed(
    ctx: KernelContext,
    transform: Transform,
    signal: Array,
    axis: int,
    length: int,
    shape: tuple[int, ...],
    parts: Any,
    real: bool,
) -> Array:
    xp = ctx.xp
    dtype = parts if real else complex_of(xp, parts)
    ctx.check_allocation(shape, xp.dtype(dtype))
    lead, trail = prod(shape[:axis]), prod(shape[axis + 1 :])
    if length == 0 or lead * trail == 0:
        y = xp.zeros(shape, dtype)
    elif signal.size and trail == 1 and lead == 1:  # one signal: nothing to cut, and no copy into place
        ahead_of_transform(ctx, 1, length)
        y = transform(signal.reshape(-1), length, 0).reshape(shape)
    elif signal.size:
        y = xp.empty((lead, shape[axis], trail), dtype)
        along_middle(ctx, transform, signal.reshape((lead, signal.shape[axis], trail)), length, y)
        y = y.reshape(shape)
    else:
        y = xp.zeros(shape, dtype)  # nothing but padding
    return y.reshape((*shape, 1)) if real else as_pairs(y, parts)


def _checked_axis(ctx: KernelContext, axis: int, rank: int) -> int:
    place = normalized_axis(axis, rank, ctx.node.location)
    if place == rank - 1:
        raise InvalidArgument(
            f"Axis {axis} of a rank {rank} tensor holds the parts of its numbers and cannot be transformed.",
            where=ctx.node.location,
            fix=f"The axis must be in [{-rank}, -2] or [0, {rank - 2}].",
        )
    return place


def _check_onesided(ctx: KernelContext, inverse: bool, x: Array) -> None:
    wanted, what = (2, "complex spectra") if inverse else (1, "real signals")
    if x.shape[-1] != wanted:
        raise InvalidArgument(
            f"DFT with onesided=1 and inverse={int(inverse)} got an input of shape {list(x.shape)}.",
            where=ctx.node.location,
            why=f"this transform exists for {what} only, whose last axis has the size {wanted}",
            fix="Set onesided=0, or feed the other form.",
        )


def _length(ctx: KernelContext, given: Array | None, size: int, half: bool) -> int:
    length = scalar(ctx, given, "dft_length") if given is not None else 2 * (size - 1) if half else size
    if length < 0:
        raise InvalidArgument(
            f"dft_length is {length}.",
            where=ctx.node.location,
            why="" if given is not None else f"without dft_length it is twice the axis' size {size} less one",
            fix="It must not be negative.",
        )
    return length


_SHARED: dict[str, Any] = {"types": {"T1": ALL_FLOATS}, "implementation": f"{__name__}:dft"}

KERNELS: list[KernelDef] = [
    KernelDef("DFT", dft, since=17, host_inputs=frozenset({1}), **_SHARED),
    KernelDef("DFT", dft, since=20, host_inputs=frozenset({1, 2}), **_SHARED),
]
