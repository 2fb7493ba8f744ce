"""Results on their way from slots to the caller: fresh, writable, C-contiguous, aliasing nothing."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["finish_result"]


def finish_result(value: Any, copy: bool) -> Any:
    """The caller's form of a slot's content.

    Args:
        value: Array, NumPy scalar, list, dict or None.
        copy: It may share memory with something that outlives the run.
    """
    if isinstance(value, np.ndarray):
        if copy or not value.flags.carray:
            return np.array(value, order="C")
        return value
    if isinstance(value, np.generic):
        return np.array(value)  # NumPy's functions return scalars for 0-d arrays
    if isinstance(value, list):
        return [finish_result(item, copy) for item in value]
    if isinstance(value, dict):
        return dict(value)
    return value
