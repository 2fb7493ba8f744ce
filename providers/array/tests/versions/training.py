"""Rows of the optimisers of ai.onnx.preview.training: one step for several tensors, by the specification's formulas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .row import Draw, Given, Row, as_type, wide

__all__ = ["ROWS"]

_Step = Callable[[dict[str, Any], float, int, list[Any]], list[Any]]
"""``f(attributes, rate, count, [x, gradient, *state])`` → ``[new x, *new state]``."""


def _optimiser(step: _Step, states: int, **attributes: tuple[Any, ...]) -> Callable[[Draw], Given]:
    """Values, gradients and states of one to three tensors, in this order; states begin above 0."""

    def draw(d: Draw) -> Given:
        shapes = [d.shape() for _ in range(d.integer(1, 3))]
        groups = [
            [d.array(shape, special=False, low=0.5 if place >= 2 else -4.0) for shape in shapes]
            for place in range(2 + states)
        ]
        rate, count = np.array(0.125, d.other("T1")), d.integer(0, 3)
        chosen = {name: d.pick(values) for name, values in attributes.items()}
        made = [step(chosen, 0.125, count, [wide(one) for one in tensors]) for tensors in zip(*groups, strict=True)]
        inputs = [rate, np.array(count, np.int64), *(one for group in groups for one in group)]
        expected = [as_type(one, d.dtype) for group in zip(*made, strict=True) for one in group]
        return Given(inputs, chosen, expected, outputs=len(expected))

    return draw


def _adagrad(a: dict[str, Any], rate: float, count: int, tensors: list[Any]) -> list[Any]:
    x, gradient, squares = tensors
    gradient = gradient + a["norm_coefficient"] * x
    squares = squares + gradient**2
    return [x - rate / (1 + count * a["decay_factor"]) * gradient / (np.sqrt(squares) + a["epsilon"]), squares]


def _adam(a: dict[str, Any], rate: float, count: int, tensors: list[Any]) -> list[Any]:
    x, gradient, average, squares = tensors
    gradient = gradient + a["norm_coefficient"] * x
    average = a["alpha"] * average + (1 - a["alpha"]) * gradient
    squares = a["beta"] * squares + (1 - a["beta"]) * gradient**2
    if count > 0:
        rate = rate * np.sqrt(1 - a["beta"] ** count) / (1 - a["alpha"] ** count)
    x = x - rate * average / (np.sqrt(squares) + a["epsilon"])
    return [(1 - a["norm_coefficient_post"]) * x, average, squares]


def _momentum(a: dict[str, Any], rate: float, count: int, tensors: list[Any]) -> list[Any]:
    x, gradient, average = tensors
    gradient = gradient + a["norm_coefficient"] * x
    average = a["alpha"] * average + (a["beta"] if count > 0 else 1) * gradient
    return [x - rate * (gradient + a["alpha"] * average if a["mode"] == "nesterov" else average), average]


_SHARES = (0.5, 0.75)
_SMALL = (0.0, 0.25)


def _row(op_type: str, draw: Callable[[Draw], Given]) -> Row:
    return Row(op_type, draw, domain="ai.onnx.preview.training", variable="T3")


ROWS = [
    _row("Adagrad", _optimiser(_adagrad, 1, norm_coefficient=_SMALL, decay_factor=_SMALL, epsilon=_SMALL)),
    _row(
        "Adam",
        _optimiser(
            _adam,
            2,
            alpha=_SHARES,
            beta=_SHARES,
            norm_coefficient=_SMALL,
            norm_coefficient_post=_SMALL,
            epsilon=_SMALL,
        ),
    ),
    _row(
        "Momentum",
        _optimiser(_momentum, 1, alpha=_SHARES, beta=_SHARES, norm_coefficient=_SMALL, mode=("standard", "nesterov")),
    ),
]
