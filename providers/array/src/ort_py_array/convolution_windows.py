"""Convolution of few windows: one product whose rows are the windows, with nothing else to start.

Speech models convolve a handful of positions at a time, where a call of the array module costs as much as its
arithmetic. So everything that shapes decide is decided once, and a call is: pad, copy the windows, multiply, put the
channels first. BLAS also prefers few rows to few columns. Comes after `windows` and `pictures`, beside
`convolution_columns`, before `convolution_methods`, which says when.
"""

from __future__ import annotations

from math import prod
from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py_array.pictures import PaddedRows
from ort_py_array.strided_views import strided_view
from ort_py_array.windows import Placement

__all__ = ["FewWindows"]

_ROWS = 16
"""Windows up to which starting costs more than the better layout of `convolution_columns` gains."""

_ELEMENTS = 1 << 15
"""Elements of all windows up to which they are few."""


class FewWindows:
    """A convolution of one group and known shapes; made once for them, holds no data, shared by threads.

    Args:
        xp: Array module.
        images: Number of images.
        w_shape: Shape of the weights, ``(m, c, *kernel)``.
        itemsize: Bytes of an element.
        place: The window.
    """

    __slots__ = ("_first", "_inner", "_kept", "_padded", "_rows", "_shape", "_strides", "_swapped", "_xp")

    def __init__(self, xp: Any, images: int, w_shape: tuple[int, ...], itemsize: int, place: Placement) -> None:
        self._xp = xp
        picture = PaddedRows(place)
        channels, depth = w_shape[1], prod(w_shape[1:])
        self._rows = (images * prod(place.out), depth)
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
        # (images · positions, m) as (images, m, positions)
        self._first = (images, prod(place.out), w_shape[0])
        self._swapped = (images, w_shape[0], prod(place.out))

    @staticmethod
    def suits(images: int, w_shape: tuple[int, ...], place: Placement, group: int) -> bool:
        """Whether the windows are few enough."""
        rows = images * prod(place.out)
        return group == 1 and rows <= _ROWS and rows * prod(w_shape[1:]) <= _ELEMENTS

    def __call__(self, x: Array, w: Array, bias: Array | None, out: Array) -> None:
        """Convolve; arguments as in `Columns`."""
        xp = self._xp
        if self._padded is not None:
            picture = xp.zeros(self._padded, x.dtype)
            picture[self._inner] = x[self._kept]
            x = picture
        rows = strided_view(xp, x, self._shape, self._strides).reshape(self._rows)
        product = xp.matmul(rows, w.reshape(w.shape[0], -1).T)
        product = product.reshape(self._first).swapaxes(1, 2)
        target = out.reshape(self._swapped)
        if bias is None:
            target[...] = product
        else:
            xp.add(product, bias.reshape(-1, 1), out=target)
