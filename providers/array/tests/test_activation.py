"""Activations: against formulas in float64, in all float types, at infinities, in place, in blocks, and as scalars."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ort_py.errors import InvalidArgument
from ort_py_kit.tolerances import assert_close

from .oracle import FLOATS, agree, bound, run, sample


def _erf(x: Any) -> Any:
    return np.vectorize(math.erf, otypes=[np.float64])(x)


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


_ALPHA, _GAMMA = 1.67326319217681884765625, 1.05070102214813232421875
_FORMULAS: dict[str, tuple[dict[str, Any], Callable[[Any], Any]]] = {
    "Relu": ({}, lambda x: np.maximum(x, 0)),
    "LeakyRelu": ({"alpha": 0.25}, lambda x: np.where(x < 0, 0.25 * x, x)),
    "LeakyRelu with a great slope": ({"alpha": 2.0}, lambda x: np.where(x < 0, 2 * x, x)),
    "LeakyRelu without a slope": ({"alpha": 0.0}, lambda x: np.where(x < 0, 0 * x, x)),
    "ThresholdedRelu": ({"alpha": 0.5}, lambda x: np.where(x > 0.5, x, 0)),
    "Sigmoid": ({}, _sigmoid),
    "HardSigmoid": ({"alpha": 0.25, "beta": 0.5}, lambda x: np.clip(0.25 * x + 0.5, 0, 1)),
    # The function that defines it has 1/6 as an attribute, which is a float32 whatever the type of the input is.
    "HardSwish": ({}, lambda x: x * np.clip(x * float(np.float32(1 / 6)) + 0.5, 0, 1)),
    "Elu": ({"alpha": 0.5}, lambda x: np.where(x > 0, x, 0.5 * np.expm1(np.minimum(x, 0)))),
    "Selu": ({}, lambda x: _GAMMA * np.where(x > 0, x, _ALPHA * np.expm1(np.minimum(x, 0)))),
    "Celu": ({"alpha": 2.0}, lambda x: np.where(x > 0, x, 2 * np.expm1(np.minimum(x, 0) / 2))),
    "Softplus": ({}, lambda x: np.logaddexp(x, 0)),
    "Softsign": ({}, lambda x: x / (1 + np.abs(x))),
    "Mish": ({}, lambda x: x * np.tanh(np.logaddexp(x, 0))),
    "Swish": ({"alpha": 0.5}, lambda x: x * _sigmoid(0.5 * x)),
    "Gelu": ({}, lambda x: 0.5 * x * (1 + _erf(x / math.sqrt(2)))),
    "Gelu by tanh": (
        {"approximate": "tanh"},
        lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    ),
    "Shrink": (
        {"bias": 0.25, "lambd": 0.5},
        lambda x: np.where(x < -0.5, x + 0.25, np.where(x > 0.5, x - 0.25, 0)),
    ),
}


def _operator(name: str) -> str:
    return name.split(maxsplit=1)[0]


@pytest.mark.parametrize("shape", [(4, 25), (), (0, 2), (1000, 70)], ids=str)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", _FORMULAS)
def test_activations(name: str, dtype: Any, shape: Any) -> None:
    """Each agrees with its formula; the largest shape is cut into blocks."""
    attributes, formula = _FORMULAS[name]
    x = sample(shape, dtype, 1, -6, 6)
    expected = np.asarray(formula(x.astype(np.float64))).astype(dtype)
    assert_close(run(_operator(name), [x], **attributes)[0], expected, context=name)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", _FORMULAS)
def test_activations_of_special_values(name: str, dtype: Any) -> None:
    """Infinities give the limits and never NaN by accident; NaN stays NaN, or is 0 where comparisons decide."""
    attributes, formula = _FORMULAS[name]
    x = np.array([np.inf, 60.0, -60.0, 0.0, np.nan]).astype(dtype)
    (result,) = run(_operator(name), [x], **attributes)
    assert_close(result, np.asarray(formula(x.astype(np.float64))).astype(dtype), context=name)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("value", [0.5, 200.0, -200.0, np.nan])
def test_sigmoid_of_one_number(value: float, dtype: Any) -> None:
    """The probability at the end of a detector, of any rank and in place."""
    for shape in ((), (1,), (1, 1, 1)):
        x = np.full(shape, value).astype(dtype)
        _, kernel = bound("Sigmoid", [x])
        with np.errstate(over="ignore"):  # as runs of the engine do
            expected = np.asarray(_sigmoid(x.astype(np.float64))).astype(dtype)
            assert_close(kernel(x), expected, context=str(shape))
            assert kernel(x, x) is x
        assert_close(x, expected, context=str(shape))


@pytest.mark.parametrize("name", _FORMULAS)
@pytest.mark.parametrize("dtype", FLOATS[1:3], ids=str)
@pytest.mark.parametrize("size", [50, 100_000])
def test_activations_in_place(name: str, dtype: Any, size: int) -> None:
    """Written over its input, in one piece or in blocks, an activation gives the same numbers."""
    attributes, _ = _FORMULAS[name]
    x = sample((size,), dtype, 2)
    definition, kernel = bound(_operator(name), [x], **attributes)
    expected = kernel(x)
    assert definition.inplace == ((0, 0),)
    assert kernel(x, x) is x
    np.testing.assert_array_equal(x, expected)


@pytest.mark.parametrize("name", _FORMULAS)
def test_activations_of_strided_tensors(name: str) -> None:
    """Large transposed and stepped inputs are read correctly."""
    attributes, _ = _FORMULAS[name]
    x = sample((400, 300), np.float32, 3).T[::2]
    (result,) = run(_operator(name), [x], **attributes)
    (expected,) = run(_operator(name), [np.ascontiguousarray(x)], **attributes)
    np.testing.assert_allclose(result, expected, rtol=1e-6)


@pytest.mark.parametrize("opset", [6, 13, 14])
def test_relu_versions(opset: int) -> None:
    """All versions of Relu are one."""
    agree("Relu", [sample((3, 3), np.float32)], opset=opset)


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64], ids=str)
def test_relu_of_integers(dtype: Any) -> None:
    """From version 14 on, signed integers too."""
    x = np.array([-3, 0, 4], dtype)
    assert run("Relu", [x], opset=14)[0].tolist() == [0, 0, 4]


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0, 3.0, -1.0])
def test_elu_keeps_the_sign_of_what_vanishes(alpha: float) -> None:
    """The result for a negative number is alpha · (exp(x) - 1), also if that is zero."""
    x = np.array([-2.0, -1e-45, 3.0, np.nan, -np.inf, np.inf], np.float32)
    expected = np.where(x > 0, x, np.float32(alpha) * np.expm1(np.minimum(x, 0)))
    (y,) = run("Elu", [x], opset=22, alpha=alpha)
    np.testing.assert_allclose(y, expected, rtol=1e-6)
    np.testing.assert_array_equal(np.signbit(y)[~np.isnan(y)], np.signbit(expected)[~np.isnan(y)])


def test_relu_keeps_nan() -> None:
    """NaN is not cut to 0."""
    assert np.isnan(run("Relu", [np.array([np.nan], np.float32)])[0]).all()


def test_gelu_of_float64_has_its_digits() -> None:
    """float64 is computed with erf itself, not with float32's approximation."""
    x = np.linspace(-8, 8, 1001)
    np.testing.assert_allclose(run("Gelu", [x])[0], _FORMULAS["Gelu"][1](x), rtol=1e-12, atol=1e-16)


def test_gelu_of_float32_is_exact_to_rounding() -> None:
    """Absolute error below one unit in the last place of numbers near 4."""
    x = np.linspace(-12, 12, 40001).astype(np.float32)
    expected = np.array([0.5 * v * math.erfc(-v / math.sqrt(2)) for v in x.tolist()])
    np.testing.assert_allclose(run("Gelu", [x])[0], expected, rtol=4e-7, atol=4e-7)


@pytest.mark.parametrize("dtype", [*FLOATS, np.int32, np.uint64], ids=str)
@pytest.mark.parametrize("slope", [(3, 1), (1,), (2, 3, 4)], ids=str)
def test_prelu(slope: Any, dtype: Any) -> None:
    """The slope broadcasts to the data; integers are allowed."""
    x, factor = sample((2, 3, 4), dtype, 1), sample(slope, dtype, 2)
    expected = np.where(x.astype(float) < 0, x.astype(float) * factor.astype(float), x.astype(float))
    assert_close(run("PRelu", [x, factor])[0], expected.astype(dtype), context="PRelu")


def test_prelu_of_version_6_takes_a_slope_per_channel() -> None:
    """Before opset 7 a vector of slopes belonged to axis 1."""
    x, slope = sample((2, 3, 4), np.float32, 1), np.array([0.1, 0.2, 0.3], np.float32)
    (result,) = run("PRelu", [x, slope], opset=6)
    np.testing.assert_array_equal(result, run("PRelu", [x, slope.reshape(3, 1)])[0])


def test_prelu_of_version_6_without_channels() -> None:
    """No channels have no slopes, whatever follows them."""
    (result,) = run("PRelu", [np.zeros((2, 0, 3), np.float32), np.zeros(0, np.float32)], opset=6)
    assert result.shape == (2, 0, 3)


def test_prelu_broadcasts_one_way() -> None:
    """A slope larger than the data is refused."""
    with pytest.raises(InvalidArgument, match=r"shape \(2, 3\) does not broadcast to the input's \(3,\)"):
        run("PRelu", [np.zeros(3, np.float32), np.zeros((2, 3), np.float32)])


def test_selu_of_version_1_has_short_constants() -> None:
    """The first version's defaults had five digits."""
    (result,) = run("Selu", [np.array([1.0], np.float32)], opset=5)
    assert result[0] == np.float32(1.0507)
