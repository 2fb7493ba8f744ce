"""Values that are read again after something was made of them: gates, residuals and sums of parts and of quantised
values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ort_py_kit.tolerances import assert_close
from providers.onednn.tests.models import model, node, run_here, run_plain

Made = tuple[list[Any], dict[str, np.ndarray[Any, Any]], dict[str, np.ndarray[Any, Any]]]
"""Nodes that make ``b`` and perhaps ``a``, feeds, constants."""

FUNCTIONS: dict[str, dict[str, Any]] = {
    "Relu": {},
    "Sigmoid": {},
    "Tanh": {},
    "Gelu": {},
    "LeakyRelu": {"alpha": 0.3},
    "HardSwish": {},
    "Softmax": {"axis": 1},
}


def _f(*shape: int, draw: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(draw).standard_normal(shape).astype(np.float32)


def _split(axis: int) -> Made:
    shape = [8 if place == axis else 4 for place in range(4)]
    return [node("Split", "x", "a b", axis=axis, num_outputs=2)], {"x": _f(*shape)}, {}


def _sliced(step: int) -> Made:
    constants = {"s": np.array([1]), "e": np.array([9]), "n": np.array([3]), "t": np.array([step])}
    return [node("Slice", "x s e n t", "b")], {"x": _f(2, 4, 3, 10)}, constants


def _transposed() -> Made:
    return [node("Transpose", "x", "b", perm=[0, 2, 3, 1])], {"x": _f(2, 4, 3, 5)}, {}


def _joined() -> Made:
    return [node("Concat", "x v", "b", axis=1)], {"x": _f(2, 4, 3, 5), "v": _f(2, 3, 3, 5, draw=1)}, {}


def _convolved() -> Made:
    return [node("Conv", "x w", "b", pads=[1, 1, 1, 1])], {"x": _f(2, 16, 6, 6)}, {"w": _f(16, 16, 3, 3, draw=1) / 9}


def _normalised() -> Made:
    return [node("LayerNormalization", "x g", "b")], {"x": _f(2, 3, 4, 16)}, {"g": _f(16, draw=1)}


def _dequantised(kind: Any, zero: int, scale: float = 0.03) -> Made:
    low, high = np.iinfo(kind).min, np.iinfo(kind).max
    integers = np.random.default_rng(3).integers(low, high + 1, (2, 4, 6, 6)).astype(kind)
    constants = {"scale": np.array(scale, np.float32), "zero": np.array(zero, kind)}
    return [node("DequantizeLinear", "x scale zero", "b")], {"x": integers}, constants


def _dequantised_parts() -> Made:
    nodes, feeds, constants = _dequantised(np.uint8, 120)
    nodes[0].output[0] = "whole"
    return [*nodes, node("Split", "whole", "a b", axis=1, num_outputs=2)], feeds, constants


def _dequantised_and_joined() -> Made:
    nodes, feeds, constants = _dequantised(np.int8, -3)
    nodes[0].output[0] = "one"
    return [*nodes, node("Concat", "one one", "b", axis=1)], feeds, constants


SOURCES = {
    "split of channels": _split(1),
    "split of the batch": _split(0),
    "split of columns": _split(3),
    "slice": _sliced(1),
    "slice with a step": _sliced(2),
    "transposed": _transposed(),
    "joined": _joined(),
    "convolution": _convolved(),
    "normalisation": _normalised(),
    "uint8": _dequantised(np.uint8, 120),
    "int8": _dequantised(np.int8, 5),
    "int8 of zero 0": _dequantised(np.int8, 0),
    "parts of uint8": _dequantised_parts(),
    "joined int8": _dequantised_and_joined(),
}


@pytest.mark.parametrize("source", sorted(SOURCES))
@pytest.mark.parametrize("function", sorted(FUNCTIONS))
def test_a_value_and_a_function_of_it(source: str, function: str) -> None:
    """In either order, with another reader of the value, of both or of the result, or without one."""
    nodes, feeds, constants = SOURCES[source]
    for op_type in ("Add", "Mul", "Sub"):
        for first, second in (("b", "f"), ("f", "b")):
            for extra in ([], [node("Tanh", "b", "z")], [node("Mul", "f b", "z")], [node("Add", "y b", "z")]):
                made = [
                    *nodes,
                    node(function, "b", "f", **FUNCTIONS[function]),
                    node(op_type, f"{first} {second}", "y"),
                ]
                data = model([*made, *extra], feeds, constants, ("y", "z") if extra else ("y",))
                context = f"{op_type} {first} {second} {[one.op_type for one in extra]}"
                assert_close(run_here(data, feeds), run_plain(data, feeds), context=context)


@pytest.mark.parametrize("source", sorted(SOURCES))
@pytest.mark.parametrize("exponent", [0.5, 2.0, 3.0])
def test_powers(source: str, exponent: float) -> None:
    """The optimiser writes a cube as a square times the value."""
    nodes, feeds, constants = SOURCES[source]
    made = [*nodes, node("Abs", "b", "p"), node("Pow", "p power", "q"), node("Mul", "q b", "y")]
    data = model(made, feeds, {**constants, "power": np.array(exponent, np.float32)})
    assert_close(run_here(data, feeds), run_plain(data, feeds))


@pytest.mark.parametrize("kind", [np.uint8, np.int8])
def test_a_chain_of_sums_of_one_quantised_value(kind: type) -> None:
    """Each sum is a number of its own, whatever type its first operand was held in."""
    nodes, feeds, constants = _dequantised(kind, 7)
    chain = [node("Relu", "b", "r"), node("Add", "b r", "s"), node("Add", "s b", "t"), node("Tanh", "t", "u")]
    data = model([*nodes, *chain, node("Add", "u b", "y")], feeds, constants)
    assert_close(run_here(data, feeds), run_plain(data, feeds))
