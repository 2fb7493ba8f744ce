"""Pictures padded and sorted so that every kernel tap is one contiguous run: what makes NumPy convolve fast.

A picture is padded and split into its *phases*: phase (p, q) of a stride-(s, t) window holds the padded rows p, p + s,
… and columns q, q + t, …. Inside a phase the window moves by one, so the values that one tap meets at *all* output
positions are a single run of the flattened phase, shifted by the tap's offset. A run covers the output rows with the
few extra columns between them (`PhasedPicture.row` of them for each output row); whoever uses runs crops at the end.

Comes after `windows`, before `convolution_methods`. Knows nothing of weights.
"""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py_array.windows import Placement

__all__ = ["PhasedPicture", "padded"]


class PhasedPicture:
    """The layout of padded, phase-split pictures for one placement; holds no data.

    Attributes:
        sizes: Size of one phase along each axis.
        row: Elements of a run that belong to one step along the first spatial axis.
        halo: Phase rows that an output row needs below its own.
        taps: (phase, offset along each axis) of every tap, in the order of the flattened kernel.
        plain: The pictures need neither padding nor splitting: they are their own phase.
    """

    __slots__ = ("_axes", "halo", "phases", "place", "plain", "row", "sizes", "taps")

    def __init__(self, place: Placement) -> None:
        self.place = place
        window = list(zip(place.kernel, place.strides, place.dilations, strict=True))
        self.sizes = tuple(o + (k - 1) * d // s for o, (k, s, d) in zip(place.out, window, strict=True))
        self._axes = [sorted({i * d % s for i in range(k)}) for k, s, d in window]
        self.phases = prod(len(axis) for axis in self._axes)
        self.row = prod(self.sizes[1:])
        self.halo = self.sizes[0] - place.out[0]
        self.plain = self.phases == 1 and all(s == 1 for s in place.strides) and self.sizes == place.size
        index = {phase: i for i, phase in enumerate(product(*self._axes))}
        self.taps = [
            (
                index[tuple(i * d % s for i, (_, s, d) in zip(tap, window, strict=True))],
                tuple(i * d // s for i, (_, s, d) in zip(tap, window, strict=True)),
            )
            for tap in product(*(range(k) for k in place.kernel))
        ]

    def span(self, rows: int) -> int:
        """Length of the run that covers `rows` output rows."""
        inner = 1
        length = (rows - 1) * self.row
        for size, out in zip(reversed(self.sizes[1:]), reversed(self.place.out[1:]), strict=True):
            length += (out - 1) * inner
            inner *= size
        return length + 1

    def offset(self, offsets: tuple[int, ...]) -> int:
        """Where a tap's run starts in the flattened phase."""
        flat = 0
        for size, offset in zip(self.sizes, offsets, strict=True):
            flat = flat * size + offset
        return flat

    def empty(self, xp: Any, lead: tuple[int, ...], rows: int, dtype: Any) -> Array:
        """Zeros of shape ``(*lead, phases, rows + halo, …)``; `fill` leaves the side padding zero."""
        return xp.zeros((*lead, self.phases, rows + self.halo, *self.sizes[1:]), dtype)

    def fill(self, x: Array, start: int, stop: int, into: Array | None) -> Array:
        """Pictures as phases, for the output rows from `start` to `stop`.

        Args:
            x: Shape ``(n, c, *size)``.
            start: First output row (first spatial axis).
            stop: Output row after the last.
            into: What `empty` made for at least ``stop - start`` rows; not used where the layout is `plain`.

        Returns:
            Shape ``(n, c, phases, stop - start + halo, …)``: a view of `into`, or of `x` where that is `plain`.
        """
        if self.plain:
            return x[:, :, None, start : stop + self.halo]
        assert into is not None
        rows = stop - start + self.halo
        into = into[: x.shape[0], : x.shape[1], :, :rows]
        for number, phases in enumerate(product(*self._axes)):
            spans = [self._inside(axis, phase) for axis, phase in enumerate(phases)]
            first, last, source = spans[0]
            stride = self.place.strides[0]
            low = min(max(first - start, 0), rows)
            high = max(min(last - start, rows), low)
            source += (max(first, start) - first) * stride
            part = into[:, :, number]
            if low:
                part[:, :, :low] = 0
            if high < rows:
                part[:, :, high:] = 0
            inner = [(slice(a, b), slice(s, s + (b - a - 1) * t + 1, t)) for (a, b, s), t in self._inner(spans)]
            if high > low and all(target.stop > target.start for target, _ in inner):
                rows_read = slice(source, source + (high - low - 1) * stride + 1, stride)
                part[(slice(None), slice(None), slice(low, high), *(target for target, _ in inner))] = x[
                    (slice(None), slice(None), rows_read, *(read for _, read in inner))
                ]
        return into

    def _inner(self, spans: list[tuple[int, int, int]]) -> list[tuple[tuple[int, int, int], int]]:
        return list(zip(spans[1:], self.place.strides[1:], strict=True))

    def _inside(self, axis: int, phase: int) -> tuple[int, int, int]:
        """(first, last + 1, source of first): the positions of a phase that hold picture, not padding."""
        stride, begin = self.place.strides[axis], self.place.begin[axis]
        first = max(0, -(-(begin - phase) // stride))
        last = min(self.sizes[axis], (self.place.size[axis] - 1 + begin - phase) // stride + 1)
        return first, max(last, first), first * stride + phase - begin


def padded(xp: Any, x: Array, place: Placement, fill: Any, batch_axes: int = 2) -> Array:
    """`x` with its spatial axes padded (or cut) to what the window reads; `x` itself where that is all of it.

    Args:
        xp: Array module.
        x: Shape ``(*lead, *size)`` with `batch_axes` leading axes.
        place: Window over `x`.
        fill: Value of the padding.
        batch_axes: Number of leading axes.
    """
    reach = place.reach
    if reach == place.size and not any(place.begin):
        return x
    y = xp.full((*x.shape[:batch_axes], *reach), fill, x.dtype)
    lead = (slice(None),) * batch_axes
    kept = [min(size, r - b) for size, r, b in zip(place.size, reach, place.begin, strict=True)]
    if all(k > 0 for k in kept):
        y[(*lead, *(slice(b, b + k) for b, k in zip(place.begin, kept, strict=True)))] = x[
            (*lead, *(slice(0, k) for k in kept))
        ]
    return y
