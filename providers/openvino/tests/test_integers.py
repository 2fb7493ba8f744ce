"""Integers that OpenVINO would compute in fewer bits than they have; the oracle is NumPy's arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx.numpy_helper
import pytest

from providers.openvino.tests.models import NAME, opened, parsed, refusals, runners

LONG = np.array([2147483647, 16777217, 123456789, -16777219, 5, -123456791], np.int32)
OTHER = np.array([16777216, 16777216, 123456788, -16777218, 3, 7], np.int32)

ONE: dict[str, Callable[[Any], Any]] = {
    "Relu": lambda a: np.maximum(a, 0),
    "ReduceMax": lambda a: a.max(keepdims=True),
    "ReduceMin": lambda a: a.min(keepdims=True),
    "ReduceSum": lambda a: a.sum(keepdims=True, dtype=np.int32),
    "ReduceL1": lambda a: np.abs(a).sum(keepdims=True, dtype=np.int32),
}
TWO: dict[str, Callable[[Any, Any], Any]] = {
    "Equal": np.equal,
    "Less": np.less,
    "LessOrEqual": np.less_equal,
    "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal,
    "Mod": np.mod,
    "Div": lambda a, b: np.trunc(a.astype(np.float64) / b).astype(np.int32),
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Max": np.maximum,
    "Min": np.minimum,
}


@pytest.mark.parametrize("op_type", sorted(ONE))
def test_functions_of_32_bits(op_type: str) -> None:
    """All bits of the result are right."""
    session = opened(f"g (int32[6] x) => (int32[n] y) {{ y = {op_type}(x) }}")
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(session.run(None, {"x": LONG})[0], ONE[op_type](LONG))


@pytest.mark.parametrize("op_type", sorted(TWO))
def test_functions_of_two_operands_of_32_bits(op_type: str) -> None:
    """All bits of the result are right, whoever computes it."""
    kind = "bool" if TWO[op_type](LONG, OTHER).dtype == bool else "int32"
    session = opened(f"g (int32[6] x, int32[6] z) => ({kind}[6] y) {{ y = {op_type}(x, z) }}")
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(session.run(None, {"x": LONG, "z": OTHER})[0], TWO[op_type](LONG, OTHER))


def test_the_refusal_says_how_many_bits_there_are() -> None:
    """The placement shows it."""
    session = opened("g (int32[6] x) => (int32[6] y) { y = Relu(x) }")
    assert "it computes integers in float32, which holds 24 bits" in refusals(session, "Relu")


@pytest.mark.parametrize("kind", ["int8", "float"])
def test_shorter_numbers_are_not_refused(kind: str) -> None:
    """They have no more bits than float32 holds."""
    session = opened(f"g ({kind}[6] x) => ({kind}[6] y) {{ y = Relu(x) }}")
    assert runners(session) == {"Relu": NAME}


@pytest.mark.parametrize(("channels", "runs"), [(57, True), (64, False)])
def test_sums_of_bytes(channels: int, *, runs: bool) -> None:
    """Convolutions of bytes whose sums float32 cannot count are left to others."""
    model = parsed(f"g (uint8[1,{channels},3,3] x) => (int32[1,2,1,1] y) {{ y = ConvInteger(x, w, a, z) }}")
    weights = np.full((2, channels, 3, 3), -127, np.int8)
    weights[0, 0, 0, 0] = -126
    for name, array in {"w": weights, "a": np.array(0, np.uint8), "z": np.array(1, np.int8)}.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    session = opened(model)
    (sums,) = session.run(None, {"x": np.full((1, channels, 3, 3), 255, np.uint8)})
    np.testing.assert_array_equal(sums.reshape(-1), 255 * (weights.astype(np.int64) - 1).sum((1, 2, 3)))
    assert (runners(session) == {"ConvInteger": NAME}) == runs


@pytest.mark.parametrize("depth", [257, 400])
def test_sums_of_bytes_in_a_matrix(depth: int) -> None:
    """Likewise for products of matrices."""
    model = parsed(f"g (uint8[3,2,2,{depth}] a) => (int32[3,2,2,5] y) {{ y = MatMulInteger(a, b, z) }}")
    b = np.full((depth, 5), 254, np.uint8)
    b[0, 0] = 253
    for name, array in {"b": b, "z": np.array(0, np.uint8)}.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    a = np.full((3, 2, 2, depth), 255, np.uint8)
    (sums,) = opened(model).run(None, {"a": a})
    np.testing.assert_array_equal(sums, a.astype(np.int64) @ b.astype(np.int64))
