"""Constants that types may depend on: small numbers, such as the target of a Reshape and the ends of a Slice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ort_py.dtypes import DataType, nbytes_of
from ort_py.graph.ir import Value, Weight

SMALL = 1024
"""Bytes of the largest constant that inference is shown."""

_FOLLOWED = frozenset({DataType.INT64, DataType.INT32, DataType.FLOAT, DataType.DOUBLE, DataType.BOOL})

Contents = Callable[[Value], "np.ndarray[Any, Any] | None"]
"""Gives the content of a value that shapes may depend on, where it is known."""


def follows_data(weight: Weight) -> bool:
    """Return whether a constant is small and numeric, so that shapes may depend on it."""
    return weight.data_type in _FOLLOWED and nbytes_of(weight.data_type, weight.shape) <= SMALL


def constant_contents(value: Value) -> np.ndarray[Any, Any] | None:
    if value.constant and value.weight is not None and follows_data(value.weight):
        return value.weight.array()
    return None
