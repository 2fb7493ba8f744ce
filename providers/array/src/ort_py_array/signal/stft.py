"""STFT: the spectra of overlapping pieces of a signal.

The frames are a strided view of the signal; a block of them is weighted, transformed and written before the next.
Narrow floats are computed in float32. Comes after `fourier`.
"""

from __future__ import annotations

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import ALL_FLOATS, KernelContext, kernel
from ort_py.devices import HOST
from ort_py.errors import InvalidArgument
from ort_py_array.precision import rounded, widened
from ort_py_array.signal.fourier import as_pairs, as_signal, complex_of, scalar
from ort_py_array.strided_views import strided_view

__all__ = ["stft"]

_ELEMENTS = 1 << 15
"""Elements of the frames of one block, as in `fourier`."""


@kernel("STFT", since=17, types={"T1": ALL_FLOATS}, host_inputs=frozenset({1, 3}))
def stft(
    ctx: KernelContext,
    signal: Array,
    frame_step: Array,
    window: Array | None = None,
    frame_length: Array | None = None,
    *,
    onesided: int = 1,
) -> Array:
    """STFT-17: spectra ``[batch][frames][frequencies][2]`` of a signal ``[batch][time][1 or 2]``, any floating type.

    A signal of shape ``[batch][time]`` is real; ONNX does not have this form, but models that onnxruntime runs do.

    A frame is as long as `frame_length` (host) says, else as the window, else as the signal. Every `frame_step` (host)
    samples begins a frame, as long as frames fit. `onesided` keeps ``frame_length // 2 + 1`` frequencies.

    Raises:
        InvalidArgument: The signal is not of that form, is complex with `onesided`, or shorter than a frame; the step
            or the frame length is not positive; or the window is not one weight a sample.
        LimitError: The spectra would be too large.
    """
    xp = ctx.xp
    wide = widened(xp, signal)
    parts = wide.dtype
    samples = _checked_signal(ctx, wide, bool(onesided))
    step = _positive(ctx, frame_step, "frame_step")
    length = _frame_length(ctx, frame_length, window, samples.shape[1])
    batch, size = samples.shape
    frames = (size - length) // step + 1
    shape = (batch, frames, length // 2 + 1 if onesided else length)
    ctx.check_allocation(shape, xp.dtype(complex_of(xp, parts)))
    strides = (samples.strides[0], samples.strides[1] * step, samples.strides[1])
    pieces = strided_view(xp, samples, (batch, frames, length), strides)
    weights = None if window is None else widened(xp, window)
    transform = xp.fft.rfft if onesided else xp.fft.fft
    out = xp.empty(shape, complex_of(xp, parts))

    def part(start: int, stop: int) -> None:
        for first in range(start, stop, some):
            chosen = pieces[:, first : min(first + some, stop)]
            weighted = chosen if weights is None else xp.multiply(chosen, weights)
            out[:, first : min(first + some, stop)] = transform(weighted, length, 2)

    if out.size:
        some = max(1, _ELEMENTS // (batch * length)) if ctx.device == HOST else frames
        ctx.parallel_for(frames, some, part)
    return rounded(as_pairs(out, parts), signal.dtype)


def _checked_signal(ctx: KernelContext, signal: Array, onesided: bool) -> Array:
    if signal.ndim == 2:
        return signal
    samples = as_signal(ctx, signal)
    if samples.ndim != 2:
        raise InvalidArgument(
            f"STFT needs a signal of shape [batch][time] or [batch][time][1 or 2], not {list(signal.shape)}.",
            where=ctx.node.location,
            fix="Reshape the signal.",
        )
    if onesided and signal.shape[-1] == 2:
        raise InvalidArgument(
            f"STFT with onesided=1 got a complex signal of shape {list(signal.shape)}.",
            where=ctx.node.location,
            why="the spectrum of a complex signal has no half from which the other follows",
            fix="Set onesided=0; 1 is the default.",
        )
    return samples


def _positive(ctx: KernelContext, value: Array, name: str) -> int:
    number = scalar(ctx, value, name)
    if number < 1:
        raise InvalidArgument(f"{name} is {number}.", where=ctx.node.location, fix="It must be at least 1.")
    return number


def _frame_length(ctx: KernelContext, given: Array | None, window: Array | None, size: int) -> int:
    where = ctx.node.location
    length = size if window is None else int(window.size)
    if given is not None:
        length = _positive(ctx, given, "frame_length")
    if window is not None and tuple(window.shape) != (length,):
        raise InvalidArgument(
            f"A window of shape {list(window.shape)} does not fit frames of {length} samples.",
            where=where,
            fix="Give one weight a sample, or leave frame_length out.",
        )
    if not 1 <= length <= size:
        raise InvalidArgument(
            f"A frame of {length} samples does not fit into a signal of {size}.",
            where=where,
            fix="Feed a longer signal, or take shorter frames of at least one sample.",
        )
    return length
