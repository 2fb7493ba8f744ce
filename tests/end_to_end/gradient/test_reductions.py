"""Rules of reductions and of Softmax, first and second derivatives, against central differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.end_to_end.gradient.cases import cases
from tests.end_to_end.gradient.finite_differences import check_gradients, random_inputs

X = random_inputs(4, 0.2, 0.9, x=(2, 3, 2))
SIGNED = random_inputs(5, x=(2, 3, 2))
NAMES = ["Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "LogSum", "LogSumExp", "SumSquare"]


@pytest.mark.parametrize(
    ("body", "inputs", "opset", "dims"),
    cases([(f"y = Reduce{name}<keepdims = {keep}>(x)", X) for name in NAMES for keep in (0, 1)], 12, 21),
)
def test_over_all_axes(body: str, inputs: dict[str, Any], opset: int, dims: str) -> None:
    check_gradients(body, inputs, opset=opset, dims=dims)


@pytest.mark.parametrize(
    ("body", "inputs", "opset", "dims"),
    cases([(f"y = Reduce{name}<axes = [0, -1], keepdims = {keep}>(x)", X) for name in NAMES for keep in (0, 1)], 12),
)
def test_over_axes_by_attribute(body: str, inputs: dict[str, Any], opset: int, dims: str) -> None:
    """Axes as an attribute, negative ones too."""
    check_gradients(body, inputs, opset=opset, dims=dims)


@pytest.mark.parametrize(
    ("body", "inputs", "opset", "dims"),
    cases(
        [
            *[
                (f"y = Reduce{name}<keepdims = {keep}>(x, k)", {**X, "k": np.array([1])})
                for name in NAMES
                for keep in (0, 1)
            ],
            *[(f"k = Constant<value_ints = [-2]>() y = Reduce{name}<keepdims = 0>(x, k)", X) for name in NAMES],
        ],
        18,
        21,
    ),
)
def test_over_axes_by_input(body: str, inputs: dict[str, Any], opset: int, dims: str) -> None:
    """Axes as an input, constant or computed by the model."""
    check_gradients(body, inputs, opset=opset, dims=dims)


@pytest.mark.parametrize("name", ["Sum", "Mean", "L1", "LogSumExp", "SumSquare", "Max", "Prod"])
def test_no_axes_that_mean_none(name: str) -> None:
    check_gradients(f"y = Reduce{name}<noop_with_empty_axes = 1>(x)", X, opset=18)


def test_product_with_zeros() -> None:
    """One zero leaves its own derivative, two leave none; first derivatives only, as the rule says."""
    point = {"x": np.array([[2.0, 0.0, 3.0], [0.0, 0.0, 3.0], [2.0, 1.5, 3.0]])}
    check_gradients("y = ReduceProd<keepdims = 0>(x, k)", {**point, "k": np.array([1])}, second=False)


@pytest.mark.parametrize(
    ("body", "inputs", "opset", "dims"),
    cases(
        [
            *[(f"y = {name}<axis = {axis}>(x)", SIGNED) for name in ("Softmax", "LogSoftmax") for axis in (0, 1, -1)],
            *[(f"y = {name}(x)", SIGNED) for name in ("Softmax", "LogSoftmax", "Hardmax")],
        ],
        12,
        21,
    ),
)
def test_softmax(body: str, inputs: dict[str, Any], opset: int, dims: str) -> None:
    """Along an axis, and before opset 13 over all axes from it on."""
    check_gradients(body, inputs, opset=opset, dims=dims)


@pytest.mark.parametrize("attributes", ["", "<exclusive = 1>", "<reverse = 1>", "<exclusive = 1, reverse = 1>"])
def test_running_sums(attributes: str) -> None:
    """From either end, with or without the element itself."""
    check_gradients(f"k = Constant<value_int = 1>() y = CumSum{attributes}(x, k)", X, opset=14, dims="symbolic")
