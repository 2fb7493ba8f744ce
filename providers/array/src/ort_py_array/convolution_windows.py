"""Convolution of few windows: one product whose rows are the windows, with nothing else to start.

Speech models convolve a handful of positions at a time, where a call of the array module costs as much as its
arithmetic. So everything that shapes decide is decided once, and a call is: copy the windows, multiply, put the
channels first. BLAS also prefers few rows to few columns. Windows of a few places are copied place by place, for all
positions at once, which needs no padded picture; larger ones, each as a run. Comes after `windows` and `pictures`,
beside `convolution_columns`, before `convolution_methods`, which says when.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelContext
from ort_py_array.pictures import PaddedRows
from ort_py_array.products import SPLIT_FROM, product
from ort_py_array.strided_views import strided_view
from ort_py_array.windows import Placement

__all__ = ["FewWindows"]

_ROWS = 64
"""Windows up to which starting costs more than the better layout of `convolution_columns` gains."""

_ACROSS = 4
"""How many times that many may be across the columns of pictures: `convolution_columns` multiplies padding there, or
copies short rows."""

_ELEMENTS = 1 << 16
"""Elements of all windows up to which they are few."""

_PLACES = 9
"""Places of a window up to which they are copied one by one."""


class FewWindows:
    """A convolution of one group and known shapes; made once for them, holds no data, shared by threads.

    Args:
        ctx: Context of the node.
        images: Number of images.
        w_shape: Shape of the weights, ``(m, c, *kernel)``.
        itemsize: Bytes of an element.
        place: The window.
    """

    __slots__ = ("_copy", "_depth", "_first", "_product", "_rows", "_swapped", "_xp")

    def __init__(
        self, ctx: KernelContext, images: int, w_shape: tuple[int, ...], itemsize: int, place: Placement
    ) -> None:
        self._xp = ctx.xp
        positions, filters = prod(place.out), w_shape[0]
        copy = _ByPlace if prod(place.kernel) <= _PLACES else _ByWindow
        self._copy: Callable[[Array], Array] = copy(ctx.xp, images, w_shape[1], itemsize, place)
        self._depth = prod(w_shape[1:])
        self._rows = (images * positions, self._depth)
        small = positions * images * self._depth * filters < SPLIT_FROM
        self._product: Callable[[Array, Array], Array] = ctx.xp.dot if small else partial(product, ctx)
        # (images · positions, m) as (images, m, positions)
        self._first = (images, positions, filters)
        self._swapped = (images, filters, positions)

    @staticmethod
    def suits(images: int, w_shape: tuple[int, ...], place: Placement, group: int) -> bool:
        """Return whether the windows are few enough."""
        rows, places = images * prod(place.out), prod(place.kernel)
        across = 1 < places <= _PLACES and len(place.out) > 1 and place.kernel[-1] > 1
        most = _ROWS * _ACROSS if across else _ROWS if places <= _PLACES else _ROWS // 2
        return group == 1 and rows <= most and rows * prod(w_shape[1:]) <= _ELEMENTS

    def __call__(self, x: Array, w: Array, bias: Array | None, out: Array) -> None:
        """Convolve; arguments as in `Columns`."""
        xp = self._xp
        rows = self._copy(x).reshape(self._rows)
        result = self._product(rows, w.reshape(w.shape[0], self._depth).T)
        result = result.reshape(self._first).swapaxes(1, 2)
        target = out.reshape(self._swapped)
        if bias is None:
            target[...] = result
        else:
            xp.add(result, bias.reshape(-1, 1), out=target)


class _ByWindow:
    """Windows as a view ``(images, *out, channels, *kernel)`` of the padded pictures; copied by who reshapes it.

    Args:
        xp: Array module.
        images, channels: Of the input.
        itemsize: Bytes of an element.
        place: The window.
    """

    __slots__ = ("_inner", "_kept", "_padded", "_shape", "_strides", "_xp")

    def __init__(self, xp: Any, images: int, channels: int, itemsize: int, place: Placement) -> None:
        self._xp = xp
        picture = PaddedRows(place)
        self._padded = None if picture.plain else (images, channels, *picture.sizes)
        lead = (slice(None), slice(None))
        kept = [max(0, min(size, r - b)) for size, r, b in zip(place.size, picture.sizes, place.begin, strict=True)]
        self._kept = (*lead, *(slice(0, k) for k in kept))
        self._inner = (*lead, *(slice(b, b + k) for b, k in zip(place.begin, kept, strict=True)))
        steps = picture.strides(itemsize)
        channel = itemsize * prod(picture.sizes)
        self._shape = (images, *place.out, channels, *place.kernel)
        self._strides = (
            channel * channels,
            *(step * s for step, s in zip(steps, place.strides, strict=True)),
            channel,
            *(step * d for step, d in zip(steps, place.dilations, strict=True)),
        )

    def __call__(self, x: Array) -> Array:
        if self._padded is not None:
            picture = self._xp.zeros(self._padded, x.dtype)
            picture[self._inner] = x[self._kept]
            x = picture
        return strided_view(self._xp, x, self._shape, self._strides)


class _ByPlace:
    """Windows ``(images, *out, channels, *kernel)``, copied for one place of the kernel after the other.

    Arguments as in `_ByWindow`.
    """

    __slots__ = ("_axes", "_copies", "_make", "_shape")

    def __init__(self, xp: Any, images: int, channels: int, itemsize: int, place: Placement) -> None:
        rank = len(place.out)
        self._axes = (0, *range(2, rank + 2), 1)  # channels last
        self._shape = (images, *place.out, channels, *place.kernel)
        self._copies: list[tuple[Any, Any]] = []
        everything = slice(None)
        whole = True
        for taps in itertools.product(*(range(extent) for extent in place.kernel)):
            places = [_seen(place, axis, tap) for axis, tap in enumerate(taps)]
            whole = whole and all(to == slice(0, out) for (to, _), out in zip(places, place.out, strict=True))
            if all(to.start < to.stop for to, _ in places):
                to = (everything, *(to for to, _ in places), everything, *taps)
                self._copies.append((to, (everything, *(source for _, source in places))))
        self._make = xp.empty if whole else xp.zeros

    def __call__(self, x: Array) -> Array:
        x = x.transpose(self._axes)
        windows: Array = self._make(self._shape, x.dtype)
        for to, source in self._copies:
            windows[to] = x[source]
        return windows


def _seen(place: Placement, axis: int, tap: int) -> tuple[slice, slice]:
    """Along one axis: the positions whose place `tap` is inside the picture, and where it is there."""
    step, size = place.strides[axis], place.size[axis]
    offset = tap * place.dilations[axis] - place.begin[axis]
    first = max(0, -(offset // step))
    stop = min(place.out[axis], (size - 1 - offset) // step + 1)
    return slice(first, stop), slice(first * step + offset, (stop - 1) * step + offset + 1, step)
