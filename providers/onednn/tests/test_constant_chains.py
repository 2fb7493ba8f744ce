"""Chains of constants in regions: results are those of the nodes one after the other, overflow included."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import load_from_string
from onnx.reference import ReferenceEvaluator

import ort_py as ort
from providers.onednn.tests.models import PROVIDER, model, node

_NUMBERS = np.array(
    [0, -0.0, 0.5, 1.5, 2.5, -0.5, 3, 7, 21, -21, 0.1, 1e-40, 1e-38, 3e38, -3e38, 1e30, 1e-30, 8388607.5, 65535],
    np.float32,
)
_LARGE = 12582912.0
CHAINS: list[list[tuple[str, float]]] = [
    [("Add", _LARGE), ("Sub", _LARGE)],
    [("Add", _LARGE), ("Add", 1.0), ("Sub", _LARGE)],
    [("Mul", 100.0), ("Add", _LARGE), ("Sub", _LARGE)],
    [("Mul", 3e38), ("Div", 3e38)],
    [("Mul", 1e-40), ("Mul", 1e38)],
    [("Div", 7.0), ("Mul", 7.0)],
    [("Sub", 1000.0), ("Add", 1000.0)],
    [("Mul", 1e30), ("Mul", 1e-30), ("Add", 1.0)],
    [("Mul", -1.0), ("Mul", 2.0)],
]


def _wanted(data: bytes, feeds: dict[str, Any]) -> np.ndarray[Any, Any]:
    with np.errstate(all="ignore"):
        return np.asarray(next(iter(ReferenceEvaluator(load_from_string(data)).run(None, feeds))))


@pytest.mark.parametrize("front", ["", "Conv", "MatMul", "Relu"])
@pytest.mark.parametrize("chain", CHAINS, ids=str)
def test_chains_are_computed_as_they_stand(chain: list[tuple[str, float]], front: str) -> None:
    """Alone and behind an operator that takes functions into its own primitive."""
    if chain[0] == ("Div", 7.0) and front in ("Conv", "MatMul"):
        chain = [("Abs", 0.0), *chain]  # else it goes into the weights
    shapes: dict[str, tuple[int, ...]] = {"Conv": (-1, 1, 1, 1), "MatMul": (-1, 1)}
    shape = shapes.get(front, (-1,))
    ones: np.ndarray[Any, Any] = np.ones((1,) * len(shape), np.float32)
    nodes = [node(front, "x w" if len(shape) > 1 else "x", "s")] if front else []
    value = "s" if front else "x"
    constants: dict[str, Any] = {"w": ones} if len(shape) > 1 else {}
    for number, (name, constant) in enumerate(chain):
        result = "y" if number == len(chain) - 1 else f"t{number}"
        nodes.append(node(name, value if name == "Abs" else f"{value} c{number}", result))
        if name != "Abs":
            constants[f"c{number}"] = np.float32(constant)
        value = result
    feeds = {"x": _NUMBERS.reshape(shape)}
    data = model(nodes, feeds, constants)
    with ort.InferenceSession(
        data, providers=[PROVIDER, "CPUExecutionProvider"], provider_options=[{"claim_small": True}, {}]
    ) as session:
        assert PROVIDER in session.placement.counts()
        (found,) = session.run(None, feeds)
    np.testing.assert_array_equal(found, _wanted(data, feeds))


@pytest.mark.parametrize("name", ["Abs", "Mul", "Neg", "Relu"])
def test_zeroes_keep_their_sign(name: str) -> None:
    """A product with a constant is not a sum with zero, which would make both zeros positive; Relu gives either."""
    x = np.array([0.0, -0.0] * 8, np.float32)
    constants: dict[str, Any] = {"c": np.float32(-3)} if name == "Mul" else {}
    inputs = " ".join(["x", *constants])
    data = model([node(name, inputs, "y")], {"x": x}, constants)
    with ort.InferenceSession(
        data, providers=[PROVIDER, "CPUExecutionProvider"], provider_options=[{"claim_small": True}, {}]
    ) as session:
        (found,) = session.run(None, {"x": x})
    if name != "Relu":
        np.testing.assert_array_equal(np.signbit(found), np.signbit(_wanted(data, {"x": x})))
    np.testing.assert_array_equal(found, np.zeros(16))


def test_a_gate_with_a_summand_is_no_swish() -> None:
    """x · (σ(x) + z): what the gate adds belongs to it."""
    x, z = np.linspace(-3, 3, 32, dtype=np.float32), np.linspace(1, 2, 32, dtype=np.float32)
    data = model([node("Sigmoid", "x", "s"), node("Add", "s z", "g"), node("Mul", "x g", "y")], {"x": x, "z": z})
    with ort.InferenceSession(
        data, providers=[PROVIDER, "CPUExecutionProvider"], provider_options=[{"claim_small": True}, {}]
    ) as session:
        (found,) = session.run(None, {"x": x, "z": z})
    np.testing.assert_allclose(found, _wanted(data, {"x": x, "z": z}), rtol=1e-5)
