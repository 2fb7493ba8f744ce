"""Work in parts between which the clock is looked at, on behalf of the run or of the model that is being loaded.

`ort_py.contracts.running_time` says which check applies. This module does not depend on runs, budgets or kernels.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ort_py.contracts.running_time import TimeCheck, current_time_check, is_checked
from ort_py.errors import LimitError

_PART_SECONDS = 0.06
"""Seconds that a part of a kernel should take between two looks at the clock. Less would slow down products of
matrices, which prepare an operand again for each part."""

_LATE = 2.0
"""Multiple of its limit that a run may take before a call that is estimated to end later is refused."""


def refuse_ahead(ahead: float, left: float, limit: float, name: str) -> None:
    """Refuse a call that would end long after the time is over.

    Args:
        limit: Seconds that were allowed in total.
    """
    if ahead - left > (_LATE - 1) * limit:
        raise LimitError(
            f"A single operation is estimated to take {ahead:.3g} s; {max(0.0, left):.3g} s of {limit:g} s are left.",
            why=f"{name}; it cannot be interrupted, so its time is estimated before it begins",
            fix="Feed smaller inputs, or raise the limit if you trust the model.",
        )


def in_checked_parts(grain: int, fn: Callable[[int, int], None]) -> Callable[[int, int], None]:
    """Cut ``fn(start, stop)`` into parts with a check of the clock between them; return `fn` itself without a check.

    Args:
        grain: Minimum number of rows of a part.
    """
    check = current_time_check()
    if check is None:
        return fn
    return partial(_parts, check, max(1, grain), fn)


def _parts(check: TimeCheck, size: int, fn: Callable[[int, int], None], start: int, stop: int) -> None:
    """Begin with a small part, and let each be as much larger or smaller as the time of the last one suggests."""
    least = size
    while True:
        check()
        end = stop if stop - start < size + least else start + size
        begun = time.monotonic()
        fn(start, end)
        if end == stop:
            return
        taken = time.monotonic() - begun
        if taken < _PART_SECONDS / 2:
            size *= 2
        elif taken > 2 * _PART_SECONDS:
            size = max(least, size // 2)
        start = end


_AT_A_TIME = 1 << 20
"""Elements that are copied at a time where the running time is limited: bytes of a transposed matrix take 10 ns each,
and strings more."""


def contiguous_copy(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A C-contiguous copy of an array, made in parts where the running time is limited."""
    if array.size <= _AT_A_TIME or not is_checked():
        return np.array(array, order="C")
    result = np.empty(array.shape, array.dtype)
    axis = max(range(array.ndim), key=array.shape.__getitem__)
    before = (slice(None),) * axis

    def part(start: int, stop: int) -> None:
        places = (*before, slice(start, stop))
        result[places] = array[places]

    in_checked_parts(max(1, array.shape[axis] * _AT_A_TIME // array.size), part)(0, array.shape[axis])
    return result
