"""The single-operator cases of ONNX's own backend suite, as models with inputs and expected outputs."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from onnx import TensorProto, numpy_helper

from ort_py.testing.tolerances import tolerance_of

__all__ = ["compare", "data_of", "node_cases"]


@functools.cache
def node_cases() -> tuple[Any, ...]:
    """All cases with a model; making them takes about ten seconds."""
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # making the cases overflows and casts NaN on purpose
        return tuple(case for case in load_model_tests(kind="node") if case.model is not None)


def data_of(case: Any) -> Iterator[tuple[Mapping[str, Any], list[Any]]]:
    """Feeds and expected outputs of each data set."""
    for given, expected in case.data_sets:
        names = [value.name for value in case.model.graph.input]
        yield dict(zip(names, map(_value, given), strict=True)), [_value(value) for value in expected]


def _value(value: Any) -> Any:
    if isinstance(value, TensorProto):
        value = numpy_helper.to_array(value)
    if isinstance(value, np.generic):
        value = np.asarray(value)
    if isinstance(value, np.ndarray) and value.dtype.kind in "US":
        return value.astype(object)
    return value


def compare(actual: Any, expected: Any, case: Any) -> None:
    """Compare by the wider of the case's tolerances and those of the element type.

    Raises:
        AssertionError: They differ.
    """
    if isinstance(expected, list):
        assert len(actual) == len(expected)
        for left, right in zip(actual, expected, strict=True):
            compare(left, right, case)
        return
    if not isinstance(expected, np.ndarray):
        assert actual == expected, f"{actual!r} instead of {expected!r}"
        return
    assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
    if expected.dtype.kind in "OUSb":
        np.testing.assert_array_equal(actual, expected)
        return
    rtol, atol = tolerance_of(expected.dtype)
    wide = np.complex128 if expected.dtype.kind == "c" else np.float64
    np.testing.assert_allclose(
        actual.astype(wide), expected.astype(wide), rtol=max(case.rtol, rtol), atol=max(case.atol, atol)
    )
