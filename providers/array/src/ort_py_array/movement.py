"""Transpose, Concat, Split, Expand, Tile, DepthToSpace, SpaceToDepth: elements moved or repeated, none computed.

Work on every element type, strings included. Slice is in `slicing`, Pad in `padding`.
"""

from __future__ import annotations

from math import prod
from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelCallable, KernelContext, KernelDef, kernel
from ort_py.errors import InvalidArgument
from ort_py_array.broadcasting import broadcast_dims
from ort_py_array.checks import LARGE, constant_input, host_ints, normalized_axis, shape_error
from ort_py_array.parts import assign

_MAX_VIEWS = 64
"""Outputs of one Split that are declared as views; later ones are copied. Declarations are made before any node."""


def transpose(ctx: KernelContext) -> KernelCallable:
    """Transpose-1..25: axes in the order of `perm`, by default reversed. A view.

    Raises:
        InvalidArgument: `perm` is not an order of the input's axes.
    """
    given, where = ctx.node.attributes.get("perm"), ctx.node.location
    perm = None if given is None else tuple(given)
    from_the_end = perm is not None and min(perm, default=0) < 0

    def run(x: Array) -> Array:
        try:
            if from_the_end:
                raise ValueError("arrays count axes from the end, too; ONNX's operator does not")
            return x.transpose(perm)
        except ValueError as error:
            raise InvalidArgument(
                f"Attribute perm {perm} is not an order of the axes of shape {tuple(x.shape)}.",
                where=where,
                fix=f"Name each of the axes 0 to {x.ndim - 1} once."
                if x.ndim
                else "A scalar has no axes: leave perm out.",
            ) from error

    return run


def concat(ctx: KernelContext) -> KernelCallable:
    """Concat-4..13 along `axis` (in version 1, by default 1).

    Raises:
        InvalidArgument: The shapes differ in another axis, or `axis` is out of range.
    """
    concatenate, where, count = ctx.xp.concatenate, ctx.node.location, len(ctx.node.inputs)
    axis = ctx.node.attributes.get("axis", 1)

    def run(*arrays: Array) -> Array:
        try:
            if len(arrays) > count:
                return concatenate(arrays[:count], axis, out=arrays[count])
            elements = 0
            for array in arrays:
                elements += array.size
            if elements > LARGE:
                ctx.check_allocation((elements,), arrays[0].dtype)
            return concatenate(arrays, axis)
        except ValueError as error:
            raise shape_error(
                f"The inputs cannot be concatenated along axis {axis}.",
                where,
                [array.shape for array in arrays[:count]],
            ) from error

    return run


def split(ctx: KernelContext) -> KernelCallable:
    """Split-1..18: parts along `axis`, as views. Sizes: attribute (until 11) or host input (1, 13..); else equal parts.

    With `num_outputs` (18) the parts are equal but the last, which may be smaller.

    Raises:
        InvalidArgument: The sizes do not add up to the axis, or it cannot be divided.
    """
    xp, where, attributes = ctx.xp, ctx.node.location, ctx.node.attributes
    axis_given = attributes.get("axis", 0)
    count = len(ctx.node.outputs)
    uneven = "num_outputs" in attributes
    given = attributes.get("split")  # version 1 knows both ways; the attribute is the one that is known here
    known = tuple(given) if given is not None else host_ints(constant_input(ctx, 1))

    def run(x: Array, sizes_input: Array | None = None) -> tuple[Array, ...]:
        axis = normalized_axis(axis_given, x.ndim, where)
        size = x.shape[axis]
        sizes = known if known is not None else host_ints(sizes_input)
        if sizes is None:
            sizes = _equal_parts(size, count, uneven)
        if sizes is None or sum(sizes) != size or len(sizes) != count or min(sizes, default=0) < 0:
            raise InvalidArgument(
                f"Axis {axis} of shape {tuple(x.shape)} cannot be split into {count} parts"
                + (f" of the sizes {sizes}." if sizes is not None else " of one size."),
                where=where,
                fix="The sizes must add up to the axis and be as many as the outputs.",
            )
        head = (slice(None),) * axis
        parts, start = [], 0
        for number, length in enumerate(sizes):
            part = x[(*head, slice(start, start + length))]
            parts.append(part if number < _MAX_VIEWS else xp.array(part))
            start += length
        return tuple(parts)

    return run


def _equal_parts(size: int, count: int, uneven: bool) -> tuple[int, ...] | None:
    if not uneven:
        return (size // count,) * count if size % count == 0 else None
    part = -(-size // count)
    return tuple(max(0, min(part, size - part * number)) for number in range(count))


@kernel("Expand", since=8, until=13, strided=True, views=((0, 0),), host_inputs=frozenset({1}))
def expand(ctx: KernelContext, x: Array, shape: Array) -> Array:
    """Expand-8..13: broadcast to `shape` (host), which itself broadcasts to the input's.

    Raises:
        InvalidArgument: The shapes do not broadcast.
        LimitError: The result would be too large.
    """
    wanted = host_ints(shape) or ()
    if wanted == x.shape:
        return x
    # Of a single number, as initial states are made, any shape is the result's.
    target = wanted if x.ndim == 0 else broadcast_dims([x.shape, wanted], ctx.node.location)
    if target == tuple(x.shape):
        return x
    if prod(target) > LARGE:
        ctx.check_allocation(target, x.dtype)
    # A view would be free, but its elements share memory, which no kernel that writes in place expects.
    out = ctx.xp.empty(target, x.dtype)
    assign(ctx, out, x)
    return out


@kernel("Tile", since=6, until=13, strided=True, host_inputs=frozenset({1}))
def tile(ctx: KernelContext, x: Array, repeats: Array) -> Array:
    """Tile-6..13: the tensor repeated along each axis as `repeats` (host) says, one number per axis.

    Raises:
        InvalidArgument: `repeats` has another length than the rank, or a negative number.
        LimitError: The result would be too large.
    """
    return _tiled(ctx, x, host_ints(repeats) or ())


def _tiled(ctx: KernelContext, x: Array, counts: tuple[int, ...]) -> Array:
    if len(counts) != x.ndim or min(counts, default=0) < 0:
        raise InvalidArgument(
            f"Repeats {counts} do not fit a tensor of shape {tuple(x.shape)}.",
            where=ctx.node.location,
            fix="There must be one number that is not negative for each axis.",
        )
    shape = tuple([dim * count for dim, count in zip(x.shape, counts, strict=True)])
    if prod(shape) > LARGE:
        ctx.check_allocation(shape, x.dtype)
    out = ctx.xp.empty(shape, x.dtype)
    if all(dim == 1 or count == 1 for dim, count in zip(x.shape, counts, strict=True)):
        assign(ctx, out, x)  # nothing but broadcasting
    else:
        # One copy, of the tensor seen with an axis of its repetitions before each of its axes.
        pairs = [size for pair in zip(counts, x.shape, strict=True) for size in pair]
        assign(ctx, out.reshape(pairs), x.reshape([size for dim in x.shape for size in (1, dim)]))
    return out


@kernel("Tile", since=1, strided=True, host_inputs=frozenset({1, 2}))
def tile_1(ctx: KernelContext, x: Array, tiles: Array, axis: Array) -> Array:
    """Tile-1: repeated `tiles` times along one `axis` (both host)."""
    (count,), (axis_given,) = host_ints(tiles) or (1,), host_ints(axis) or (0,)
    along = normalized_axis(axis_given, x.ndim, ctx.node.location)
    return _tiled(ctx, x, tuple(count if a == along else 1 for a in range(x.ndim)))


def _block_shape(ctx: KernelContext, x: Array, blocksize: int, *, to_space: bool) -> tuple[int, int, int, int]:
    fits = x.ndim == 4 and blocksize > 0
    if fits:
        n, c, h, w = x.shape
        fits = c % blocksize**2 == 0 if to_space else h % blocksize == w % blocksize == 0
    if not fits:
        needs = "channels divisible by its square" if to_space else "a height and width divisible by it"
        raise InvalidArgument(
            f"{ctx.node.op_type} with blocksize {blocksize} cannot take a tensor of shape {tuple(x.shape)}.",
            where=ctx.node.location,
            fix=f"It takes four axes (batch, channels, height, width) with {needs}.",
        )
    return n, c, h, w


def _rearranged(
    ctx: KernelContext, x: Array, split_shape: tuple[int, ...], perm: tuple[int, ...], shape: tuple[int, ...]
) -> Array:
    y: Array = ctx.xp.empty(shape, x.dtype)
    # Written to, because a reshaped transposition copies nothing where the axes that move have size 1.
    assign(ctx, y.reshape(tuple([split_shape[axis] for axis in perm])), x.reshape(split_shape).transpose(perm))
    return y


@kernel("DepthToSpace", since=1, until=28, strided=True)
def depth_to_space(ctx: KernelContext, x: Array, *, blocksize: int, mode: str = "DCR") -> Array:
    """DepthToSpace-1..28: channels to blocks of pixels; `mode` (from 11) DCR or CRD orders depth and blocks."""
    n, c, h, w = _block_shape(ctx, x, blocksize, to_space=True)
    b, depth = blocksize, c // blocksize**2
    shape = (n, depth, h * b, w * b)
    if mode == "CRD":
        return _rearranged(ctx, x, (n, depth, b, b, h, w), (0, 1, 4, 2, 5, 3), shape)
    return _rearranged(ctx, x, (n, b, b, depth, h, w), (0, 3, 4, 1, 5, 2), shape)


@kernel("SpaceToDepth", since=1, until=28, strided=True)
def space_to_depth(ctx: KernelContext, x: Array, *, blocksize: int, mode: str = "DCR") -> Array:
    """SpaceToDepth-1..28: blocks of pixels to channels, the inverse of DepthToSpace; `mode` from 28."""
    n, c, h, w = _block_shape(ctx, x, blocksize, to_space=False)
    b = blocksize
    perm = (0, 1, 3, 5, 2, 4) if mode == "CRD" else (0, 3, 5, 1, 2, 4)
    return _rearranged(ctx, x, (n, c, h // b, b, w // b, b), perm, (n, c * b * b, h // b, w // b))


_SPLIT: dict[str, Any] = {
    "outputs": None,
    "views": tuple((number, 0) for number in range(_MAX_VIEWS)),
    "strided": True,
    "implementation": f"{__name__}:split",
}

KERNELS: list[KernelDef] = [
    KernelDef(
        "Transpose",
        transpose,
        since=1,
        until=25,
        views=((0, 0),),
        strided=True,
        implementation=f"{__name__}:transpose",
    ),
    KernelDef("Concat", concat, since=1, until=13, out=True, strided=True, implementation=f"{__name__}:concat"),
    KernelDef("Split", split, since=1, host_inputs=frozenset({1}), **_SPLIT),
    KernelDef("Split", split, since=2, until=11, **_SPLIT),
    KernelDef("Split", split, since=13, until=18, host_inputs=frozenset({1}), **_SPLIT),
]
