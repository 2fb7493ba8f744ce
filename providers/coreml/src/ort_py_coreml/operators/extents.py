"""Sizes that only a run gives: new shapes that have them, and lengths that are counted."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np

from ort_py.lazy_dataclass import dataclass
from ort_py_coreml.operators.operator import Var

__all__ = ["SizeOf", "counted_up", "length_of", "reshaped", "size_at"]


@dataclass(frozen=True, slots=True)
class SizeOf:
    """The product of the sizes of some axes of the value whose shape is changed.

    Attributes:
        axes: The axes; one at least.
    """

    axes: tuple[int, ...]


def size_at(shape: Sequence[Any], axis: int, place: int) -> int | SizeOf:
    """Return the size of an axis, or where to read it if it is not known.

    Args:
        shape: A shape, of which a size that is not known is no integer.
        axis: The axis.
        place: The axis of the value whose shape is changed.
    """
    size = shape[axis]
    return size if isinstance(size, int) else SizeOf((place,))


def reshaped(mb: Any, x: Var, target: Sequence[int | SizeOf]) -> Var:
    """Change a shape. One size may be -1."""
    if sum(one == -1 or isinstance(one, SizeOf) for one in target) < 2:
        return mb.reshape(x=x, shape=[one if isinstance(one, int) else -1 for one in target])
    whole = mb.shape(x=x)
    sizes = [np.array([one], np.int32) if isinstance(one, int) else _product(mb, whole, one.axes) for one in target]
    return mb.reshape(x=x, shape=mb.concat(values=sizes, axis=0))


def _product(mb: Any, whole: Var, axes: Sequence[int]) -> Var:
    parts = [mb.gather(x=whole, indices=np.array([axis], np.int32), axis=0) for axis in axes]
    return reduce(lambda x, y: mb.mul(x=x, y=y), parts)


def length_of(mb: Any, x: Var, axis: int) -> Var:
    """Return the size of an axis as a number, which has no axes."""
    return mb.squeeze(x=mb.gather(x=mb.shape(x=x), indices=np.array([axis], np.int32), axis=0), axes=[0])


def counted_up(mb: Any, size: Any, x: Var, axis: int) -> Var:
    """Return the numbers from 0 up to the size of an axis of a value; `size` is no integer if it is not known."""
    if isinstance(size, int):
        return np.arange(size, dtype=np.int32)
    return mb.range_1d(start=np.int32(0), end=length_of(mb, x, axis), step=np.int32(1))
