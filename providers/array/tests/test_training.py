"""Optimiser steps against the specification's formulas written out, for several tensors, types and counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ort_py.errors import InvalidArgument
from ort_py_kit.tolerances import assert_close

from .oracle import run, sample

DOMAIN = "ai.onnx.preview.training"
ADAGRAD = {"decay_factor": 0.1, "epsilon": 1e-5, "norm_coefficient": 0.01}
ADAM = {"alpha": 0.9, "beta": 0.99, "epsilon": 1e-5, "norm_coefficient": 0.01, "norm_coefficient_post": 0.02}
MOMENTUM = {"alpha": 0.9, "beta": 0.3, "norm_coefficient": 0.01, "mode": "standard"}


def adagrad(r: float, t: int, x: Any, g: Any, h: Any) -> tuple[Any, ...]:
    """The pseudo code of the operator's documentation."""
    g = ADAGRAD["norm_coefficient"] * x + g
    h = h + g * g
    return x - r / (1 + t * ADAGRAD["decay_factor"]) * g / (np.sqrt(h) + ADAGRAD["epsilon"]), h


def adam(r: float, t: int, x: Any, g: Any, v: Any, h: Any) -> tuple[Any, ...]:
    """The pseudo code of the operator's documentation."""
    g = ADAM["norm_coefficient"] * x + g
    v = ADAM["alpha"] * v + (1 - ADAM["alpha"]) * g
    h = ADAM["beta"] * h + (1 - ADAM["beta"]) * g * g
    rate = r * np.sqrt(1 - ADAM["beta"] ** t) / (1 - ADAM["alpha"] ** t) if t > 0 else r
    return (1 - ADAM["norm_coefficient_post"]) * (x - rate * v / (np.sqrt(h) + ADAM["epsilon"])), v, h


def momentum(r: float, t: int, x: Any, g: Any, v: Any, nesterov: bool = False) -> tuple[Any, ...]:
    """The pseudo code of the operator's documentation."""
    g = 0.01 * x + g
    v = 0.9 * v + (0.3 if t > 0 else 1) * g
    return x - r * (g + 0.9 * v if nesterov else v), v


def nesterov(r: float, t: int, x: Any, g: Any, v: Any) -> tuple[Any, ...]:
    """`momentum` in Nesterov's form."""
    return momentum(r, t, x, g, v, nesterov=True)


STEPS: list[tuple[str, dict[str, Any], Callable[..., tuple[Any, ...]], int]] = [
    ("Adagrad", ADAGRAD, adagrad, 3),
    ("Adam", ADAM, adam, 4),
    ("Momentum", MOMENTUM, momentum, 3),
    ("Momentum", {**MOMENTUM, "mode": "nesterov"}, nesterov, 3),
]
each = pytest.mark.parametrize(("op_type", "attributes", "formula", "group"), STEPS, ids=[s[2].__name__ for s in STEPS])


def grouped(shapes: list[tuple[int, ...]], group: int, dtype: Any = np.float64) -> list[list[Any]]:
    """For every tensor its group: itself, gradient, state; the state is not negative."""
    return [
        [sample(shape, dtype, 10 * i + part, 0.1 if part > 1 else -2, 2) for part in range(group)]
        for i, shape in enumerate(shapes)
    ]


def stepped(op_type: str, r: Any, t: int, groups: list[list[Any]], attributes: dict[str, Any]) -> list[Any]:
    """Run the operator: all tensors, then all gradients, then all of each state."""
    values = [group[part] for part in range(len(groups[0])) for group in groups]
    count = len(groups) * (len(groups[0]) - 1)
    return run(op_type, [np.asarray(r), np.array(t), *values], domain=DOMAIN, opset=1, outputs=count, **attributes)


@each
@settings(max_examples=20, deadline=None, derandomize=True)
@given(
    shapes=st.lists(st.lists(st.integers(0, 4), max_size=3).map(tuple), min_size=1, max_size=3),
    count=st.integers(0, 5),
)
def test_the_formulas(
    op_type: str,
    attributes: dict[str, Any],
    formula: Callable[..., tuple[Any, ...]],
    group: int,
    shapes: list[tuple[int, ...]],
    count: int,
) -> None:
    """Any number of tensors of any shape, scalars and empty ones too, at the first step and later."""
    groups = grouped(shapes, group)
    actual = stepped(op_type, 0.1, count, groups, attributes)
    expected = [formula(0.1, count, *values) for values in groups]
    for index, result in enumerate(actual):
        part, which = divmod(index, len(groups))
        assert_close(result, np.asarray(expected[which][part]))


@each
def test_float_and_double_side_by_side(
    op_type: str, attributes: dict[str, Any], formula: Callable[..., tuple[Any, ...]], group: int
) -> None:
    """Each tensor keeps its own type, whatever that of the learning rate."""
    groups = [grouped([(3,)], group, dtype)[0] for dtype in (np.float32, np.float64)]
    actual = stepped(op_type, np.float32(0.1), 2, groups, attributes)
    for index, result in enumerate(actual):
        part, which = divmod(index, 2)
        values = [value.astype(np.float64) for value in groups[which]]
        assert_close(result, formula(float(np.float32(0.1)), 2, *values)[part].astype(groups[which][0].dtype))


@each
def test_large_tensors_are_cut_into_blocks(
    op_type: str, attributes: dict[str, Any], formula: Callable[..., tuple[Any, ...]], group: int
) -> None:
    """Blocks give what all gives at once, and the inputs are left alone."""
    groups = grouped([(7, 20_000)], group)
    before = [value.copy() for value in groups[0]]
    actual = stepped(op_type, 0.1, 3, groups, attributes)
    for result, expected in zip(actual, formula(0.1, 3, *before), strict=True):
        assert_close(result, expected)
    for value, copy in zip(groups[0], before, strict=True):
        np.testing.assert_array_equal(value, copy)


@each
def test_a_gradient_may_broadcast(
    op_type: str, attributes: dict[str, Any], formula: Callable[..., tuple[Any, ...]], group: int
) -> None:
    """The specification's arithmetic broadcasts as NumPy's does, as long as the tensor keeps its shape."""
    (values,) = grouped([(2, 3)], group)
    values[1] = np.array(0.5)
    for result, expected in zip(stepped(op_type, 0.1, 1, [values], attributes), formula(0.1, 1, *values), strict=True):
        assert_close(result, expected)


def test_defaults() -> None:
    """Adagrad's and Adam's attributes have the schema's defaults, which are float32: no decay, no regularisation."""
    alpha, beta, epsilon = (float(np.float32(number)) for number in (0.9, 0.999, 1e-6))
    x, g, v, h = (np.array([value]) for value in (1.0, 2.0, 3.0, 4.0))
    new, total = run("Adagrad", [np.array(0.1), np.array(5), x, g, h], domain=DOMAIN, opset=1, outputs=2)
    assert total == 8
    assert_close(new, 1 - 0.1 * g / (np.sqrt([8.0]) + epsilon))
    new, mean, square = run("Adam", [np.array(0.1), np.array(0), x, g, v, h], domain=DOMAIN, opset=1, outputs=3)
    assert_close(mean, np.array([alpha * 3 + (1 - alpha) * 2]))
    assert_close(square, np.array([beta * 4 + (1 - beta) * 4]))
    assert_close(new, 1 - 0.1 * mean / (np.sqrt(square) + epsilon))


@pytest.mark.parametrize(
    ("op_type", "count", "attributes"),
    [("Adagrad", 4, ADAGRAD), ("Adam", 3, ADAM), ("Momentum", 5, MOMENTUM)],
)
def test_incomplete_groups(op_type: str, count: int, attributes: dict[str, Any]) -> None:
    """Every tensor brings its gradient and state."""
    values = [np.ones(2)] * count
    with pytest.raises(InvalidArgument, match=f"{op_type} has {count} tensors") as caught:
        run(op_type, [np.array(0.1), np.array(0), *values], domain=DOMAIN, opset=1, outputs=2, **attributes)
    assert "Each optimised tensor brings" in caught.value.fix


@pytest.mark.parametrize(
    ("shapes", "text"),
    [(((3,), (2, 3), (3,)), "The tensors of one group have the shapes"), (((3,), (2,), (3,)), "cannot be broadcast")],
)
def test_shapes_that_do_not_fit(shapes: tuple[tuple[int, ...], ...], text: str) -> None:
    """A gradient may not make the tensor larger, and must broadcast to it."""
    values = [np.ones(shape) for shape in shapes]
    with pytest.raises(InvalidArgument, match=text) as caught:
        run("Adagrad", [np.array(0.1), np.array(0), *values], domain=DOMAIN, opset=1, outputs=2, **ADAGRAD)
    assert caught.value.fix


@pytest.mark.parametrize("name", ["R", "T"])
def test_rate_and_count_are_scalars(name: str) -> None:
    """A list in place of one number is refused by name."""
    head = [np.array([0.1, 0.2]) if name == "R" else np.array(0.1), np.array([1, 2]) if name == "T" else np.array(1)]
    with pytest.raises(InvalidArgument, match=rf"{name} has the shape \[2\]"):
        run("Adagrad", [*head, *[np.ones(2)] * 3], domain=DOMAIN, opset=1, outputs=2, **ADAGRAD)


def test_unknown_mode() -> None:
    values = [np.ones(2)] * 3
    with pytest.raises(InvalidArgument, match="mode is 'heavy'") as caught:
        run(
            "Momentum",
            [np.array(0.1), np.array(0), *values],
            domain=DOMAIN,
            opset=1,
            outputs=2,
            **{**MOMENTUM, "mode": "heavy"},
        )
    assert "nesterov" in caught.value.fix
