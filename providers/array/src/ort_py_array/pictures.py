"""Pictures padded as far as their windows read, whole or some output rows at a time.

Comes after `windows`, before `convolution_columns` and `pooling`. It is independent of weights.
"""

from __future__ import annotations

from math import prod
from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelContext
from ort_py_array.windows import Placement

__all__ = ["PaddedRows", "check_padded", "padded"]


class PaddedRows:
    """The layout of padded pictures for one placement, cut along the first spatial axis; holds no data.

    Attributes:
        place: The window over the picture.
        plain: No window reads padding: the pictures are used as they are.
        sizes: Size of what the windows read along each axis.
        row: Elements that belong to one step along the first spatial axis.
    """

    __slots__ = ("_extent", "_inner_from", "_inner_to", "place", "plain", "row", "sizes")

    def __init__(self, place: Placement) -> None:
        self.place = place
        reach = place.reach
        self.plain = not any(place.begin) and all(r <= size for r, size in zip(reach, place.size, strict=True))
        self.sizes = place.size if self.plain else reach
        self.row = prod(self.sizes[1:])
        self._extent = (place.kernel[0] - 1) * place.dilations[0] + 1
        kept = [max(0, min(size, r - b)) for size, r, b in zip(place.size, reach, place.begin, strict=True)]
        self._inner_from = tuple(slice(0, k) for k in kept[1:])
        self._inner_to = tuple(slice(b, b + k) for k, b in zip(kept[1:], place.begin[1:], strict=True))

    def read(self, rows: int) -> int:
        """Number of picture rows that the windows of `rows` output rows span."""
        return (rows - 1) * self.place.strides[0] + self._extent

    def strides(self, itemsize: int) -> tuple[int, ...]:
        """Bytes between neighbours along each spatial axis."""
        return tuple(itemsize * prod(self.sizes[axis + 1 :]) for axis in range(len(self.sizes)))

    def empty(self, xp: Any, lead: tuple[int, ...], rows: int, dtype: Any) -> Array | None:
        """Scratch for `fill`, whose side padding stays zero; None where the pictures are plain."""
        return None if self.plain else xp.zeros((*lead, self.read(rows), *self.sizes[1:]), dtype)

    def fill(self, x: Array, start: int, stop: int, into: Array | None) -> Array:
        """The part of the picture under the output rows from `start` to `stop`.

        Args:
            x: Shape ``(n, c, *size)``.
            start: First output row (first spatial axis).
            stop: Output row after the last.
            into: What `empty` made for at least ``stop - start`` rows.

        Returns:
            Shape ``(n, c, read(stop - start), …)``: a view of `into`, or of `x` where that is plain.
        """
        stride, rows = self.place.strides[0], self.read(stop - start)
        first = start * stride - self.place.begin[0]
        if into is None:
            return x[:, :, first : first + rows]
        low = min(max(-first, 0), rows)
        high = max(min(self.place.size[0] - first, rows), low)
        into = into[: x.shape[0], : x.shape[1], :rows]
        if low:
            into[:, :, :low] = 0
        if high < rows:
            into[:, :, high:] = 0
        into[(slice(None), slice(None), slice(low, high), *self._inner_to)] = x[
            (slice(None), slice(None), slice(first + low, first + high), *self._inner_from)
        ]
        return into


def check_padded(ctx: KernelContext, x: Array, place: Placement) -> None:
    """Ask before a picture is padded: pads are numbers of the model, and a stride can hide them from the output's size.

    Raises:
        LimitError: The padded picture would pass the limits.
    """
    if any(place.begin) or place.reach != place.size:
        ctx.check_allocation((*x.shape[:2], *place.reach), x.dtype)


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
