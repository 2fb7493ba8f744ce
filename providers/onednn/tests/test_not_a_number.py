"""What becomes of infinities and of what is no number, where the README has a difference from NumPy, and elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from onnx import NodeProto

from providers.onednn.tests.models import model, node, run_here

NAN, INF = float(np.nan), float(np.inf)
LOWEST = float(np.finfo(np.float32).min)


def _run(made: NodeProto, x: np.ndarray[Any, Any], constants: Mapping[str, Any]) -> np.ndarray[Any, Any]:
    arrays = {name: np.asarray(array, np.float32) for name, array in constants.items()}
    return np.asarray(run_here(model([made], {"x": x}, arrays), {"x": x})[0])


KEPT = (
    *("Abs", "Celu", "Elu", "Gelu", "HardSwish", "LeakyRelu", "Mish", "Neg"),
    *("Reciprocal", "Round", "Selu", "Sigmoid", "Softplus", "Softsign", "Sqrt", "Tanh"),
)


@pytest.mark.parametrize("op_type", KEPT)
def test_functions_keep_what_is_no_number(op_type: str) -> None:
    """Whatever stands beside it is computed as ever."""
    x = np.array([[NAN, 1.0, NAN, 2.0] * 8], np.float32)
    found = _run(node(op_type, "x", "y"), x, {})
    np.testing.assert_array_equal(np.isnan(found), np.isnan(x))


@pytest.mark.parametrize("op_type", ["Add", "Div", "Mul", "Sub"])
def test_arithmetic_keeps_what_is_no_number(op_type: str) -> None:
    """On either side."""
    x = np.array([[NAN, 1.0, INF, -INF]], np.float32)
    other = np.array([[1.0, NAN, 2.0, -3.0]], np.float32)
    with np.errstate(all="ignore"):
        wanted = {"Add": x + other, "Div": x / other, "Mul": x * other, "Sub": x - other}[op_type]
    np.testing.assert_array_equal(_run(node(op_type, "x z", "y"), x, {"z": other}), wanted)


X = np.array([[NAN, INF, -INF, 0.5]], np.float32)
DIFFERENT: Mapping[str, tuple[NodeProto, np.ndarray[Any, Any], Mapping[str, Any], list[float]]] = {
    "Clip": (node("Clip", "x low high", "y"), X, {"low": -1, "high": 6}, [-1, 6, -1, 0.5]),
    "Exp": (node("Exp", "x", "y"), X[:, :3], {}, [INF, INF, 0]),
    "HardSigmoid": (node("HardSigmoid", "x", "y"), X[:, :3], {}, [1, 1, 0]),
    "Max": (node("Max", "x z", "y"), X[:, :2], {"z": [[1, NAN]]}, [1, NAN]),
    "MaxPool": (
        node("MaxPool", "x", "y", kernel_shape=[2]),
        np.array([[[NAN, 2, -INF, -INF]]], np.float32),
        {},
        [2, 2, LOWEST],
    ),
    "Relu": (node("Relu", "x", "y"), X, {}, [0, INF, 0, 0.5]),
    "Softmax": (node("Softmax", "x", "y"), np.array([[INF, 0, 0]], np.float32), {}, [NAN, 0, 0]),
}


@pytest.mark.parametrize("name", sorted(DIFFERENT))
def test_differences_are_as_stated(name: str) -> None:
    """The README's table; a newer oneDNN that does otherwise is seen here."""
    made, x, constants, wanted = DIFFERENT[name]
    np.testing.assert_array_equal(_run(made, x, constants).reshape(-1), np.array(wanted, np.float32))


def test_gelu_of_infinity() -> None:
    """Infinity, or no number where oneDNN's code for AVX-512 computes it."""
    (found,) = _run(node("Gelu", "x", "y"), X[:, 1:2], {}).reshape(-1)
    assert found == INF or np.isnan(found)
