"""Shapes and strides of arrays to the axes that a kernel loops over: as few as there can be.

It does not depend on programs or devices: tuples of numbers only. Comes before `generate` and `region`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

__all__ = ["broadcast_strides", "collapsed", "contiguous_strides"]


def broadcast_strides(shape: Sequence[int], strides: Sequence[int], into: Sequence[int]) -> tuple[int, ...]:
    """Elements to go for a step along each axis of `into`, for an array that broadcasts to it.

    Args:
        shape: Of the array.
        strides: Of the array, in elements.
        into: The shape it broadcasts to.
    """
    missing = len(into) - len(shape)
    own = (0 if size == 1 else stride for size, stride in zip(shape, strides, strict=True))
    return (*(0,) * missing, *own)


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides of a C-contiguous array, in elements; 0 along axes of size 1."""
    return tuple(0 if size == 1 else prod(shape[axis + 1 :]) for axis, size in enumerate(shape))


def collapsed(
    sizes: Sequence[int], strides: Sequence[Sequence[int]]
) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
    """The same places with as few axes as possible: neighbours joined where all arrays go on through both.

    Args:
        sizes: Of the axes.
        strides: For each array, its stride along each axis.

    Returns:
        Sizes, and strides for each array; at least one axis.
    """
    axes: list[tuple[int, tuple[int, ...]]] = []
    for axis, size in enumerate(sizes):
        if size == 1:
            continue
        steps = tuple(of_array[axis] for of_array in strides)
        if axes:
            outer_size, outer = axes[-1]
            if all(a == b * size for a, b in zip(outer, steps, strict=True)):
                axes[-1] = (outer_size * size, steps)
                continue
        axes.append((size, steps))
    if not axes:
        axes.append((1, tuple(0 for _ in strides)))
    return tuple(size for size, _ in axes), tuple(
        tuple(steps[array] for _, steps in axes) for array in range(len(strides))
    )
