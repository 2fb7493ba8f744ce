"""Rules of element-by-element operators, first and second derivatives, against central differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.end_to_end.gradient.cases import cases, every_way
from tests.end_to_end.gradient.finite_differences import check_gradients, random_inputs

X = random_inputs(3, x=(2, 3))
INSIDE = random_inputs(4, 0.2, 0.9, x=(2, 3))
BESIDE = random_inputs(5, 1.2, 3.0, x=(2, 3))
BROADCASTS = [
    random_inputs(1, 0.3, 2.0, a=(2, 3), b=(3,)),
    random_inputs(2, 0.3, 2.0, a=(3, 1), b=(2, 1, 2)),
    random_inputs(3, 0.3, 2.0, a=(), b=(2, 2)),
]
BINARY = ["Add(a, b)", "Sub(a, b)", "Mul(a, b)", "Div(a, b)", "Pow(a, b)", "Max(a, b)", "Min(a, b)", "Mean(a, b)"]
ANYWHERE = [
    *["Abs", "Cos", "Cosh", "Erf", "Exp", "Reciprocal", "Sin", "Sinh", "Tanh", "Asinh", "Atan", "Neg", "Identity"],
    *[
        "Relu",
        "LeakyRelu",
        "Elu",
        "Selu",
        "Sigmoid",
        "Softplus",
        "Softsign",
        "HardSigmoid",
        "ThresholdedRelu",
        "Shrink",
    ],
    *["Ceil", "Floor", "Round", "Sign", "Dropout"],
]
NEW = ["HardSwish(x)", "Mish(x)", "Gelu(x)", 'Gelu<approximate = "tanh">(x)', "CastLike(x, x)", "Trilu(x)"]
PARAMETERS = [
    *[
        "LeakyRelu<alpha = 0.3>",
        "Elu<alpha = 0.5>",
        "Selu<alpha = 1.1, gamma = 0.9>",
        "HardSigmoid<alpha = 0.4, beta = 0.1>",
    ],
    *["ThresholdedRelu<alpha = 0.2>", "Shrink<lambd = 0.3, bias = 0.2>"],
]


@pytest.mark.parametrize(
    ("body", "inputs", "opset", "dims"),
    every_way([(f"y = {call}", inputs) for call in BINARY for inputs in BROADCASTS], 12, 21),
)
def test_broadcast_operands(body: str, inputs: dict[str, Any], opset: int, dims: str) -> None:
    """Operands that were repeated get the sum over their repetitions, whether sizes are known or not."""
    check_gradients(body, inputs, opset=opset, dims=dims)


@pytest.mark.parametrize(
    ("body", "inputs", "opset", "dims"),
    cases(
        [
            *[(f"y = {name}(x)", X) for name in ANYWHERE],
            *[(f"y = {call}(x)", X) for call in PARAMETERS],
            *[(f"y = {name}(x)", INSIDE) for name in ("Acos", "Asin", "Atanh", "Log", "Sqrt", "Tan")],
            ("y = Acosh(x)", BESIDE),
        ],
        12,
        21,
    ),
)
def test_functions(body: str, inputs: dict[str, Any], opset: int, dims: str) -> None:
    check_gradients(body, inputs, opset=opset, dims=dims)


@pytest.mark.parametrize(("body", "inputs", "opset", "dims"), cases([(f"y = {call}", X) for call in NEW], 21))
def test_functions_of_newer_opsets(body: str, inputs: dict[str, Any], opset: int, dims: str) -> None:
    """Functions that older opsets do not have."""
    check_gradients(body, inputs, opset=opset, dims=dims)


@pytest.mark.parametrize(
    ("body", "inputs", "opset", "dims"),
    cases(
        [
            ("y = Sum(a, b, a)", BROADCASTS[0]),
            ("y = Max(a, b, b)", BROADCASTS[0]),
            ("y = Max(a)", BROADCASTS[0]),
            ("y = PRelu(a, b)", random_inputs(1, a=(2, 3), b=(3,))),
            ("y = Mod<fmod = 1>(a, b)", BROADCASTS[0]),
            ("c = Greater(a, b) y = Where(c, a, b)", BROADCASTS[1]),
            ("y = Pow(x, n)", {**X, "n": np.array([0, 1, 3], np.int64)}),
            *[(f"n = Constant<value_float = {n}.0>() m = CastLike(n, x) y = Pow(x, m)", X) for n in (0, 1, 2, 3, 4)],
        ],
        15,
        21,
    ),
)
def test_several_operands(body: str, inputs: dict[str, Any], opset: int, dims: str) -> None:
    """Any number of operands, selections by condition, whole exponents."""
    check_gradients(body, inputs, opset=opset, dims=dims)


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 4, 2.5])
def test_powers_with_constant_exponents(exponent: float) -> None:
    """The derivative of x^n, by a short way for the smallest n, is right at negative bases for whole n."""
    inputs = INSIDE if exponent == 2.5 else X
    body = f"n = Constant<value = double {{{exponent}}}>() y = Pow(x, n)"
    check_gradients(body, inputs)


@pytest.mark.parametrize("bounds", ["lo, hi", ", hi", "lo"])
def test_clip_with_bounds_as_inputs(bounds: str) -> None:
    given = {name: np.array(value) for name, value in (("lo", -0.5), ("hi", 0.7)) if name in bounds}
    for opset in (12, 21):
        check_gradients(f"y = Clip(x, {bounds})", {**X, **given}, opset=opset, dims="symbolic")


def test_clip_with_the_bounds_crossed() -> None:
    """With min above max the result is max, as the specification says: it alone gets the gradient."""
    check_gradients("y = Clip(x, lo, hi)", {**X, "lo": np.array(0.7), "hi": np.array(-0.5)})


@pytest.mark.parametrize("body", ["y = Swish<alpha = 1.5>(x)"])
def test_functions_of_opset_24(body: str) -> None:
    check_gradients(body, X, opset=24)


def test_celu_which_has_no_float64_form() -> None:
    """In float32, with the larger steps that its precision asks for."""
    body = "f = Cast<to = 1>(x) g = Celu<alpha = 0.7>(f) y = Cast<to = 11>(g)"
    check_gradients(body, X, step=1e-3, tolerance=2e-3)


def test_dropout_in_training_passes_what_the_mask_kept() -> None:
    """With a ratio of 0 everything is kept; the factor of a higher one is the forward pass's own."""
    body = "t = Constant<value = bool {1}>() y, mask = Dropout<seed = 3>(x, ratio, t)"
    for ratio in (0.0, 0.4):
        inputs = {**X, "ratio": np.array(ratio, np.float32)}
        check_gradients(body, inputs, xs=["x"])
