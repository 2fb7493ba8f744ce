"""Normalizer, Scaler, Binarizer and Imputer against onnxruntime, and closed forms where it lacks a type."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ort_py.errors import InvalidArgument
from ort_py_kit.tolerances import assert_close

from ..oracle import run, sample
from ..runtime_oracle import agree_with_runtime

ML = "ai.onnx.ml"
X = sample((6, 4), np.float32)
TYPES = [np.float32, np.float64, np.int64, np.int32]
FEW = settings(max_examples=25, deadline=None, derandomize=True)


def compare(op_type: str, x: Any, **attributes: Any) -> None:
    """Against onnxruntime."""
    agree_with_runtime(op_type, [x], opset=1, domain=ML, **attributes)


@FEW
@given(st.sampled_from(["MAX", "L1", "L2"]), st.sampled_from(TYPES), st.integers(0, 5), st.integers(1, 5))
def test_normalizer(norm: str, dtype: Any, rows: int, columns: int) -> None:
    """Each norm of each type; results are float32."""
    compare("Normalizer", sample((rows, columns), dtype, rows + 7 * columns), norm=norm)


def test_normalizer_leaves_rows_of_zeros() -> None:
    """There is nothing to divide by."""
    (y,) = run("Normalizer", [np.zeros((1, 3), np.float32)], opset=1, domain=ML, norm="L2")
    np.testing.assert_array_equal(y, np.zeros((1, 3), np.float32))


@pytest.mark.parametrize("dtype", TYPES)
def test_scaler(dtype: Any) -> None:
    """Feature by feature, or one pair of numbers for all."""
    x = sample((6, 4), dtype)
    compare("Scaler", x, offset=[0.1, 0.2, 0.3, 0.4], scale=[2.0, 1.0, 0.5, 3.0])
    compare("Scaler", x, offset=[0.5], scale=[2.0])


def test_scaler_leaves_out_a_step_whose_attribute_is_absent() -> None:
    """Neither is required by the schema (onnxruntime wants both)."""
    (y,) = run("Scaler", [X], opset=1, domain=ML, scale=[2.0])
    np.testing.assert_array_equal(y, 2 * X)
    (y,) = run("Scaler", [X], opset=1, domain=ML, offset=[1.0])
    np.testing.assert_array_equal(y, X - 1)
    (y,) = run("Scaler", [X], opset=1, domain=ML)
    np.testing.assert_array_equal(y, X)


def test_scaler_rounds_doubles_once() -> None:
    """The difference of two large numbers is taken before it is rounded."""
    (y,) = run("Scaler", [np.array([[16777217.0]])], opset=1, domain=ML, offset=[16777216.0], scale=[1.0])
    np.testing.assert_array_equal(y, [[1]])


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("threshold", [0.5, -0.5, 0.0, float("inf"), float("-inf")])
def test_binarizer(dtype: Any, threshold: float) -> None:
    """Integers are compared with the threshold as it is, not cut to an integer."""
    x = np.arange(-2, 3).astype(dtype)
    (y,) = run("Binarizer", [x], opset=1, domain=ML, threshold=threshold)
    assert_close(y, (x.astype(np.float64) > threshold).astype(dtype))


def test_imputer() -> None:
    """NaN and numbers are replaced, by one value or one per feature, in every type."""
    missing = X.copy()
    missing[0, 0] = np.nan
    compare("Imputer", missing, imputed_value_floats=[1.0, 2.0, 3.0, 4.0], replaced_value_float=float("nan"))
    compare("Imputer", np.array([[1, -1]], np.int64), imputed_value_int64s=[7], replaced_value_int64=-1)
    for dtype in (np.int32, np.float64):
        name = "int64" if dtype == np.int32 else "float"
        attributes: dict[str, Any] = {f"imputed_value_{name}s": [7, 8], f"replaced_value_{name}": 2}
        (y,) = run("Imputer", [np.array([[2, 1], [3, 2]], dtype)], opset=1, domain=ML, **attributes)
        assert_close(y, np.array([[7, 1], [3, 8]], dtype))


@pytest.mark.parametrize(
    ("op_type", "x", "attributes", "text"),
    [
        ("Normalizer", X, {"norm": "L3"}, "norm is 'L3'"),
        ("Normalizer", X[None], {}, "has shape [1, 6, 4]; it needs rank 1 or 2"),
        ("Scaler", X, {"offset": [0.0, 1.0], "scale": [1.0]}, "offset has 2 entries; it needs 1 or 4"),
        ("Imputer", X, {"imputed_value_floats": [1.0, 2.0]}, "There are 2 imputed values for 4 features"),
        ("Imputer", X, {"imputed_value_int64s": [1]}, "There are 0 imputed values for 4 features"),
        ("Imputer", X.astype(np.int32), {"imputed_value_int64s": [1 << 40]}, "An imputed value does not fit int32"),
    ],
)
def test_what_does_not_fit_is_refused(op_type: str, x: Any, attributes: dict[str, Any], text: str) -> None:
    """With the numbers, and what to do."""
    with pytest.raises(InvalidArgument, match=re.escape(text)) as caught:
        run(op_type, [x], opset=1, domain=ML, **attributes)
    assert caught.value.fix
