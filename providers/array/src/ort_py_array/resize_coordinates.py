"""The input positions that an output position of Resize reads, and their weights; one axis at a time.

The arithmetic is float32, as in the runtimes that models were tested on: positions that fall exactly between two pixels
must fall to the same side here. It is float64 where positions are rounded and the scale follows from sizes: then the
specification's positions are quotients of whole numbers, and those runtimes find which of them lie halfway. It does not
depend on pictures; `resize` gathers and adds up.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.errors import InvalidArgument, Location
from ort_py.lazy_dataclass import dataclass

__all__ = ["Axis", "Sampling", "nearest", "weighted"]

_COORDINATES = (
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
    "tf_half_pixel_for_nn",
    "tf_crop_and_resize",
)
_NEAREST = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil", "simple")


@dataclass(frozen=True, slots=True)
class Sampling:
    """A Resize node's attributes."""

    mode: str
    coordinates: str
    nearest: str
    cubic: float
    exclude_outside: bool
    extrapolation: float
    antialias: bool

    @property
    def crops(self) -> bool:
        """True if a region of interest counts."""
        return self.coordinates == "tf_crop_and_resize"

    @property
    def rounds(self) -> bool:
        """True if positions are rounded to the nearest pixel."""
        return self.mode == "nearest" and self.nearest.startswith("round") and not self.crops

    def with_mode(self, mode: str) -> Sampling:
        """A copy with another mode."""
        return replace(self, mode=mode)

    def check(self, where: Location) -> None:
        """Refuse unknown modes.

        Raises:
            InvalidArgument: A mode is not one of the specification's.
        """
        for name, value, known in (
            ("mode", self.mode, ("nearest", "linear", "cubic")),
            ("coordinate_transformation_mode", self.coordinates, _COORDINATES),
            ("nearest_mode", self.nearest, _NEAREST),
        ):
            if value not in known:
                raise InvalidArgument(f"{name} is '{value}'.", where=where, fix=f"Use one of {', '.join(known)}.")


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis to resample: from `size` to `out`, with the region of interest from `start` to `end` (0 to 1)."""

    axis: int
    size: int
    out: int
    scale: float
    start: float
    end: float

    def changes(self, sampling: Sampling) -> bool:
        """Return whether resampling can change anything along this axis."""
        return self.out != self.size or self.scale != 1.0 or (sampling.crops and (self.start, self.end) != (0.0, 1.0))

    def positions(self, xp: Any, sampling: Sampling) -> Array:
        """The input coordinate of every output position."""
        f = xp.float64 if sampling.rounds and self.scale == self.out / self.size else xp.float32
        x = xp.arange(self.out, dtype=f)
        scale, size = f(self.scale), self.size
        mode = sampling.coordinates
        if mode == "asymmetric":
            return x / scale
        if mode == "align_corners":
            # Where a scale is given, the last pixels meet as if the output had not been cut to whole pixels.
            length = f(self.scale * size)
            return x * f(size - 1) / (length - f(1)) if self.out > 1 else xp.zeros_like(x)
        if mode == "tf_half_pixel_for_nn":
            return (x + f(0.5)) / scale
        if mode == "tf_crop_and_resize":
            start, end = f(self.start), f(self.end)
            if self.out > 1:
                return start * f(size - 1) + x * (end - start) * f(size - 1) / f(self.out - 1)
            return f(0.5) * (start + end) * f(size - 1) + xp.zeros_like(x)
        if mode == "pytorch_half_pixel" and self.out <= 1:
            return xp.zeros_like(x)
        if mode == "half_pixel_symmetric":
            # The output size was rounded to whole pixels; the picture stays centred nevertheless.
            adjustment = f(self.out) / (scale * f(size))
            return f(size / 2) * (f(1) - adjustment) + (x + f(0.5)) / scale - f(0.5)
        return (x + f(0.5)) / scale - f(0.5)

    def outside(self, xp: Any, sampling: Sampling) -> Array:
        """Mask of output positions beyond the picture."""
        positions = self.positions(xp, sampling)
        return (positions < 0) | (positions > self.size - 1)


def nearest(xp: Any, sampling: Sampling, plan: Axis) -> tuple[int, Array | None]:
    """Either how often every position is repeated (fast, whole-number enlargements), or the indices to take."""
    times = plan.out // plan.size
    if sampling.coordinates == "asymmetric" and sampling.nearest in ("floor", "simple") and plan.scale == times:
        return times, None
    x = plan.positions(xp, sampling)
    half = x.dtype.type(0.5)
    if sampling.nearest == "round_prefer_floor":
        x = xp.ceil(x - half)
    elif sampling.nearest == "round_prefer_ceil":
        x = xp.floor(x + half)
    elif sampling.nearest == "ceil" or (sampling.nearest == "simple" and plan.scale < 1):
        x = xp.ceil(x)
    else:
        x = xp.floor(x)
    return 0, xp.clip(x, 0, plan.size - 1).astype(xp.int64)


def weighted(xp: Any, sampling: Sampling, plan: Axis) -> Iterator[tuple[Array, Array]]:
    """(indices, weights) of every tap of linear or cubic interpolation."""
    f = xp.float32
    x = plan.positions(xp, sampling)
    below = xp.floor(x)
    shrink = min(plan.scale, 1.0) if sampling.antialias else 1.0
    support = 1.0 if sampling.mode == "linear" else 2.0
    reach = int(-(-support // shrink)) if shrink < 1 else int(support)
    # Distances are those to the middle of the tap, stretched where antialiasing widens the filter.
    taps = range(1 - reach, reach + 1)
    positions = [below + f(tap) for tap in taps]
    weights = [_kernel(xp, sampling, xp.abs(x - position) * f(shrink)) for position in positions]
    if sampling.exclude_outside:
        weights = [
            xp.where((position >= 0) & (position < plan.size), weight, f(0))
            for position, weight in zip(positions, weights, strict=True)
        ]
    if sampling.exclude_outside or sampling.antialias:
        total = sum(weights[1:], weights[0])
        weights = [weight / total for weight in weights]
    indices = [xp.clip(position, 0, plan.size - 1).astype(xp.int64) for position in positions]
    if len(indices) == 2 and not sampling.exclude_outside and not sampling.antialias:
        # Both taps read the border there; none may have a weight of 0, which makes NaN of an infinity.
        weights = [xp.where(indices[0] == indices[1], f(0.5), weight) for weight in weights]
    yield from zip(indices, weights, strict=True)


def _kernel(xp: Any, sampling: Sampling, distance: Array) -> Array:
    """The interpolation kernel at these distances."""
    f = xp.float32
    if sampling.mode == "linear":
        return xp.maximum(f(1) - distance, f(0))
    a = f(sampling.cubic)
    near = ((a + f(2)) * distance - (a + f(3))) * distance * distance + f(1)
    far = ((a * distance - f(5) * a) * distance + f(8) * a) * distance - f(4) * a
    return xp.where(distance <= 1, near, xp.where(distance < 2, far, f(0)))
