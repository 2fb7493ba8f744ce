"""GridSample: a picture or volume read at the positions of a grid.

Positions outside are mapped inside first (zeros, border, reflection); `interpolation` gathers the surrounding pixels.
Points are taken in blocks of bounded size, on the context's pool. ``com.microsoft.GridSample`` is version 16 under
another domain: the factory serves both.
"""

from __future__ import annotations

from math import prod
from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelCallable, KernelContext, KernelDef
from ort_py.devices import HOST
from ort_py.errors import InvalidArgument
from ort_py.lazy_dataclass import dataclass
from ort_py_array.checks import shape_error
from ort_py_array.precision import is_narrow, rounded, widened
from ort_py_array.vision.interpolation import Pixels, Taps, blocks, cubic_taps, interpolated, linear_taps, zeroed

__all__ = ["KERNELS", "grid_sample"]

_OLD_MODES = {"bilinear": "linear", "nearest": "nearest", "bicubic": "cubic"}
_MODES = {"linear": "linear", "nearest": "nearest", "cubic": "cubic"}
_PADDINGS = ("zeros", "border", "reflection")

_ELEMENTS = 1 << 17
"""Gathered elements of a block on the host: half a MiB of float32, with a few temporaries, stays near a core."""
_DEVICE_ELEMENTS = 1 << 24  # a device wants few, large steps

_FARTHEST = 1e28
"""Grid values are cut off here: infinity would become NaN where a picture is one pixel wide."""


@dataclass(frozen=True, slots=True)
class _Sampler:
    """A node's attributes; `modes` is "linear", "nearest" or "cubic"."""

    mode: str
    padding: str
    align_corners: bool

    def taps(self, xp: Any, grid: Array, size: int, weights: Any) -> Taps:
        """Positions and weights to gather along one axis of `size` pixels, for normalised positions of a floating
        type.
        """
        x = self._inside(xp, self._position(xp, grid, size), size)
        if self.mode == "linear":
            return linear_taps(xp, x, self._resolve(xp, size), weights)
        if self.mode == "cubic":
            return cubic_taps(xp, x, self._resolve(xp, size), weights)
        return [(self._resolve(xp, size)(xp.fmax(x, -1).astype(xp.int64)), None)]

    def _position(self, xp: Any, grid: Array, size: int) -> Array:
        x = xp.clip(grid, -_FARTHEST, _FARTHEST) + 1
        x = x / 2 * (size - 1) if self.align_corners else (x * size - 1) / 2
        return xp.rint(x) if self.mode == "nearest" else x

    def _inside(self, xp: Any, x: Array, size: int) -> Array:
        """Positions within reach of the picture; NaN stays."""
        if self.padding == "zeros":
            return xp.clip(x, -3, size + 2)  # from here on no tap meets the picture
        low, high = (0.0, size - 1.0) if self.align_corners else (-0.5, size - 0.5)
        if self.padding == "border":
            # Within half a pixel of the picture, only the taps are held back, not the position: a cubic differs.
            return xp.where((x < low) | (x > high), xp.clip(x, 0, size - 1), x)
        span = high - low
        if span == 0:
            return xp.zeros_like(x)
        folded = low + (span - xp.abs(xp.remainder(xp.abs(x - low), 2 * span) - span))
        return xp.where((x < low) | (x > high), folded, x)

    def _resolve(self, xp: Any, size: int) -> Any:
        if self.padding == "zeros":
            return zeroed(xp, size)
        # Two neighbours of a position between the outermost pixels' edges fold back onto the border pixels.
        if self.padding == "border" or self.mode != "cubic" or size == 1:
            return lambda index: xp.clip(index, 0, size - 1)
        period = 2 * size - 2 if self.align_corners else 2 * size
        last = period if self.align_corners else period - 1

        def reflect(index: Array) -> Array:
            index = xp.remainder(index, period)
            return xp.minimum(index, last - index)

        return reflect


def grid_sample(ctx: KernelContext) -> KernelCallable:
    """GridSample-16..22: X ``(n, c, *size)`` at grid ``(n, *out, r)`` → ``(n, c, *out)``.

    Any type for nearest. Linear and cubic are computed in floating point (float32 for narrow types and small integers)
    and rounded once; integers are truncated towards zero, within their range. The grid's last axis counts from the
    innermost spatial axis outwards.

    Raises:
        InvalidArgument: Unknown mode; shapes that do not fit; nothing to repeat at an empty border; strings, which
            have no values between them, in another mode than nearest.
    """
    xp, where = ctx.xp, ctx.node.location
    sampler = _sampler(ctx)
    fitting = _ELEMENTS if ctx.device == HOST else _DEVICE_ELEMENTS

    def run(x: Array, grid: Array) -> Array:
        _check(ctx, sampler, x, grid)
        n, c, *size = x.shape
        shape = (n, c, *grid.shape[1:-1])
        ctx.check_allocation(shape, x.dtype)
        if 0 in shape:
            return xp.zeros(shape, x.dtype)
        if 0 in size and sampler.padding != "zeros":
            raise InvalidArgument(
                f"An input of shape {list(x.shape)} has no pixels to sample with padding_mode '{sampler.padding}'.",
                where=where,
                fix="Feed a picture with at least one pixel along each axis, or use padding_mode 'zeros'.",
            )
        dtype, weights = (x.dtype, None) if sampler.mode == "nearest" else _precision(xp, x.dtype)
        pixels = Pixels.of(xp, x, dtype, ring=sampler.padding == "zeros")
        points = prod(shape[2:])
        flat = grid.reshape((n, points, len(size)))
        out = xp.empty((n, c, points), x.dtype)
        parts = blocks(n, points, max(1, fitting // c))

        def part(start: int, stop: int) -> None:
            for images, some in parts[start:stop]:
                seen = widened(xp, flat[images, some].reshape((-1, len(size))))
                taps = [
                    sampler.taps(xp, xp.ascontiguousarray(seen[:, len(size) - 1 - axis]), length, weights)
                    for axis, length in enumerate(size)
                ]
                count = images.stop - images.start
                first = xp.repeat(xp.arange(images.start, images.stop) * pixels.strides[0], some.stop - some.start)
                values = interpolated(xp, pixels, first, taps)
                out[images, :, some] = pixels.image_first(xp, _converted(xp, values, x.dtype), count)

        ctx.parallel_for(len(parts), 1, part)
        return out.reshape(shape)

    return run


def _sampler(ctx: KernelContext) -> _Sampler:
    attributes, where = ctx.node.attributes, ctx.node.location
    modes = _MODES if ctx.node.since_version >= 20 else _OLD_MODES
    mode = attributes.get("mode", next(iter(modes)))
    if mode not in modes:
        raise InvalidArgument(
            f"mode is '{mode}'.",
            where=where,
            why="opset 20 renamed bilinear and bicubic to linear and cubic" if mode in {*_MODES, *_OLD_MODES} else (),
            fix=f"Use one of {', '.join(modes)}.",
        )
    padding = attributes.get("padding_mode", "zeros")
    if padding not in _PADDINGS:
        raise InvalidArgument(f"padding_mode is '{padding}'.", where=where, fix=f"Use one of {', '.join(_PADDINGS)}.")
    return _Sampler(modes[mode], padding, bool(attributes.get("align_corners", 0)))


def _check(ctx: KernelContext, sampler: _Sampler, x: Array, grid: Array) -> None:
    where, rank = ctx.node.location, x.ndim - 2
    if rank < 1 or (ctx.node.since_version < 20 and rank != 2):
        wanted = "(n, c, d1, …)" if ctx.node.since_version >= 20 else "(n, c, h, w)"
        raise shape_error(f"GridSample needs an input of shape {wanted}.", where, [x.shape, grid.shape])
    if grid.ndim != x.ndim or grid.shape[0] != x.shape[0] or grid.shape[-1] != rank:
        raise shape_error(
            f"The grid does not fit the input: its shape must be ({x.shape[0]}, {rank} output sizes, {rank}).",
            where,
            [x.shape, grid.shape],
        )
    if x.dtype.kind == "O" and sampler.mode != "nearest":
        raise InvalidArgument(
            f"Strings cannot be interpolated with mode '{sampler.mode}'.", where=where, fix="Use mode 'nearest'."
        )


def _precision(xp: Any, dtype: Any) -> tuple[Any, Any]:
    """(type to compute in, type of weights) for values of a type."""
    if dtype.kind == "c":
        return dtype, xp.float64 if dtype.itemsize == 16 else xp.float32
    wide = xp.float64 if dtype == xp.float64 or (dtype.kind in "iu" and dtype.itemsize > 2) else xp.float32
    return xp.dtype(wide), wide


def _converted(xp: Any, values: Array, dtype: Any) -> Array:
    """Computed values in the input's type; integers as a C++ cast does, within their range."""
    if values.dtype == dtype or is_narrow(dtype) or dtype.kind not in "iu":
        return rounded(values, dtype)
    info = xp.iinfo(dtype)
    # The greatest 64-bit integers would be rounded up, out of range: the float64 before is taken instead.
    high = info.max if dtype.itemsize < 8 else info.max - (2047 if dtype.kind == "u" else 1023)
    return xp.clip(values, float(info.min), float(high)).astype(dtype)


KERNELS = [
    KernelDef("GridSample", grid_sample, since=16, until=22, strided=True, implementation=f"{__name__}:grid_sample")
]
