"""Copies of large arrays, during which the clock is looked at.

Does not depend on runs: see `running_time`, which knows the check that applies.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ort_py.limits.running_time import in_checked_parts, is_checked

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
