"""Functions whose results are near zero: how far they may be from the exact result, and Softplus, which is exact."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from providers.onednn.tests.models import model, node, open_session, run_here

Array = np.ndarray[Any, Any]

EXACT: dict[str, Callable[[float], float]] = {
    "Celu": lambda x: math.expm1(x) if x < 0 else x,
    "Elu": lambda x: math.expm1(x) if x < 0 else x,
    "Gelu": lambda x: x * math.erfc(-x / math.sqrt(2)) / 2,
    "Mish": lambda x: x * math.tanh(math.log1p(math.exp(x))),
    "Selu": lambda x: 1.0507009873554805 * (x if x > 0 else 1.6732632423543772 * math.expm1(x)),
    "Sigmoid": lambda x: 1 / (1 + math.exp(-x)),
    "Tanh": math.tanh,
}


def _inputs() -> Array:
    sizes = np.logspace(-8, 1.9, 500)
    return np.concatenate([-sizes, sizes]).astype(np.float32)[:, None]


def _exact(function: Callable[[float], float], x: Array) -> Array:
    return np.array([function(number) for number in x.ravel().tolist()])[:, None]


@pytest.mark.parametrize("op_type", sorted(EXACT))
def test_functions_lose_little_near_zero(op_type: str) -> None:
    """A region's result differs by at most 1.2e-6, or by 1e-6 of its size."""
    x = _inputs()
    data = model([node("MatMul", "x w", "a"), node(op_type, "a", "y")], {"x": x}, {"w": np.ones((1, 1), np.float32)})
    (found,) = run_here(data, {"x": x})
    np.testing.assert_allclose(found, _exact(EXACT[op_type], x), rtol=1e-6, atol=1.2e-6)


def test_softplus_keeps_the_digits_of_small_results() -> None:
    """oneDNN's gives 7.6e-6 for -64, so the logarithm of the result would be -11.8: kernels compute it."""
    x = _inputs()[:500]
    nodes = [node("MatMul", "x w", "a"), node("Softplus", "a", "b"), node("Log", "b", "y")]
    data = model(nodes, {"x": x}, {"w": np.ones((1, 1), np.float32)})
    with open_session(data) as session:
        (found,) = session.run(None, {"x": x})
    exact = _exact(lambda number: math.log(math.log1p(math.exp(number))), x)
    np.testing.assert_allclose(found, exact, rtol=1e-6, atol=1e-6)
