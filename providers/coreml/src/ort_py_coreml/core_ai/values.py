"""Values of a program that is being written: values of Core AI, and constants, which are arrays of NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import coreai.authoring as ai
import numpy as np

__all__ = [
    "Var",
    "apart_from_nan",
    "filled",
    "is_bool",
    "is_float",
    "known",
    "numbers",
    "shape_of",
    "sizes_of",
    "without_axes",
]

Var: TypeAlias = Any
"""A value of Core AI, an array or a number."""


def shape_of(x: Var) -> tuple[int | None, ...]:
    """Return the sizes; None for one that is not known."""
    if not isinstance(x, ai.Value):
        return np.shape(x)
    return tuple(None if size < 0 else size for size in x.type.shape)


def sizes_of(x: Var) -> tuple[int, ...]:
    """Return the sizes of a value that has no unknown ones."""
    return known(shape_of(x))


def known(sizes: Sequence[int | None]) -> tuple[int, ...]:
    """Return sizes of which none is unknown: `limits` keeps others out."""
    found = tuple(size for size in sizes if size is not None)
    assert len(found) == len(sizes), "a size is not known"
    return found


def is_float(x: Var) -> bool:
    """Return whether it holds float32, and not int32 or booleans."""
    return _kind(x) == np.float32


def is_bool(x: Var) -> bool:
    """Return whether it holds booleans."""
    return _kind(x) == np.bool_


def _kind(x: Var) -> np.dtype[Any]:
    return np.dtype(x.type.dtype.numpy if isinstance(x, ai.Value) else np.asarray(x).dtype)


def numbers(*given: int) -> np.ndarray[Any, Any]:
    """Return sizes, places or axes as Core AI takes them."""
    return np.array(given, np.int32)


def without_axes(x: Var, axes: list[int]) -> Var:
    """Remove axes of size 1."""
    return ai.shrink_dims(x, numbers(*axes)) if axes else x


def filled(like: Var, number: Any) -> Var:
    """Return a tensor of the shape of another, each of whose elements is a number."""
    shape = shape_of(like)
    target = ai.get_shape(like) if None in shape else numbers(*sizes_of(like))
    return ai.broadcast_to(np.asarray(number), target)


def apart_from_nan(result: Var, *operands: Var) -> Var:
    """Return a result, and NaN where one of the operands is NaN: Core AI's maximum and minimum ignore it."""
    for x in operands:
        if is_float(x):
            result = ai.broadcasting_where(ai.broadcasting_not_equal(x, x), np.float32(np.nan), result)
    return result
