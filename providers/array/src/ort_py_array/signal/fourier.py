"""One-dimensional transforms of many signals at once, and the two forms in which ONNX and the array module hold them.

ONNX knows no complex signals: it keeps the real and the imaginary part on a last axis of two, which is how complex
numbers lie in memory, so that the ways there and back are views. Used by DFT and STFT; knows no operator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelContext
from ort_py.devices import HOST
from ort_py.errors import InvalidArgument
from ort_py_array.durations import ahead_of_transform

__all__ = ["Transform", "along_middle", "as_pairs", "as_signal", "complex_of", "scalar"]

Transform: TypeAlias = Callable[[Array, int, int], Array]
"""``f(x, length, axis)`` of the array module's `fft`: cuts or pads with zeros to `length`."""

_ELEMENTS = 1 << 15
"""Elements of a block: its signals, spectra and temporaries stay in a core's second-level cache."""


def complex_of(xp: Any, dtype: Any) -> Any:
    """The complex type whose parts are of this real type (float32 or float64)."""
    return xp.complex128 if dtype.itemsize == 8 else xp.complex64


def as_signal(ctx: KernelContext, x: Array) -> Array:
    """`x` of shape ``(…, 1)`` as real numbers or ``(…, 2)`` as complex ones, of shape ``(…)``; a view.

    Args:
        ctx: Context of the node.
        x: C-contiguous, float32 or float64.

    Raises:
        InvalidArgument: The last axis holds neither one part nor two.
    """
    if x.ndim < 2 or x.shape[-1] not in (1, 2):
        raise InvalidArgument(
            f"A signal of shape {list(x.shape)} is neither real nor complex.",
            where=ctx.node.location,
            why="the last axis holds the parts of one number: 1 for real signals, 2 for complex ones",
            fix="Append an axis of size 1 to a real signal.",
        )
    return x.reshape(x.shape[:-1]) if x.shape[-1] == 1 else x.view(complex_of(ctx.xp, x.dtype)).reshape(x.shape[:-1])


def as_pairs(x: Array, real: Any) -> Array:
    """Complex, C-contiguous `x` of shape ``(…)`` as pairs of this real type, of shape ``(…, 2)``; a view."""
    return x.view(real).reshape((*x.shape, 2))


def along_middle(ctx: KernelContext, transform: Transform, x: Array, length: int, out: Array) -> None:
    """Transform `x` of shape ``(lead, n, trail)`` along its middle axis into `out`, in blocks on the context's pool."""
    lead, size, trail = x.shape
    longest = max(size, out.shape[1], 1)
    # A block is one call; several are asked about one by one.
    ahead_of_transform(ctx, max(1, min(lead * trail, _ELEMENTS // longest)), length)
    if ctx.device != HOST or longest * lead * trail <= _ELEMENTS:
        out[...] = transform(x, length, 1)
    elif lead > 1:
        step = max(1, _ELEMENTS // (longest * max(trail, 1)))

        def rows(start: int, stop: int) -> None:
            for first in range(start, stop, step):
                last = min(first + step, stop)
                out[first:last] = transform(x[first:last], length, 1)

        ctx.parallel_for(lead, step, rows)
    else:
        step = max(1, _ELEMENTS // longest)

        def columns(start: int, stop: int) -> None:
            for first in range(start, stop, step):
                last = min(first + step, stop)
                out[:, :, first:last] = transform(x[:, :, first:last], length, 1)

        ctx.parallel_for(trail, step, columns)


def scalar(ctx: KernelContext, value: Array, name: str) -> int:
    """The one number of a host input.

    Raises:
        InvalidArgument: The input holds none or several.
    """
    if value.size != 1:
        raise InvalidArgument(
            f"{name} has the shape {list(value.shape)}.", where=ctx.node.location, fix=f"{name} must be one number."
        )
    return int(value.reshape(()).item())
