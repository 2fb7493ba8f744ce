"""Asserting that results agree to the tolerance of their element type, which stands in `ort_py.tolerances`.

Where a single comparison needs more than the table, the test says why at the place.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ort_py.dtypes import data_type_of
from ort_py.tolerances import TOLERANCES, tolerance_of

__all__ = ["TOLERANCES", "assert_close", "tolerance_of"]


def assert_close(actual: Any, expected: Any, *, context: str = "") -> None:
    """Compare kind, dtype, shape and values: arrays by the table, sequences and maps element by element.

    Args:
        context: Put in front of a failure's message, e.g. the output's name.

    Raises:
        AssertionError: They differ; the message says in what.
    """
    if isinstance(expected, list | tuple):
        assert isinstance(actual, list | tuple), f"{context}: {type(actual).__name__} instead of a sequence"
        assert len(actual) == len(expected), f"{context}: {len(actual)} elements instead of {len(expected)}"
        for index, (left, right) in enumerate(zip(actual, expected, strict=True)):
            assert_close(left, right, context=f"{context}[{index}]")
        return
    if isinstance(expected, dict):
        assert isinstance(actual, dict), f"{context}: {type(actual).__name__} instead of a map"
        assert list(actual) == list(expected), f"{context}: keys {list(actual)} instead of {list(expected)}"
        for key in expected:
            assert_close(_map_value(actual[key]), _map_value(expected[key]), context=f"{context}[{key!r}]")
        return
    if expected is None:
        assert actual is None, f"{context}: {actual!r} instead of None"
        return
    left, right = np.asarray(actual), np.asarray(expected)
    assert left.shape == right.shape, f"{context}: shape {left.shape} instead of {right.shape}"
    kinds = data_type_of(left.dtype), data_type_of(right.dtype)
    assert kinds[0] == kinds[1], f"{context}: {kinds[0].onnx_name} instead of {kinds[1].onnx_name}"
    rtol, atol = tolerance_of(right.dtype)
    # NumPy does not know that the small floats of ml_dtypes have NaNs: they are compared as float64.
    if rtol == atol == 0.0 and "float" not in right.dtype.name:
        np.testing.assert_array_equal(left, right, err_msg=context)
        return
    wide = np.complex128 if right.dtype.kind == "c" else np.float64
    np.testing.assert_allclose(left.astype(wide), right.astype(wide), rtol=rtol, atol=atol, err_msg=context)


def _map_value(value: Any) -> Any:
    """A value of a map as an array: floating numbers in ONNX's maps are float32, which Python hands out as float."""
    return np.asarray(value, np.float32) if isinstance(value, float) else np.asarray(value)
