"""Copies of what goes into a run and what comes out: the caller owns both and may write to them at any time."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np


def copied(value: Any) -> Any:
    """A copy that shares no memory with a host value: an array, a list or mapping of values, or a scalar."""
    if isinstance(value, np.ndarray):
        return value.copy(order="C")
    if isinstance(value, list):
        return [copied(item) for item in value]
    if isinstance(value, dict):
        return {key: copied(item) for key, item in value.items()}
    return value if value is None or isinstance(value, np.generic) else copy.deepcopy(value)


def bytes_of(value: Any) -> int:
    """About how many bytes a copy of a host value takes; the contents of strings are not counted."""
    if isinstance(value, np.ndarray):
        return int(value.nbytes)
    if isinstance(value, list):
        return sum(map(bytes_of, value))
    return sum(map(bytes_of, value.values())) if isinstance(value, dict) else 64
