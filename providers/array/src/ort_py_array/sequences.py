"""Sequences of tensors: made, measured, taken apart, split from a tensor and joined to one. Every element type.

In a slot a sequence is a Python list of the device's arrays (a tensor inside is never copied), so these kernels move
references: what they return are new lists, and an input list is never changed. Positions and sizes are on the host.
Only SplitToSequence and ConcatFromSequence know arrays at all.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import accumulate
from typing import Any

import numpy as np  # the length is a host tensor, whatever the array module is

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelCallable, KernelContext, KernelDef, kernel
from ort_py.errors import InvalidArgument, Location
from ort_py_array.checks import LARGE, index_error, normalized_axis, shape_error

__all__ = [
    "concat_from_sequence",
    "sequence_at",
    "sequence_construct",
    "sequence_empty",
    "sequence_erase",
    "sequence_insert",
    "sequence_length",
    "split_to_sequence",
]

_SEVERAL = ((0, 0), (0, 1))
"""`KernelDef.views` of a list that holds several inputs: more than one source makes the engine assume any of them."""

_VIEW_BYTES = 128
"""What one array object takes, whatever it shows: parts of an empty tensor are many and hold nothing."""


@kernel("SequenceConstruct", since=11, strided=True, views=_SEVERAL)
def sequence_construct(_ctx: KernelContext, *tensors: Array) -> list[Array]:
    """SequenceConstruct-11: a sequence of the inputs."""
    return list(tensors)


@kernel("SequenceEmpty", since=11)
def sequence_empty(_ctx: KernelContext, *, dtype: int = 1) -> list[Array]:
    """SequenceEmpty-11: a sequence of nothing. `dtype` says what may come in, which the graph's types know."""
    del dtype
    return []


@kernel("SequenceLength", since=11, strided=True, host_outputs=frozenset({0}))
def sequence_length(_ctx: KernelContext, sequence: list[Array]) -> Array:
    """SequenceLength-11: how many tensors, as an int64 scalar on the host."""
    return np.array(len(sequence), np.int64)


@kernel("SequenceAt", since=11, strided=True, views=((0, 0),), host_inputs=frozenset({1}))
def sequence_at(ctx: KernelContext, sequence: list[Array], position: Array) -> Array:
    """SequenceAt-11: the tensor at `position`, which counts from the end where it is negative.

    Raises:
        InvalidArgument: There is none, or the position is not one integer.
    """
    at = _integer(position, "position", ctx.node.location)
    try:
        return sequence[at]
    except IndexError:
        raise index_error(at, len(sequence), ctx.node.location) from None


@kernel("SequenceErase", since=11, strided=True, views=((0, 0),), host_inputs=frozenset({1}))
def sequence_erase(ctx: KernelContext, sequence: list[Array], position: Array | None = None) -> list[Array]:
    """SequenceErase-11: the sequence without the tensor at `position`, by default the last.

    Raises:
        InvalidArgument: There is none, or the position is not one integer.
    """
    at = -1 if position is None else _integer(position, "position", ctx.node.location)
    rest = sequence.copy()
    try:
        del rest[at]
    except IndexError:
        raise index_error(at, len(sequence), ctx.node.location) from None
    return rest


@kernel("SequenceInsert", since=11, strided=True, views=_SEVERAL, host_inputs=frozenset({2}))
def sequence_insert(
    ctx: KernelContext, sequence: list[Array], tensor: Array, position: Array | None = None
) -> list[Array]:
    """SequenceInsert-11: the sequence with `tensor` in front of what is at `position`, by default at the end.

    Raises:
        InvalidArgument: The position is outside [-n, n] or not one integer, or the element types differ.
    """
    if sequence and sequence[0].dtype != tensor.dtype:
        raise InvalidArgument(
            f"A tensor of {tensor.dtype} cannot go into a sequence of {sequence[0].dtype}.",
            where=ctx.node.location,
            why="all tensors of a sequence have one element type",
            fix="Put a Cast in front of the tensor.",
        )
    count = len(sequence)
    result = sequence.copy()
    if position is None:
        result.append(tensor)
        return result
    at = _integer(position, "position", ctx.node.location)
    if not -count <= at <= count:
        raise InvalidArgument(
            f"Position {at} is outside a sequence of {count}.",
            where=ctx.node.location,
            fix=f"Insert at a position in [{-count}, {count}].",
        )
    result.insert(at, tensor)
    return result


@kernel("SplitToSequence", since=11, until=24, strided=True, views=((0, 0),), host_inputs=frozenset({1}))
def split_to_sequence(
    ctx: KernelContext, x: Array, split: Array | None = None, *, axis: int = 0, keepdims: int = 1
) -> list[Array]:
    """SplitToSequence-11..24: parts of `x` along `axis`, as views.

    Without `split` they have one element along the axis, which goes where `keepdims` is 0. A scalar `split` is the size
    of all parts, the last of which may be smaller; a vector holds the size of each.

    Raises:
        InvalidArgument: The axis does not exist, a size is not positive (in a vector: negative), `split` has more than
            one axis, or the sizes do not add up to the axis.
        LimitError: There would be more parts than the limits allow memory for.
    """
    where = ctx.node.location
    along = normalized_axis(axis, x.ndim, where)
    size = x.shape[along]
    before = (slice(None),) * along
    if split is None and not keepdims:
        _check_count(ctx, size)
        # The ellipsis keeps a part of a vector an array: strings would come out as `str`.
        return _parts(ctx, size, lambda index: x[(*before, index, ...)])
    if split is not None and split.ndim == 1:
        sizes = split.tolist()
        ends = list(accumulate(sizes, initial=0))  # Python's integers do not wrap around
        if ends[-1] != size or min(sizes, default=0) < 0:
            raise InvalidArgument(
                f"Parts of {sizes[:20]} do not make up axis {along} of size {size}.",
                where=where,
                fix=f"Give sizes of at least 0 that add up to {size}.",
            )
        return _parts(ctx, len(sizes), lambda index: x[(*before, slice(ends[index], ends[index + 1]))])
    step = 1 if split is None else _integer(split, "split", where)
    if step <= 0:
        raise InvalidArgument(f"Parts of size {step} cannot be made.", where=where, fix="'split' must be at least 1.")
    count = -(-size // step)
    _check_count(ctx, count)
    return _parts(ctx, count, lambda index: x[(*before, slice(index * step, (index + 1) * step))])


_STRETCH = 1 << 16
"""Parts that are made between two looks at the clock."""


def _parts(ctx: KernelContext, count: int, part: Callable[[int], Array]) -> list[Array]:
    found: list[Array] = []
    for start in range(0, count, _STRETCH):
        ctx.check_time()
        found += map(part, range(start, min(start + _STRETCH, count)))
    return found


def _check_count(ctx: KernelContext, count: int) -> None:
    if count > LARGE:
        ctx.check_allocation((count, _VIEW_BYTES), np.uint8)


def concat_from_sequence(ctx: KernelContext) -> KernelCallable:
    """ConcatFromSequence-11: the tensors joined along `axis`, with `new_axis` along an axis of its own.

    Raises:
        InvalidArgument: `new_axis` is neither 0 nor 1. In the call: the sequence is empty, the axis does not exist, or
            shapes do not fit.
    """
    attributes = ctx.node.attributes
    new_axis = attributes.get("new_axis", 0)
    if new_axis not in (0, 1):
        raise InvalidArgument(f"new_axis is {new_axis}.", where=ctx.node.location, fix="Set it to 0 or 1.")
    if "axis" not in attributes:
        raise InvalidArgument("ConcatFromSequence has no axis.", where=ctx.node.location, fix="Set attribute 'axis'.")
    return partial(_joined, ctx, attributes["axis"], bool(new_axis))


def _joined(ctx: KernelContext, axis: int, new_axis: bool, sequence: list[Array]) -> Array:
    xp, where = ctx.xp, ctx.node.location
    if not sequence:
        raise InvalidArgument(
            "An empty sequence cannot be made a tensor.",
            where=where,
            why="nothing tells the shape of the result",
            fix="Look at SequenceLength first, and branch with If.",
        )
    first = sequence[0]
    # A new axis counts among those of the result.
    along = normalized_axis(axis, first.ndim + new_axis, where)
    shape = list(first.shape)
    if new_axis:
        fits = all(item.shape == first.shape for item in sequence)
        shape.insert(along, len(sequence))
    else:
        fits = all(_without(item.shape, along) == _without(first.shape, along) for item in sequence)
        shape[along] = sum(item.shape[along] for item in sequence) if fits else 0
    if not fits:
        shapes = list(dict.fromkeys(tuple(item.shape) for item in sequence))
        raise shape_error(f"The tensors cannot be joined along axis {along}.", where, shapes[:10])
    ctx.check_allocation(shape, first.dtype)
    return (xp.stack if new_axis else xp.concatenate)(sequence, axis=along)


def _without(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return (len(shape), *shape[:axis], *shape[axis + 1 :])


def _integer(value: Any, what: str, where: Location) -> int:
    if value.size != 1:
        raise InvalidArgument(
            f"The {what} is an array of shape {tuple(value.shape)}, not one integer.",
            where=where,
            fix="Give it exactly one element, e.g. np.array(0).",
        )
    return int(value.item())


KERNELS: list[KernelDef] = [
    KernelDef(
        "ConcatFromSequence",
        concat_from_sequence,
        since=11,
        strided=True,
        implementation=f"{__name__}:concat_from_sequence",
    ),
]
