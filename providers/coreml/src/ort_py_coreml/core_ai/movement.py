"""Functions that move elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import coreai.authoring as ai
import numpy as np

from ort_py_coreml.core_ai.values import Var, known, numbers, shape_of, sizes_of, without_axes

__all__ = ["FUNCTIONS", "expand_dims", "reshape", "slice_by_size", "split", "take", "transpose"]

_FAR = 2**31 - 1


def reshape(x: Var, shape: Var) -> Var:
    """Change the shape; one size may be -1."""
    return ai.reshape(x, shape if isinstance(shape, ai.Value) else numbers(*shape))


def _shape(x: Var) -> Var:
    known_sizes = shape_of(x)
    return ai.cast(ai.get_shape(x), np.int32) if None in known_sizes else numbers(*known(known_sizes))


def _range(start: Var, end: Var, step: Var) -> Var:
    return ai.range_(start, end, step)


def transpose(x: Var, perm: Sequence[int]) -> Var:
    """Change the order of the axes."""
    return x if list(perm) == sorted(perm) else ai.transpose(x, np.array(perm, np.uint32))


def expand_dims(x: Var, axes: Sequence[int]) -> Var:
    """Insert axes, whose places are those in the result."""
    return ai.expand_dims(x, numbers(*axes))


def _squeeze(x: Var, axes: Sequence[int]) -> Var:
    return without_axes(x, list(axes))


def _identity(x: Var, name: str | None = None) -> Var:
    return x


def _const(val: Any) -> Var:
    return val


def _concat(values: Sequence[Var], axis: int) -> Var:
    """Join values. Where the size of another axis is known of some of them only, the others' is forgotten, too."""
    shapes = [shape_of(x) for x in values]
    others = [sizes[:axis] + sizes[axis + 1 :] for sizes in shapes]
    if len(set(others)) > 1:
        values = [ai.reshape(x, ai.cast(ai.get_shape(x), np.int32)) for x in values]
    return ai.concat(np.int32(axis), list(values))


def _stack(values: Sequence[Var], axis: int) -> Var:
    wider = [expand_dims(x, [axis]) for x in values]
    return wider[0] if len(wider) == 1 else _concat(wider, axis)


def split(x: Var, axis: int, split_sizes: Sequence[int] = (), num_splits: int = 0) -> list[Var]:
    """Cut into parts of given sizes, or into a number of equal ones."""
    shape = shape_of(x)
    place = axis % len(shape)
    if not split_sizes:
        size = shape[place]
        assert size is not None, "the sizes of weights and states are known"
        split_sizes = [size // num_splits] * num_splits
    return list(ai.split(x, np.array(split_sizes, np.uint32), np.int32(place)))


def _slice_by_index(
    x: Var,
    begin: Sequence[int],
    end: Sequence[int],
    stride: Sequence[int],
    begin_mask: Sequence[bool],
    end_mask: Sequence[bool],
) -> Var:
    first = [0 if masked else place for place, masked in zip(begin, begin_mask, strict=True)]
    behind = [
        (_FAR if size is None else size) if masked else place
        for place, masked, size in zip(end, end_mask, shape_of(x), strict=True)
    ]
    return ai.slice_(x, numbers(*first), numbers(*behind), numbers(*stride))


def slice_by_size(x: Var, begin: Sequence[int], size: Sequence[int]) -> Var:
    """Cut a part of given sizes; -1 is all that is left."""
    count = len(begin)
    whole = [one == -1 for one in size]
    behind = [first + one for first, one in zip(begin, size, strict=True)]
    return _slice_by_index(x, begin, behind, [1] * count, [False] * count, whole)


def _pad(x: Var, pad: Sequence[int], mode: str, constant_val: Any) -> Var:
    return ai.pad(x, np.array(pad, np.uint32), constant_val, mode) if any(pad) else x


def _tile(x: Var, reps: Var) -> Var:
    return ai.tile(x, ai.cast(reps, np.uint32) if isinstance(reps, ai.Value) else np.array(reps, np.uint32))


def _reverse(x: Var, axes: Sequence[int]) -> Var:
    return ai.reverse(x, numbers(*axes))


def _from_the_front(indices: Var, x: Var, axis: int) -> Var:
    """Return indices of which none is negative."""
    size = shape_of(x)[axis]
    if not isinstance(indices, ai.Value) and (size is not None or np.all(indices >= 0)):
        return np.where(indices < 0, indices + (size or 0), indices).astype(np.int32)
    if size is None:
        behind: Var = ai.reshape(ai.slice_(_shape(x), numbers(axis), numbers(axis + 1), numbers(1)), numbers())
    else:
        behind = np.int32(size)
    below = ai.broadcasting_greater(np.int32(0), indices)
    return ai.broadcasting_where(below, ai.broadcasting_add(indices, behind), indices)


def take(x: Var, indices: Var, axis: int) -> Var:
    """Take the places of an axis that indices name, which are not negative."""
    rank, count = len(shape_of(x)), len(shape_of(indices))
    front = transpose(x, [axis, *(one for one in range(rank) if one != axis)])
    found = ai.gather_nd(front, expand_dims(indices, [count]))
    return transpose(found, [*range(count, count + axis), *range(count), *range(count + axis, count + rank - 1)])


def _gather(x: Var, indices: Var, axis: int) -> Var:
    return take(x, _from_the_front(indices, x, axis), axis)


def _gather_along_axis(x: Var, indices: Var, axis: int) -> Var:
    return ai.gather_along_axis(x, _from_the_front(indices, x, axis), np.int32(axis))


def _gather_nd(x: Var, indices: Var, batch_dims: int) -> Var:
    """Take the places that tuples of indices name. Those of a batch become tuples with the place in the batch before
    them."""
    width = sizes_of(indices)[-1]
    fixed = not isinstance(indices, ai.Value)
    columns = np.split(indices, width, axis=-1) if fixed else split(indices, -1, num_splits=width)
    wanted = [_from_the_front(one, x, batch_dims + place) for place, one in enumerate(columns)]
    if batch_dims:
        shape = sizes_of(indices)
        places = np.indices((*shape[:-1], 1), np.int32)[:batch_dims]
        wanted = [*places, *wanted]
    joined = wanted[0] if len(wanted) == 1 else _concat(wanted, len(shape_of(indices)) - 1)
    return ai.gather_nd(x, joined)


def _depth_to_space(x: Var, block_size: int) -> Var:
    return _spread(x, block_size, 2)


def _pixel_shuffle(x: Var, upscale_factor: int) -> Var:
    return _spread(x, upscale_factor, 0)


def _spread(x: Var, block: int, place: int) -> Var:
    """Move channels into blocks of places.

    Args:
        x: The image.
        block: Rows and columns of a block.
        place: Place of the channels that are left, among the three parts of the axis; the others are rows and columns.
    """
    channels, height, width = known(shape_of(x)[1:])
    few = channels // block**2
    parts = [block, block]
    parts.insert(place, few)
    rows, columns = (1 + part for part in range(3) if part != place)
    apart = reshape(x, [-1, *parts, height, width])
    return reshape(transpose(apart, [0, 1 + place, 4, rows, 5, columns]), [-1, few, height * block, width * block])


def _space_to_depth(x: Var, block_size: int) -> Var:
    channels, height, width = known(shape_of(x)[1:])
    high, wide = height // block_size, width // block_size
    apart = reshape(x, [-1, channels, high, block_size, wide, block_size])
    return reshape(transpose(apart, [0, 3, 5, 1, 2, 4]), [-1, channels * block_size**2, high, wide])


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "concat": _concat,
    "const": _const,
    "depth_to_space": _depth_to_space,
    "expand_dims": expand_dims,
    "gather": _gather,
    "gather_along_axis": _gather_along_axis,
    "gather_nd": _gather_nd,
    "identity": _identity,
    "pad": _pad,
    "pixel_shuffle": _pixel_shuffle,
    "range_1d": _range,
    "reshape": reshape,
    "reverse": _reverse,
    "shape": _shape,
    "slice_by_index": _slice_by_index,
    "slice_by_size": slice_by_size,
    "space_to_depth": _space_to_depth,
    "split": split,
    "squeeze": _squeeze,
    "stack": _stack,
    "tile": _tile,
    "transpose": transpose,
}
"""Functions of MIL by name."""
