"""LinearClassifier and LinearRegressor against onnxruntime."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from ort_py.errors import InvalidArgument
from ort_py_kit.tolerances import assert_close

from ..oracle import run, sample
from ..runtime_oracle import agree_with_runtime

ML = "ai.onnx.ml"
X = sample((6, 4), np.float32)
TYPES = [np.float32, np.float64, np.int64, np.int32]


def numbers(count: int, seed: int = 0) -> list[float]:
    """Seeded coefficients as Python floats."""
    return [float(value) for value in sample((count,), np.float32, seed, -1, 1)]


def compare(op_type: str, x: Any, outputs: int = 1, **attributes: Any) -> None:
    """Against onnxruntime."""
    agree_with_runtime(op_type, [x], opset=1, outputs=outputs, domain=ML, **attributes)


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
    compare("LinearClassifier", X, outputs=2, **attributes, **labels)


@pytest.mark.parametrize("dtype", TYPES)
def test_input_types(dtype: Any) -> None:
    """All that the schema allows; results are float32 (onnxruntime's regressor takes float32 only)."""
    x = np.rint(X).astype(dtype)
    compare("LinearClassifier", x, 2, coefficients=numbers(8), intercepts=[0.1, 0.2], classlabels_ints=[1, 2])
    (y,) = run("LinearRegressor", [x], opset=1, domain=ML, coefficients=numbers(4))
    assert_close(y, (x @ np.array(numbers(4)))[:, None].astype(np.float32))


@pytest.mark.parametrize("post", ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"])
def test_linear_regressor(post: str) -> None:
    attributes: dict[str, Any] = {
        "coefficients": numbers(8),
        "intercepts": [0.1, 0.2],
        "targets": 2,
        "post_transform": post,
    }
    compare("LinearRegressor", X, **attributes)


def test_probit_of_a_probability() -> None:
    """The normal quantile, within the approximation's error."""
    x = np.array([[0.5], [0.975]], np.float32)
    (y,) = run("LinearRegressor", [x], opset=1, domain=ML, coefficients=[1.0], post_transform="PROBIT")
    np.testing.assert_allclose(y, [[0.0], [1.96]], atol=1e-2)


def test_a_large_score_does_not_overflow() -> None:
    """LOGISTIC of ±1000 is 0 and 1, and SOFTMAX_ZERO of zeros stays zero."""
    x = np.array([[-1000.0], [1000.0]], np.float32)
    (y,) = run("LinearRegressor", [x], opset=1, domain=ML, coefficients=[1.0], post_transform="LOGISTIC")
    np.testing.assert_array_equal(y, [[0], [1]])
    zeros = np.zeros((2, 1), np.float32)
    arguments: dict[str, Any] = {"coefficients": [1.0, 2.0], "targets": 2, "post_transform": "SOFTMAX_ZERO"}
    (y,) = run("LinearRegressor", [zeros], opset=1, domain=ML, **arguments)
    np.testing.assert_array_equal(y, np.zeros((2, 2), np.float32))


def test_without_rows() -> None:
    for post in ("NONE", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT"):
        (y,) = run("LinearRegressor", [X[:0]], opset=1, domain=ML, coefficients=numbers(4), post_transform=post)
        assert y.shape == (0, 1)


@pytest.mark.parametrize(
    ("op_type", "x", "attributes", "text"),
    [
        ("LinearRegressor", X, {"coefficients": [1.0]}, "1 coefficients and 0 intercepts do not make 1 linear"),
        ("LinearRegressor", X[None], {"coefficients": numbers(4)}, "has shape [1, 6, 4]; it needs rank 1 or 2"),
        ("LinearRegressor", X, {"coefficients": numbers(4), "post_transform": "EXP"}, "post_transform is 'EXP'"),
        ("LinearRegressor", X, {"coefficients": numbers(4), "targets": 0}, "targets is 0"),
        ("LinearRegressor", X, {"coefficients": numbers(4), "targets": 1 << 60}, "do not make"),
        (
            "LinearClassifier",
            X,
            {"coefficients": numbers(12), "intercepts": numbers(3), "classlabels_ints": [1, 2]},
            "There are 2 class labels for 3 scores",
        ),
    ],
)
def test_what_does_not_fit_is_refused(op_type: str, x: Any, attributes: dict[str, Any], text: str) -> None:
    """With the numbers, and what to do."""
    with pytest.raises(InvalidArgument, match=re.escape(text)) as caught:
        run(op_type, [x], opset=1, outputs=2 if op_type == "LinearClassifier" else 1, domain=ML, **attributes)
    assert caught.value.fix


def test_surplus_coefficients_are_left_out_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """More coefficients than features need: the leading ones count, as in onnxruntime, and the log says so."""
    with caplog.at_level("WARNING"):
        compare(
            "LinearClassifier",
            X,
            outputs=2,
            coefficients=numbers(24),
            intercepts=numbers(3, 1),
            classlabels_ints=[3, 4, 5],
            post_transform="NONE",
        )
    assert "12 of 24 coefficients are used" in caplog.text
