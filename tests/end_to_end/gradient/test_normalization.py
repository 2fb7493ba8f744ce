"""Rules of normalisations, and operators differentiated through their functions, against central differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.end_to_end.gradient.cases import cases
from tests.end_to_end.gradient.finite_differences import check_gradients, random_inputs

X = random_inputs(3, x=(2, 3, 2))
STATISTICS = {**random_inputs(9, x=(2, 2, 2, 2), s=(2,), b=(2,), m=(2,)), **random_inputs(9, 0.3, 2.0, v=(2,))}


@pytest.mark.parametrize(
    ("body", "inputs", "opset", "dims"),
    cases(
        [
            ("y = BatchNormalization<epsilon = 0.01>(x, s, b, m, v)", STATISTICS),
            ("y = InstanceNormalization(x, s, b)", random_inputs(9, x=(2, 2, 3), s=(2,), b=(2,))),
            ("y = LpNormalization<axis = 1>(x)", X),
            ("y = LpNormalization<axis = 1, p = 1>(x)", X),
            ("y = MeanVarianceNormalization<axes = [0, 2]>(x)", X),
        ],
        12,
        21,
    ),
)
def test_normalization(body: str, inputs: dict[str, Any], opset: int, dims: str) -> None:
    """By given statistics, and by those of the data, which depend on it."""
    check_gradients(body, inputs, opset=opset, dims=dims)


def test_batch_normalization_in_training() -> None:
    """The statistics of the batch depend on the batch."""
    body = "y, rm, rv = BatchNormalization<training_mode = 1>(x, s, b, m, v)"
    check_gradients(body, STATISTICS, xs=["x", "s", "b"], dims="symbolic")


@pytest.mark.parametrize("axis", [1, -1])
def test_layer_normalization(axis: int) -> None:
    """Scale and bias broadcast to the axes that are normalised."""
    inputs = random_inputs(9, x=(2, 3, 2), s=(3, 2) if axis == 1 else (2,), b=(2,))
    for dims in ("static", "symbolic"):
        check_gradients(f"y = LayerNormalization<axis = {axis}, stash_type = 11>(x, s, b)", inputs, dims=dims)


@pytest.mark.parametrize(
    ("body", "inputs", "opset"),
    [
        ("y = RMSNormalization<stash_type = 11>(x, s)", random_inputs(9, x=(2, 3), s=(3,)), 23),
        (
            "y = GroupNormalization<num_groups = 2, stash_type = 11>(x, s, b)",
            random_inputs(9, x=(2, 4, 2), s=(4,), b=(4,)),
            21,
        ),
    ],
)
def test_functions_are_expanded(body: str, inputs: dict[str, Any], opset: int) -> None:
    """Operators without a rule are differentiated through the function that ONNX defines for them."""
    for dims in ("static", "symbolic"):
        check_gradients(body, inputs, opset=opset, dims=dims)


LABELS = {**random_inputs(1, x=(3, 3)), "t": np.array([0, 2, 2])}
LOSSES = [
    ("y = SoftmaxCrossEntropyLoss(x, t)", LABELS),
    ('y = SoftmaxCrossEntropyLoss<reduction = "none">(x, t)', LABELS),
    ("y = SoftmaxCrossEntropyLoss<ignore_index = 2>(x, t)", LABELS),
    (
        'y = NegativeLogLikelihoodLoss<reduction = "sum">(x, t)',
        {**random_inputs(1, x=(2, 3, 2)), "t": np.eye(2, dtype=int)},
    ),
]


@pytest.mark.parametrize(("body", "inputs", "opset", "dims"), cases(LOSSES, 12, 21, 13))
def test_losses(body: str, inputs: dict[str, Any], opset: int, dims: str) -> None:
    """Losses of classifiers, which are functions, too."""
    check_gradients(body, inputs, opset=opset, dims=dims)


def test_loss_with_weights_of_classes() -> None:
    """Weights do not lead to the logits; they have a derivative of their own."""
    inputs = {**LABELS, **random_inputs(2, 0.5, 1.0, w=(3,))}
    check_gradients("y = SoftmaxCrossEntropyLoss(x, t, w)", inputs)
