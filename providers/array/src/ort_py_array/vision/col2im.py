"""Col2Im: blocks of columns added up to the picture they were cut from, in any number of dimensions.

An element of block b at kernel tap t belongs at ``b · stride + t · dilation - pad`` along each axis. Blocks and taps
play the same part there, so along each axis the fewer of them are looped over and the others are a strided slice.
Blocks that do not overlap are laid out in one copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelCallable, KernelContext, KernelDef
from ort_py.devices import HOST
from ort_py.errors import InvalidArgument, Location
from ort_py.lazy_dataclass import dataclass
from ort_py_array.checks import host_ints, shape_error
from ort_py_array.parts import assign, by_parts, rounded_by_parts, widened_by_parts
from ort_py_array.precision import is_narrow
from ort_py_array.strided_views import strided_view

__all__ = ["KERNELS", "col2im"]

_ELEMENTS = 1 << 16
"""Elements of the pictures that are added up at a time: each is written once for every tap that covers it."""

_FEWER = 4
"""How much more it costs to read the columns across their blocks."""

_REMEMBERED, _SHORT = 16, 1024
"""Layouts that a node keeps, and the steps of those that it keeps."""


@dataclass(frozen=True, slots=True)
class _Layout:
    """The layout by which columns of one size of picture are added up.

    Attributes:
        block: Taps along each axis.
        blocks: Blocks along each axis.
        order: Transposition of columns ``[rows][*block][*blocks]`` to what is looped over, then what is sliced.
        steps: For each step what to read of the transposed columns and where in the pictures to add it.
        apart: Whether no two blocks overlap and none reaches into padding.
    """

    block: tuple[int, ...]
    blocks: tuple[int, ...]
    order: tuple[int, ...]
    steps: tuple[tuple[Any, Any], ...]
    apart: bool


def col2im(ctx: KernelContext) -> KernelCallable:
    """Col2Im-18 of ``[n][c · taps][blocks]`` to ``[n][c][…image_shape]``; shapes are host inputs, every element type.

    What several blocks cover is their sum: integers wrap, bools are combined by "or", strings are joined in the order
    of the taps. Narrow floats are added up in float32.

    Raises:
        InvalidArgument: The input has another rank, a size or attribute is out of range or of the wrong length, or the
            columns are not those that the picture has.
        LimitError: The picture would be too large.
    """
    xp = ctx.xp
    known: dict[tuple[Any, ...], _Layout] = {}

    def run(x: Array, image_shape: Array, block_shape: Array) -> Array:
        image, block = host_ints(image_shape) or (), host_ints(block_shape) or ()
        text = x.dtype.kind == "O"
        layout = known.get(key := (image, block, text))
        if layout is None:
            layout = _layout(ctx, image, block, over_taps=text)
            if len(known) < _REMEMBERED and len(layout.steps) <= _SHORT:
                known[key] = layout
        batch, channels = _checked_columns(ctx, x, image, layout)
        kind = xp.dtype(xp.float32) if is_narrow(x.dtype) else x.dtype
        ctx.check_allocation((batch, channels, *image), kind)
        y = xp.empty((batch * channels, *image), kind)
        assign(ctx, y, xp.asarray("" if text else 0, kind))
        columns = x.reshape((batch * channels, *layout.block, *layout.blocks))
        if y.size and layout.apart:
            _lay_out(ctx, y, columns, layout)
        elif y.size:
            _add_up(ctx, y, columns, layout)
        return rounded_by_parts(ctx, y.reshape((batch, channels, *image)), x.dtype)

    return run


def _checked_columns(ctx: KernelContext, x: Array, image: Sequence[int], layout: _Layout) -> tuple[int, int]:
    """(batch, channels) of columns that fit the layout."""
    taps, blocks = prod(layout.block), prod(layout.blocks)
    if x.ndim != 3 or x.shape[1] % taps or x.shape[2] != blocks:
        raise shape_error(
            f"Col2Im needs [n][c · {taps}][{blocks}] columns for a picture of {list(image)} in blocks of "
            f"{list(layout.block)}.",
            ctx.node.location,
            [x.shape],
        )
    return x.shape[0], x.shape[1] // taps


def _add_up(ctx: KernelContext, y: Array, columns: Array, layout: _Layout) -> None:
    """Add the columns to the pictures `y`, some pictures at a time."""
    rows = y.shape[0]
    columns = columns.transpose(layout.order)
    some = max(1, _ELEMENTS // prod(y.shape[1:])) if ctx.device == HOST else rows

    def add(target: Array, summand: Array) -> None:
        ctx.xp.add(target, summand, target)

    def part(start: int, stop: int) -> None:
        for first in range(start, stop, some):
            chosen = slice(first, min(first + some, stop))
            source, target = widened_by_parts(ctx, columns[chosen]), y[chosen]
            for read, write in layout.steps:
                by_parts(ctx, add, target[write], source[read])

    ctx.parallel_for(rows, some, part)


def _lay_out(ctx: KernelContext, y: Array, columns: Array, layout: _Layout) -> None:
    """Write blocks that do not overlap into the pictures `y`, in one copy."""
    strides, dilations = _attributes(ctx, len(layout.block))[:2]
    rank = len(strides)
    shape, steps, order = [y.shape[0]], [y.strides[0]], [0]
    for axis in range(rank):
        shape += [layout.blocks[axis], layout.block[axis]]
        steps += [y.strides[1 + axis] * strides[axis], y.strides[1 + axis] * dilations[axis]]
        order += [1 + rank + axis, 1 + axis]
    target = strided_view(ctx.xp, y, tuple(shape), tuple(steps))
    assign(ctx, target, columns.transpose(tuple(order)))


def _attributes(ctx: KernelContext, rank: int) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """(strides, dilations, pads), completed with their defaults."""
    attributes = ctx.node.attributes
    ones = (1,) * rank
    strides, dilations = attributes.get("strides") or ones, attributes.get("dilations") or ones
    return tuple(strides), tuple(dilations), tuple(attributes.get("pads") or (0,) * (2 * rank))


def _layout(ctx: KernelContext, image: tuple[int, ...], block: tuple[int, ...], over_taps: bool) -> _Layout:
    rank, where = len(image), ctx.node.location
    strides, dilations, pads = _attributes(ctx, rank)
    _check(where, image, block, strides, dilations, pads)
    blocks = tuple(
        (image[i] + pads[i] + pads[i + rank] - dilations[i] * (block[i] - 1) - 1) // strides[i] + 1 for i in range(rank)
    )
    if min(blocks) < 1:
        raise InvalidArgument(
            f"Blocks of {list(block)} do not fit into a picture of {list(image)}.",
            where=where,
            why=f"with the dilations {list(dilations)} they reach beyond the picture and its pads {list(pads)}",
            fix="Take smaller blocks, or pad more.",
        )
    # Over blocks instead of taps where they are far fewer; not where they are a little, as they lie side by side.
    swapped = [not over_taps and _FEWER * blocks[i] < block[i] for i in range(rank)]
    looped = [1 + i + rank * swapped[i] for i in range(rank)]
    sliced = [1 + i + rank * (not swapped[i]) for i in range(rank)]
    places = [
        _places(image[i], pads[i], (block[i], dilations[i]), (blocks[i], strides[i]), swapped[i]) for i in range(rank)
    ]
    everything = slice(None)
    return _Layout(
        block,
        blocks,
        (0, *looped, *sliced),
        tuple(
            (
                (everything, *(place[0] for place in taken), *(place[1] for place in taken)),
                (everything, *(place[2] for place in taken)),
            )
            for taken in product(*places)
        ),
        not any(pads) and all(strides[i] > (block[i] - 1) * dilations[i] for i in range(rank)),
    )


def _places(
    size: int, pad: int, taps: tuple[int, int], blocks: tuple[int, int], over_blocks: bool
) -> list[tuple[int, slice, slice]]:
    """For each step of the loop along one axis: its index, and what of the columns goes where in the picture.

    Args:
        size: Size of the picture.
        pad: Padding before it.
        taps: (number, dilation).
        blocks: (number, stride).
        over_blocks: Whether the loop is over blocks, and taps are sliced.
    """
    (count, step), (others, apart) = (blocks, taps) if over_blocks else (taps, blocks)
    found = []
    for index in range(count):
        origin = index * step - pad
        low = max(0, -(origin // apart))  # the first that lies at 0 or after
        high = min(others, (size - 1 - origin) // apart + 1)
        if low < high:
            begin = origin + low * apart
            found.append((index, slice(low, high), slice(begin, begin + (high - low - 1) * apart + 1, apart)))
    return found


def _check(where: Location, image: tuple[int, ...], block: tuple[int, ...], *attributes: tuple[int, ...]) -> None:
    rank = len(image)
    strides, dilations, pads = attributes
    for name, values, length, least in (
        ("image_shape", image, max(rank, 1), 0),
        ("block_shape", block, rank, 1),
        ("strides", strides, rank, 1),
        ("dilations", dilations, rank, 1),
        ("pads", pads, 2 * rank, 0),
    ):
        if len(values) != length or min(values) < least:
            raise InvalidArgument(
                f"{name} is {list(values)} for a picture of {rank} spatial axes.",
                where=where,
                fix=f"Give it {length} entries of at least {least}.",
            )


KERNELS: list[KernelDef] = [
    KernelDef("Col2Im", col2im, since=18, host_inputs=frozenset({1, 2}), implementation=f"{__name__}:col2im"),
]
