"""Convolution by columns (im2col): copy what each output position sees into a matrix, then one GEMM a group and block.

The copy is a single assignment from a view with one axis for each of the kernel's and of the picture's, whatever the
number of taps. Three layouts, chosen so that as much as possible is contiguous on both sides:

- *runs*: without strides, the values that one tap meets at all output positions are one run of the flattened picture.
  A run carries the columns between the output rows through the GEMM; they are cropped afterwards.
- *rows*: exactly the output positions, one output row after the other.
- *windows*: one window after the other, for kernels that are longer than the output.

Comes after `windows` and `pictures`, before `convolution_methods`. Scratch is bounded: pictures are taken in blocks of
whole images, or of output rows where one image is too large.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod
from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelContext
from ort_py.lazy_dataclass import dataclass
from ort_py_array.pictures import PaddedRows
from ort_py_array.products import product
from ort_py_array.strided_views import strided_view
from ort_py_array.windows import Placement

__all__ = ["Columns"]


@dataclass(frozen=True, slots=True)
class _Block:
    """Size of the part that is processed at a time, such that its columns fit `limit` bytes."""

    images: int
    groups: int
    rows: int

    @staticmethod
    def of(images: int, groups: int, rows: int, row_bytes: int, limit: int) -> _Block:
        """Whole pictures of several groups and images, or else some rows of one; in even parts."""
        fitting = limit // max(1, row_bytes)
        if fitting >= rows:
            some = min(groups, fitting // rows)
            return _Block(_even(images, fitting // (rows * some)) if some == groups else 1, _even(groups, some), rows)
        return _Block(1, 1, _even(rows, fitting))


def _even(total: int, most: int) -> int:
    """The size of equal parts of `total` that are not larger than `most`."""
    count = -(-total // max(1, most))
    return -(-total // count)


@dataclass(frozen=True, slots=True)
class _Operands:
    """The arrays of one call; `bias` stands as ``(m, 1, …)``."""

    x: Array
    w: Array
    bias: Array | None
    out: Array


_PART = 1 << 21
"""Multiply-adds a part of the blocks has at least, the copying of its columns counted little."""


class Columns:
    """A convolution of known shapes; made once for them, holds no data, shared by threads.

    Args:
        ctx: Context of the node.
        images: Number of images.
        w_shape: Shape of the weights, ``(m, c / group, *kernel)``.
        itemsize: Bytes of an element.
        place: The window.
        group: Number of groups.
        limit: Bytes of scratch for one block of columns.
    """

    __slots__ = (
        *("_block", "_blocks", "_channels", "_crop", "_ctx", "_filters", "_grain", "_group", "_inner", "_layout"),
        *("_picture", "_strides", "_width", "_xp"),
    )

    def __init__(
        self,
        ctx: KernelContext,
        images: int,
        w_shape: tuple[int, ...],
        itemsize: int,
        place: Placement,
        group: int,
        limit: int,
    ) -> None:
        self._ctx, self._xp = ctx, ctx.xp
        self._group = group
        self._filters, self._channels = w_shape[0] // group, w_shape[1]
        self._picture = picture = PaddedRows(place)
        self._inner = prod(place.out[1:])
        self._layout = _layout(picture, self._filters, self._inner)
        self._width = picture.row if self._layout == "runs" else self._inner
        steps = picture.strides(itemsize)
        taps = tuple(step * d for step, d in zip(steps, place.dilations, strict=True))
        self._strides = taps, tuple(step * s for step, s in zip(steps, place.strides, strict=True))
        # Axes of an image of runs that are not part of the output: they are cut off after the GEMM.
        crop = self._layout == "runs" and picture.sizes[1:] != place.out[1:]
        self._crop = tuple(slice(0, size) for size in place.out[1:]) if crop else None
        row_bytes = self._channels * place.taps * self._width * itemsize
        self._block = block = _Block.of(images, group, place.out[0], row_bytes, limit)
        self._blocks = tuple(
            (slice(image, min(image + block.images, images)), slice(start, min(start + block.rows, place.out[0])))
            for image in range(0, images, block.images)
            for start in range(0, place.out[0], block.rows)
        )
        work = self._filters * self._channels * place.taps * prod(place.out) * images
        self._grain = max(1, -(-_PART * len(self._blocks) // max(1, work)))

    def __call__(self, x: Array, w: Array, bias: Array | None, out: Array) -> None:
        """Convolve.

        Args:
            x: Shape ``(n, c, *size)``, C-contiguous.
            w: Weights of the shape that was announced, of the type of `x`.
            bias: Shape ``(m,)`` or None.
            out: Shape ``(n, m, *out)``, C-contiguous, of the type of `x`; written to.
        """
        column = None if bias is None else bias.reshape((-1,) + (1,) * (out.ndim - 2))
        operands = _Operands(x, w, column, out)
        if self._group > 1:
            self._ctx.parallel_for(self._group, self._block.groups, partial(self._part, operands, self._blocks))
            return

        # One group: blocks of images and rows are the parts; a single block's product is split instead.
        def part(first: int, last: int) -> None:
            self._part(operands, self._blocks[first:last], 0, 1)

        self._ctx.parallel_for(len(self._blocks), self._grain, part)

    def _part(self, operands: _Operands, chosen: Sequence[tuple[slice, slice]], first: int, last: int) -> None:
        """Convolve some blocks of the groups from `first` to `last`, with scratch of its own."""
        xp, block, dtype = self._xp, self._block, operands.x.dtype
        units = block.images * block.groups
        source = self._picture.empty(xp, (block.images, block.groups * self._channels), block.rows, dtype)
        taps = self._picture.place.taps
        columns = xp.empty(units * self._channels * taps * block.rows * self._width, dtype)
        products = xp.empty(units * self._filters * block.rows * self._width, dtype) if self._crop else None
        for group in range(first, last, block.groups):
            groups = slice(group, min(group + block.groups, last))
            for images, rows in chosen:
                self._ctx.check_time()
                self._convolve(operands, groups, images, rows, source, columns, products)

    def _convolve(
        self,
        operands: _Operands,
        groups: slice,
        images: slice,
        rows: slice,
        source: Array | None,
        columns: Array,
        products: Array | None,
    ) -> None:
        """One block: pad, copy into columns, multiply, add the bias."""
        xp, out = self._xp, operands.out
        some, count = groups.stop - groups.start, rows.stop - rows.start
        inputs = slice(groups.start * self._channels, groups.stop * self._channels)
        outputs = slice(groups.start * self._filters, groups.stop * self._filters)
        picture = self._picture.fill(operands.x[images, inputs], rows.start, rows.stop, source)
        # A group of one is not an axis of its own: its product is then one of two matrices, which can be split.
        lead = () if self._group == 1 else (some,)
        block = self._gathered(picture, count, lead, columns)
        weights = operands.w[outputs].reshape(*lead, self._filters, -1)
        bias = None if operands.bias is None else operands.bias[outputs]
        target = out[images, outputs, rows]
        if products is None:
            split = (self._group, self._filters) if lead else (self._filters,)
            whole = out.reshape(out.shape[0], *split, -1)[
                images, ..., rows.start * self._inner : rows.stop * self._inner
            ]
            product(self._ctx, weights, block, whole[:, groups] if lead else whole)
            if bias is not None:
                xp.add(target, bias, out=target)
            return
        units = block.shape[0] * some * self._filters
        wide = products[: units * count * self._width].reshape(block.shape[0], *lead, self._filters, -1)
        product(self._ctx, weights, block, wide[..., : block.shape[-1]])
        assert self._crop is not None
        cropped = wide.reshape(block.shape[0], some * self._filters, count, *self._picture.sizes[1:])
        cropped = cropped[(slice(None), slice(None), slice(None), *self._crop)]
        if bias is None:
            target[...] = cropped
        else:
            xp.add(cropped, bias, out=target)

    def _gathered(self, picture: Array, rows: int, lead: tuple[int, ...], columns: Array) -> Array:
        """The columns of one block, ``(images, *lead, channels · taps, positions)``; copied into `columns`."""
        place, (taps, steps) = self._picture.place, self._strides
        image, channel = picture.strides[:2]
        images = picture.shape[0]
        positions = (rows, *place.out[1:])
        if self._layout == "windows":
            shape = (images, *lead, *positions, self._channels, *place.kernel)
            strides = (image, *(channel * self._channels for _ in lead), *steps, channel, *taps)
            block = _copied(self._xp, picture, shape, strides, columns)
            depth = self._channels * place.taps
            return self._xp.swapaxes(block.reshape(images, *lead, -1, depth), -1, -2)
        if self._layout == "runs":
            shape = (images, picture.shape[1], *place.kernel, _span(self._picture, rows))
            strides = (image, channel, *taps, picture.itemsize)
        else:
            shape = (images, picture.shape[1], *place.kernel, *positions)
            strides = (image, channel, *taps, *steps)
        block = _copied(self._xp, picture, shape, strides, columns)
        return block.reshape(images, *lead, self._channels * place.taps, -1)


def _copied(xp: Any, source: Array, shape: tuple[int, ...], strides: tuple[int, ...], scratch: Array) -> Array:
    """The strided view of `source` as a contiguous array at the beginning of `scratch`."""
    block = scratch[: prod(shape)].reshape(shape)
    block[...] = strided_view(xp, source, shape, strides)
    return block


def _span(picture: PaddedRows, rows: int) -> int:
    """Length of the run that covers `rows` output rows."""
    length, inner = (rows - 1) * picture.row, 1
    for size, out in zip(reversed(picture.sizes[1:]), reversed(picture.place.out[1:]), strict=True):
        length += (out - 1) * inner
        inner *= size
    return length + 1


_LONG = 32
"""A kernel of this many taps in a row is worth copying window by window where the picture is read in strides."""


def _layout(picture: PaddedRows, filters: int, inner: int) -> str:
    """Runs, rows or windows: see the module."""
    place = picture.place
    strided = place.strides[-1] > 1
    # Starting to copy each row by itself costs about 8 ns, a column between rows about 0.02 ns a multiply-add.
    starts = inner // place.out[-1] if len(place.out) > 1 else 1
    runs = max(place.strides) == 1 and filters * (picture.row - inner) < 400 * starts
    contiguous = _span(picture, place.out[0]) if runs else place.out[-1]
    long = place.kernel[-1] > contiguous or (strided and place.kernel[-1] >= _LONG)
    if long and place.dilations[-1] == 1:
        return "windows"
    return "runs" if runs else "rows"
