"""Two ways to convolve, chosen by the shape of the weights: plain GEMM, or im2col and GEMM.

Comes after `windows` and `pictures`; `convolution` and `quantized_convolution` call `convolve`. Knows nothing of nodes,
attributes and rounding: floating-point arrays of one type in, one array out.

Scratch is bounded: pictures are taken in blocks of whole images, or of output rows where one image is too large.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelContext
from ort_py_array.pictures import PhasedPicture
from ort_py_array.windows import Placement

__all__ = ["convolve"]

_COLUMN_BYTES = 4 << 20
"""Scratch for one block of im2col: large enough for GEMM to run at full speed, small enough for the L3 cache."""


def convolve(
    ctx: KernelContext, x: Array, w: Array, bias: Array | None, place: Placement, group: int, out: Array
) -> Array:
    """Convolve and write to `out`.

    Args:
        ctx: Context of the node.
        x: Shape ``(n, c, *size)``, C-contiguous.
        w: Shape ``(m, c / group, *kernel)``, of the type of `x`.
        bias: Shape ``(m,)`` or None.
        place: The window over `x`.
        group: Number of groups; divides c and m.
        out: Shape ``(n, m, *place.out)``, C-contiguous, of the type of `x`.
    """
    if not out.size:
        return out
    if not w.size:
        out[...] = 0 if bias is None else _column(bias, out.ndim)
        return out
    untouched = not any(place.begin) and not any(place.end)
    if place.taps == 1 and untouched:
        _pointwise(ctx.xp, x, w, place, group, out)
        if bias is not None:
            ctx.xp.add(out, _column(bias, out.ndim), out=out)
    else:
        _by_columns(ctx, x, w, bias, place, group, out)
    return out


def _column(bias: Array, rank: int) -> Array:
    """The bias, to be added to ``(n, m, …)``."""
    return bias.reshape((-1,) + (1,) * (rank - 2))


def _pointwise(xp: Any, x: Array, w: Array, place: Placement, group: int, out: Array) -> None:
    """A 1×1 kernel: each image is the second operand of a GEMM as it stands."""
    if any(stride > 1 for stride in place.strides):
        x = xp.ascontiguousarray(x[(slice(None), slice(None), *(slice(None, None, s) for s in place.strides))])
    n, c = x.shape[:2]
    m = w.shape[0]
    if group == 1:
        xp.matmul(w.reshape(m, c), x.reshape(n, c, -1), out=out.reshape(n, m, -1))
    else:
        xp.matmul(
            w.reshape(group, m // group, c // group),
            x.reshape(n, group, c // group, -1),
            out=out.reshape(n, group, m // group, -1),
        )


@dataclass(frozen=True, slots=True)
class _Block:
    """How much is done at a time: so much that its columns fit `limit` bytes."""

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


def _by_columns(
    ctx: KernelContext, x: Array, w: Array, bias: Array | None, place: Placement, group: int, out: Array
) -> None:
    """Copy what each output position sees into columns (im2col), then one GEMM a group and block.

    Depthwise weights are the case of one filter a group: their products are the GEMM of a single row.
    """
    picture = PhasedPicture(place)
    filters, channels = w.shape[0] // group, w.shape[1]
    inner_out = prod(place.out[1:])
    # Runs are copied much faster than rows, but carry columns between the rows through the GEMM: take them unless
    # that costs more (about 0.02 ns a multiply-add) than starting to copy each row by itself (about 8 ns).
    starts = inner_out // place.out[-1] if len(place.out) > 1 else 1
    runs = filters * (picture.row - inner_out) < 400 * starts
    width = picture.row if runs else inner_out
    row_bytes = channels * place.taps * width * x.itemsize
    block = _Block.of(x.shape[0], group, place.out[0], row_bytes, _COLUMN_BYTES)
    work = _Columns(ctx.xp, x, w, bias, out, picture, group, runs, width, block)
    if group == 1:
        work.part(0, 1)  # BLAS splits the one large GEMM itself
    else:
        ctx.parallel_for(group, block.groups, work.part)


@dataclass(frozen=True, slots=True)
class _Columns:
    """One convolution by columns; `part` does some of its groups with scratch of its own."""

    xp: Any
    x: Array
    w: Array
    bias: Array | None
    out: Array
    picture: PhasedPicture
    group: int
    runs: bool
    width: int
    block: _Block

    def part(self, first: int, last: int) -> None:
        """Convolve the groups from `first` to `last`."""
        xp, x, out, block = self.xp, self.x, self.out, self.block
        n, rows = x.shape[0], self.picture.place.out[0]
        channels, filters = self.w.shape[1], self.w.shape[0] // self.group
        units = block.images * block.groups
        source = None
        if not self.picture.plain:
            source = self.picture.empty(xp, (block.images, block.groups * channels), block.rows, x.dtype)
        columns = xp.empty(units * channels * self.picture.place.taps * block.rows * self.width, x.dtype)
        cropping = self.width * rows != out[0, 0].size
        products = xp.empty(units * filters * block.rows * self.width, x.dtype) if cropping else None
        for group in range(first, last, block.groups):
            groups = slice(group, min(group + block.groups, last))
            for image in range(0, n, block.images):
                images = slice(image, min(image + block.images, n))
                for start in range(0, rows, block.rows):
                    self._block(groups, images, start, min(start + block.rows, rows), source, columns, products)

    def _block(
        self,
        groups: slice,
        images: slice,
        start: int,
        stop: int,
        source: Array | None,
        columns: Array,
        products: Array | None,
    ) -> None:
        xp, picture = self.xp, self.picture
        channels, filters, taps = self.w.shape[1], self.w.shape[0] // self.group, picture.place.taps
        count, some, rows = images.stop - images.start, groups.stop - groups.start, stop - start
        inputs = slice(groups.start * channels, groups.stop * channels)
        outputs = slice(groups.start * filters, groups.stop * filters)
        phases = picture.fill(self.x[images, inputs], start, stop, source)
        length = picture.span(rows) if self.runs else rows * self.width
        block = columns[: count * some * channels * taps * length].reshape(count, some * channels, taps, length)
        _gather(picture, phases, block, rows, self.runs)
        # A group of one must not be an axis of its own: the GEMM of a whole image is then split over BLAS's threads.
        lead = () if self.group == 1 else (some,)
        weights = self.w[outputs].reshape(*lead, filters, channels * taps)
        block = block.reshape(count, *lead, channels * taps, length)
        bias = None if self.bias is None else _column(self.bias[outputs], self.out.ndim)
        target = self.out[images, outputs, start:stop]
        if products is None:
            split = (self.group, filters) if lead else (filters,)
            whole = self.out.reshape(self.out.shape[0], *split, -1)[images, ..., start * self.width : stop * self.width]
            xp.matmul(weights, block, out=whole[:, groups] if lead else whole)
            if bias is not None:
                xp.add(target, bias, out=target)
            return
        wide = products[: count * some * filters * rows * self.width]
        xp.matmul(weights, block, out=wide.reshape(count, *lead, filters, -1)[..., :length])
        cropped = _cropped(wide.reshape(count, some * filters, -1), picture, rows)
        if bias is None:
            target[...] = cropped
        else:
            xp.add(cropped, bias, out=target)


def _gather(picture: PhasedPicture, phases: Array, block: Array, rows: int, runs: bool) -> None:
    """Copy the values of every tap into ``block[:, :, tap]``: as runs, or exactly the output positions."""
    inner = picture.place.out[1:]
    for tap, (phase, offsets) in enumerate(picture.taps):
        if runs:
            flat = phases[:, :, phase].reshape(*phases.shape[:2], -1)
            start = picture.offset(offsets)
            block[:, :, tap] = flat[:, :, start : start + block.shape[-1]]
        else:
            view = phases[(slice(None), slice(None), phase, *_shifted(offsets, (rows, *inner)))]
            block[:, :, tap].reshape(view.shape)[...] = view


def _shifted(offsets: tuple[int, ...], sizes: tuple[int, ...]) -> tuple[slice, ...]:
    return tuple(slice(offset, offset + size) for offset, size in zip(offsets, sizes, strict=True))


def _cropped(wide: Array, picture: PhasedPicture, rows: int) -> Array:
    """Runs, seen as output rows without the columns between them."""
    pictures = wide.reshape(*wide.shape[:2], rows, *picture.sizes[1:])
    return pictures[(slice(None), slice(None), slice(None), *(slice(0, o) for o in picture.place.out[1:]))]
