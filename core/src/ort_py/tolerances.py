"""Permitted differences between two results, per element type: the one table that tests and comparisons use.

A leaf: imports nothing of ort-py but element types. The figures bound the error of one reordered accumulation of a few
thousand terms in that type. Integers, bool and strings must be equal.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ort_py.dtypes import DataType, data_type_of

TOLERANCES: dict[DataType, tuple[float, float]] = {
    DataType.DOUBLE: (1e-9, 1e-11),
    DataType.COMPLEX128: (1e-9, 1e-11),
    DataType.FLOAT: (1e-4, 1e-5),
    DataType.COMPLEX64: (1e-4, 1e-5),
    DataType.FLOAT16: (2e-3, 1e-3),
    DataType.BFLOAT16: (1.6e-2, 1e-2),
}
"""(relative, absolute) for each floating element type; a type not in the table must be equal."""


def tolerance_of(dtype: np.dtype[Any]) -> tuple[float, float]:
    """(relative, absolute) tolerance of a NumPy dtype; (0, 0) where equality is asked for."""
    return TOLERANCES.get(data_type_of(dtype), (0.0, 0.0))
