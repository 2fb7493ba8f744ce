"""ai.onnx.ml operators against onnxruntime."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from ort_py.errors import InvalidArgument

from .oracle import run, sample
from .runtime_oracle import agree_with_runtime

ML = "ai.onnx.ml"
X = sample((6, 4), np.float32)


def numbers(count: int, seed: int = 0) -> list[float]:
    """Seeded coefficients as Python floats."""
    return [float(value) for value in sample((count,), np.float32, seed, -1, 1)]


def compare(op_type: str, inputs: list[Any], opset: int = 1, outputs: int = 1, **attributes: Any) -> None:
    """Against onnxruntime."""
    agree_with_runtime(op_type, inputs, opset=opset, outputs=outputs, domain=ML, **attributes)


@pytest.mark.parametrize("post", ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"])
@pytest.mark.parametrize("functions", [1, 2, 3])
@pytest.mark.parametrize("strings", [False, True])
def test_linear_classifier(functions: int, post: str, strings: bool) -> None:
    """Labels and transformed scores; one function decides between two labels."""
    count = max(functions, 2)
    labels: dict[str, Any] = (
        {"classlabels_strings": list("abc")[:count]} if strings else {"classlabels_ints": [5, 7, 9][:count]}
    )
    attributes: dict[str, Any] = {
        "coefficients": numbers(4 * functions),
        "intercepts": numbers(functions, 1),
        "post_transform": post,
    }
    compare("LinearClassifier", [X], outputs=2, **attributes, **labels)


@pytest.mark.parametrize("post", ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"])
def test_linear_regressor(post: str) -> None:
    """Several targets."""
    attributes: dict[str, Any] = {
        "coefficients": numbers(8),
        "intercepts": [0.1, 0.2],
        "targets": 2,
        "post_transform": post,
    }
    compare("LinearRegressor", [X], **attributes)


def test_probit_of_a_probability() -> None:
    """The normal quantile, within the approximation's error."""
    x = np.array([[0.5], [0.975]], np.float32)
    (y,) = run("LinearRegressor", [x], opset=1, domain=ML, coefficients=[1.0], post_transform="PROBIT")
    np.testing.assert_allclose(y, [[0.0], [1.96]], atol=1e-2)


@pytest.mark.parametrize("norm", ["MAX", "L1", "L2"])
def test_normalizer(norm: str) -> None:
    """Each norm, also of integers, which become float32."""
    compare("Normalizer", [X], norm=norm)
    (y,) = run("Normalizer", [np.array([[3, 4]], np.int64)], opset=1, domain=ML, norm=norm)
    assert y.dtype == np.float32


def test_normalizer_leaves_rows_of_zeros() -> None:
    """There is nothing to divide by."""
    (y,) = run("Normalizer", [np.zeros((1, 3), np.float32)], opset=1, domain=ML, norm="L2")
    np.testing.assert_array_equal(y, np.zeros((1, 3), np.float32))


@pytest.mark.parametrize(
    "labels", [{"classlabels_strings": ["d", "b", "c", "a"]}, {"classlabels_int64s": [4, 3, 2, 1]}], ids=str
)
def test_zip_map(labels: dict[str, Any]) -> None:
    """A list of dictionaries, keys in sorted order."""
    compare("ZipMap", [X], **labels)


def test_scaler_binarizer_and_imputer() -> None:
    """Feature by feature."""
    compare("Scaler", [X], offset=[0.1, 0.2, 0.3, 0.4], scale=[2.0, 1.0, 0.5, 3.0])
    compare("Binarizer", [X], threshold=0.3)
    missing = X.copy()
    missing[0, 0] = np.nan
    compare("Imputer", [missing], imputed_value_floats=[1.0, 2.0, 3.0, 4.0], replaced_value_float=float("nan"))
    compare("Imputer", [np.array([[1, -1]], np.int64)], imputed_value_int64s=[7], replaced_value_int64=-1)


def test_array_feature_extractor() -> None:
    """Columns by index; a vector is one row."""
    compare("ArrayFeatureExtractor", [X, np.array([2, 0], np.int64)])
    compare("ArrayFeatureExtractor", [X[0], np.array([2, 0], np.int64)])


def test_label_encoder_between_types() -> None:
    """Strings to integers, integers to strings, floats to floats, unknown keys to the default."""
    words = np.array(["a", "c", "z"], object)
    compare("LabelEncoder", [words], opset=2, keys_strings=["a", "b", "c"], values_int64s=[1, 2, 3])
    compare("LabelEncoder", [np.array([1, 9, 3])], opset=2, keys_int64s=[3, 1], values_strings=["x", "y"])
    compare("LabelEncoder", [X], opset=2, keys_floats=[float(X[0, 0])], values_floats=[0.5], default_float=2.0)


def test_label_encoder_1_maps_strings_to_positions_and_back() -> None:
    """One list of classes."""
    compare("LabelEncoder", [np.array(["a", "z"], object)], classes_strings=["b", "a"])
    compare("LabelEncoder", [np.array([1, 9])], classes_strings=["b", "a"], default_string="none")


def test_label_encoder_4_takes_tensors() -> None:
    """Keys, values and the default as tensors; a NaN key is found."""
    (y,) = run(
        "LabelEncoder",
        [np.array([1.0, np.nan, 3.0], np.float32)],
        opset=4,
        domain=ML,
        keys_tensor=np.array([np.nan, 1.0], np.float32),
        values_tensor=np.array([7, 8], np.int16),
        default_tensor=np.array([42], np.int16),
    )
    assert (y.dtype, y.tolist()) == (np.int16, [8, 7, 42])


@pytest.mark.parametrize(
    ("op_type", "inputs", "attributes", "text"),
    [
        ("LinearRegressor", [X], {"coefficients": [1.0]}, "1 coefficients and 0 intercepts do not make 1 linear"),
        ("LinearRegressor", [X[None]], {"coefficients": numbers(4)}, "has shape [1, 6, 4]; it needs rank 1 or 2"),
        ("LinearRegressor", [X], {"coefficients": numbers(4), "post_transform": "EXP"}, "post_transform is 'EXP'"),
        (
            "LinearClassifier",
            [X],
            {"coefficients": numbers(12), "intercepts": numbers(3), "classlabels_ints": [1, 2]},
            "There are 2 class labels for 3 scores",
        ),
        ("Normalizer", [X], {"norm": "L3"}, "norm is 'L3'"),
        ("ZipMap", [X], {"classlabels_int64s": [1]}, "has shape [6, 4], but there are 1 class labels"),
        ("Scaler", [X], {"offset": [0.0, 1.0], "scale": [1.0]}, "offset has 2 entries; it needs 1 or 4"),
        ("Imputer", [X], {"imputed_value_floats": [1.0, 2.0]}, "There are 2 imputed values for 4 features"),
        ("ArrayFeatureExtractor", [X, np.array([4])], {}, "Indices from 4 to 4 do not fit 4 features"),
        ("LabelEncoder", [X], {"keys_floats": [1.0], "values_floats": []}, "There are 1 keys for 0 values"),
        ("LabelEncoder", [X], {"keys_floats": [1.0]}, "LabelEncoder has no values"),
    ],
)
def test_what_does_not_fit_is_refused(op_type: str, inputs: list[Any], attributes: dict[str, Any], text: str) -> None:
    """With the numbers."""
    outputs = 2 if op_type == "LinearClassifier" else 1
    with pytest.raises(InvalidArgument, match=re.escape(text)):
        run(op_type, inputs, opset=2 if op_type == "LabelEncoder" else 1, outputs=outputs, domain=ML, **attributes)


def test_surplus_coefficients_are_left_out_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """More coefficients than features need: the leading ones count, as in onnxruntime, and the log says so."""
    with caplog.at_level("WARNING"):
        compare(
            "LinearClassifier",
            [X],
            outputs=2,
            coefficients=numbers(24),
            intercepts=numbers(3, 1),
            classlabels_ints=[3, 4, 5],
            post_transform="NONE",
        )
    assert "12 of 24 coefficients are used" in caplog.text
