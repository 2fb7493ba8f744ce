"""Values between pixels: gathers at fractional positions, weighted and added up, whatever the number of axes.

`Pixels` lays pictures out so that a gather copies whole runs; `linear_taps` and `cubic_taps` say which positions along
one axis count and how much; `interpolated` gathers the corners (2 or 4 to the power of the axes) and adds them up. It
is independent of operators and grids: GridSample and DeformConv come here with positions in pixels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any, TypeAlias

from ort_py.contracts.graph_view import Array
from ort_py.lazy_dataclass import dataclass

__all__ = ["Pixels", "Taps", "blocks", "cubic_taps", "interpolated", "linear_taps", "zeroed"]

Taps: TypeAlias = list[tuple[Array, Array | None]]
"""(index, weight) along one axis; a weight of None is 1."""

Resolve: TypeAlias = Callable[[Array], Array]
"""Takes positions (int64, any value) along an axis to positions that are there."""

_RUN = 8
"""Channels from which a pixel's channels are laid out as one run; below, gathering each channel by itself is faster."""

_CUBIC = -0.75  # Keys' parameter, as in every runtime


@dataclass(frozen=True, slots=True)
class Pixels:
    """Pictures as a matrix of pixels and channels.

    Attributes:
        values: Shape ``(pixels, channels)``, or the transpose where there are few channels.
        axis: Which axis counts pixels.
        strides: Pixels between neighbours: first those between images, then one number a spatial axis.
    """

    values: Array
    axis: int
    strides: tuple[int, ...]

    @staticmethod
    def of(xp: Any, x: Array, dtype: Any, ring: bool) -> Pixels:
        """Lay pictures out.

        Args:
            xp: Array module.
            x: Shape ``(n, c, *size)``.
            dtype: Element type to compute in.
            ring: Append one position of zeros (empty strings) to every spatial axis, for what lies outside.
        """
        n, c, *size = x.shape
        extended = [length + ring for length in size]
        axis = 0 if c >= _RUN else 1
        inner = tuple(slice(0, length) for length in size)
        shape = (n, *extended, c) if axis == 0 else (c, n, *extended)
        values = xp.full(shape, "", dtype) if dtype.kind == "O" else xp.zeros(shape, dtype)
        if axis == 0:
            values[(slice(None), *inner)] = xp.moveaxis(x, 1, -1)
        else:
            values[(slice(None), slice(None), *inner)] = xp.swapaxes(x, 0, 1)
        pixels = n * prod(extended)
        strides = tuple(prod(extended[start:]) for start in range(len(size) + 1))
        return Pixels(values.reshape((pixels, c) if axis == 0 else (c, pixels)), axis, strides)

    def image_first(self, xp: Any, gathered: Array, images: int) -> Array:
        """Gathered points of `images` images as ``(images, channels, points)``; a view."""
        if self.axis == 0:
            return xp.swapaxes(gathered.reshape((images, -1, gathered.shape[1])), 1, 2)
        return xp.swapaxes(gathered.reshape((gathered.shape[0], images, -1)), 0, 1)


def zeroed(xp: Any, size: int) -> Resolve:
    """Positions outside an axis of `size` pixels become `size`, the ring of `Pixels.of`."""

    def resolve(index: Array) -> Array:
        return xp.minimum(index.view(xp.uint64), xp.uint64(size)).view(xp.int64)  # negative ones are huge

    return resolve


def linear_taps(xp: Any, position: Array, resolve: Resolve, weights: Any) -> Taps:
    """The two neighbours of each position, weighted by nearness.

    Args:
        xp: Array module.
        position: In pixels, of a floating type and not beyond the range of int64; NaN gives weights of NaN.
        resolve: Applied to each neighbour.
        weights: Floating type of the weights.
    """
    below = xp.floor(position)
    after = (position - below).astype(weights)
    index = xp.fmax(below, -2).astype(xp.int64)  # NaN becomes an index, too
    return [(resolve(index), 1 - after), (resolve(index + 1), after)]


def cubic_taps(xp: Any, position: Array, resolve: Resolve, weights: Any) -> Taps:
    """The four neighbours of each position by Keys' cubic convolution; arguments as for `linear_taps`."""
    below = xp.floor(position)
    after = (position - below).astype(weights)
    index = xp.fmax(below, -4).astype(xp.int64)
    before = 1 - after
    factors = (_far(after + 1), _near(after), _near(before), _far(before + 1))
    return [(resolve(index + (tap - 1)), factor) for tap, factor in enumerate(factors)]


def _near(t: Array) -> Array:
    return ((_CUBIC + 2) * t - (_CUBIC + 3)) * t * t + 1


def _far(t: Array) -> Array:
    return ((_CUBIC * t - 5 * _CUBIC) * t + 8 * _CUBIC) * t - 4 * _CUBIC


def interpolated(xp: Any, pixels: Pixels, first: Array | int, taps: Sequence[Taps]) -> Array:
    """Weighted sums of pixels.

    Args:
        xp: Array module.
        pixels: Where from.
        first: Index of the first pixel of each point's image.
        taps: One entry a spatial axis, each of arrays of one shape ``(points,)``.

    Returns:
        A new array ``(points, channels)``, or the transpose, as `pixels` are laid out.
    """
    scaled = [
        [(index if stride == 1 else index * stride, weight) for index, weight in axis]
        for axis, stride in zip(taps, pixels.strides[1:], strict=True)
    ]
    total = None
    for index, weight in _corners(scaled, first, None):
        term = xp.take(pixels.values, index, axis=pixels.axis)
        if weight is not None:
            term *= weight.reshape((-1, 1)) if pixels.axis == 0 else weight
        if total is None:
            total = term
        else:
            total += term
    return total


def _corners(taps: Sequence[Taps], index: Any, weight: Array | None) -> Iterator[tuple[Array, Array | None]]:
    """All combinations of one tap an axis; what the first axes have in common is computed once."""
    if not taps:
        yield index, weight
        return
    for own, factor in taps[0]:
        both = factor if weight is None else weight if factor is None else weight * factor
        yield from _corners(taps[1:], index + own, both)


def blocks(images: int, points: int, fitting: int) -> list[tuple[slice, slice]]:
    """(images, points) cut in parts of at most about `fitting` points: whole images, or parts of one."""
    if points == 0 or images == 0:
        return []
    some = max(1, fitting // points)
    step = points if points <= fitting else fitting
    return [
        (slice(image, min(image + some, images)), slice(start, min(start + step, points)))
        for image in range(0, images, some)
        for start in range(0, points, step)
    ]
