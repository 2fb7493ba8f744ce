"""Quantised products on CPUs without VNNI: sums of bytes in code of our own, and where it is left to float32."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import pytest
from onnx import NodeProto, TensorProto

from ort_py_kit.tolerances import assert_close
from ort_py_onednn.binding.engine import engine
from ort_py_onednn.binding.integer_windows import has_window_sums
from ort_py_onednn.graph.operation import Operation
from ort_py_onednn.lowering import integer_windows
from ort_py_onednn.lowering.planner import Planner
from ort_py_onednn.lowering.table import LOWERINGS
from providers.onednn.tests.models import model, node, run_here

Array: TypeAlias = np.ndarray[Any, Any]
Arrays: TypeAlias = dict[str, Array]


@pytest.fixture(autouse=True)
def summed(monkeypatch: pytest.MonkeyPatch) -> list[Operation]:
    """The products that are computed so."""
    if not has_window_sums(engine().library):
        pytest.skip("the CPU has VNNI, AVX-512 or no AVX2, or the system allows no executable memory")
    seen: list[Operation] = []

    def noted(planner: Planner, operation: Operation) -> None:
        seen.append(operation)
        integer_windows.window_sums(planner, operation)

    monkeypatch.setitem(LOWERINGS, "WindowSums", noted)
    return seen


class _Model:
    """Nodes and constants; scales are powers of two, so that real numbers are exact."""

    def __init__(self) -> None:
        self.nodes: list[NodeProto] = []
        self.constants: Arrays = {}

    def converted(self, name: str, kind: str, zero: int, scale: float = 2.0**-4) -> str:
        """Quantised, and turned back."""
        self.constants |= {f"{name}_s": np.array(scale, np.float32), f"{name}_z": np.array(zero, kind)}
        numbers = f"{name}_s {name}_z"
        self.nodes.append(node("QuantizeLinear", f"{name} {numbers}", f"{name}_q"))
        self.nodes.append(node("DequantizeLinear", f"{name}_q {numbers}", f"{name}_d"))
        return f"{name}_d"

    def weights(self, name: str, array: Array, axis: int = 0) -> str:
        """Constant int8 with a scale for each output."""
        scales = (2.0 ** -(np.arange(array.shape[axis]) % 3 + 5)).astype(np.float32)
        self.constants |= {name: array, f"{name}_s": scales}
        self.nodes.append(node("DequantizeLinear", f"{name} {name}_s", f"{name}_d", axis=axis))
        return f"{name}_d"

    def run(self, feeds: Arrays, output: str, kind: int, threads: int = 2, *, dynamic: bool = False) -> Array:
        data = model(self.nodes, feeds, self.constants, (output,), kind=kind, dynamic=dynamic)
        return np.asarray(run_here(data, feeds, threads)[0])


def _real(x: Array, kind: str, zero: int, scale: float = 2.0**-4) -> Array:
    """Numbers behind a conversion and back, float64."""
    real: Array = (_bytes(x, kind, zero, scale).astype(np.float64) - zero) * scale
    return real


def _bytes(x: Array, kind: str, zero: int, scale: float = 2.0**-4) -> Array:
    limits = np.iinfo(kind)
    rounded: Array = np.rint(np.asarray(x, np.float64) / scale) + zero
    return np.asarray(rounded.clip(limits.min, limits.max).astype(kind))


def _weights(rng: np.random.Generator, *shape: int, axis: int = 0) -> tuple[Array, Array]:
    """Bytes, and the numbers that they stand for."""
    array = rng.integers(-128, 127, shape, endpoint=True).astype(np.int8)
    scales = 2.0 ** -(np.arange(shape[axis]) % 3 + 5)
    spread = [1] * len(shape)
    spread[axis] = shape[axis]
    real: Array = array * scales.reshape(spread)
    return array, real


def _convolved(x: Array, w: Array, stride: int, pad: int) -> Array:
    x = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], (2, 3))[:, :, ::stride, ::stride]
    return np.asarray(np.einsum("nchwij,ocij->nohw", windows, w))


@pytest.mark.parametrize("channels", [3, 8])
@pytest.mark.parametrize("kinds", [("uint8", "int8"), ("int8", "uint8")])
@pytest.mark.parametrize("function", ["", "Relu", "Sigmoid"])
def test_convolutions(summed: list[Operation], channels: int, kinds: tuple[str, str], function: str) -> None:
    """Zero points, scales of channels, a bias, and what is part of the code or not."""
    rng = np.random.default_rng(channels)
    x = rng.standard_normal((2, channels, 9, 8)).astype(np.float32) * 4
    array, real = _weights(rng, 16, channels, 3, 3)
    bias = rng.integers(-8, 8, 16) / 4
    made = _Model()
    made.constants["b"] = bias.astype(np.float32)
    inputs = f"{made.converted('x', kinds[0], 5)} {made.weights('w', array)} b"
    made.nodes.append(node("Conv", inputs, "c", pads=[1] * 4, strides=[2, 2]))
    if function:
        made.nodes.append(node(function, "c", "f"))
    name = "f" if function else "c"
    made.converted(name, kinds[1], -3 if kinds[1] == "int8" else 7, 0.25)
    exact = _convolved(_real(x, kinds[0], 5), real, 2, 1) + bias[:, None, None]
    if function == "Relu":
        exact = np.maximum(exact, 0)
    elif function:
        exact = 1 / (1 + np.exp(-exact))
    found = made.run({"x": x}, f"{name}_q", TensorProto.UINT8 if kinds[1] == "uint8" else TensorProto.INT8)
    np.testing.assert_array_equal(found, _bytes(exact, kinds[1], -3 if kinds[1] == "int8" else 7, 0.25))
    assert summed


@pytest.mark.parametrize("rows", [(1,), (7,), (2, 3), (2, 1, 5)])
@pytest.mark.parametrize("transposed", [False, True])
def test_products_of_matrices(summed: list[Operation], rows: tuple[int, ...], transposed: bool) -> None:
    """MatMul of any rank, Gemm of two dimensions."""
    if transposed and len(rows) > 1:
        rows = rows[-1:]
    rng = np.random.default_rng(len(rows))
    x = rng.standard_normal((*rows, 20)).astype(np.float32) * 4
    axis = 0 if transposed else 1
    array, real = _weights(rng, *((24, 20) if transposed else (20, 24)), axis=axis)
    made = _Model()
    inputs = f"{made.converted('x', 'uint8', 100)} {made.weights('w', array, axis)}"
    made.nodes.append(node("Gemm", inputs, "y", transB=1) if transposed else node("MatMul", inputs, "y"))
    exact = _real(x, "uint8", 100) @ (real.T if transposed else real)
    np.testing.assert_array_equal(made.run({"x": x}, "y", TensorProto.FLOAT), exact.astype(np.float32))
    assert summed


def test_residuals_keep_each_rounding(summed: list[Operation]) -> None:
    rng = np.random.default_rng(4)
    x = rng.standard_normal((1, 8, 6, 6)).astype(np.float32) * 4
    array, real = _weights(rng, 8, 8, 1, 1)
    made = _Model()
    start = made.converted("x", "uint8", 128)
    made.nodes.append(node("Conv", f"{start} {made.weights('w', array)}", "c"))
    made.nodes.append(node("Add", f"{made.converted('c', 'int8', 2, 0.5)} {start}", "a"))
    made.nodes.append(node("Relu", "a", "r"))
    made.converted("r", "uint8", 0, 0.5)
    first = _real(x, "uint8", 128)
    exact = np.maximum(_real(_convolved(first, real, 1, 0), "int8", 2, 0.5) + first, 0)
    found = made.run({"x": x}, "r_q", TensorProto.UINT8)
    np.testing.assert_array_equal(found, _bytes(exact, "uint8", 0, 0.5))
    assert summed


def test_other_shapes_read_the_same_weights() -> None:
    rng = np.random.default_rng(5)
    array, real = _weights(rng, 8, 4, 3, 3)
    for height in (3, 11, 5):
        x = rng.standard_normal((1, 4, height, 7)).astype(np.float32)
        made = _Model()
        made.nodes.append(node("Conv", f"{made.converted('x', 'int8', 0)} {made.weights('w', array)}", "y"))
        found = made.run({"x": x}, "y", TensorProto.FLOAT, dynamic=True)
        np.testing.assert_array_equal(found, _convolved(_real(x, "int8", 0), real, 1, 0).astype(np.float32))


@pytest.mark.parametrize("kind", ["uint8", "int8"])
@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("zero", [0, 3, 128])
def test_whole_sums(summed: list[Operation], kind: str, given: bool, zero: int) -> None:
    """MatMulInteger and ConvInteger give the sums, with a zero point that is known in the run or not."""
    rng = np.random.default_rng(zero)
    limits = np.iinfo(kind)
    x = rng.integers(limits.min, limits.max, (2, 8, 5, 8), endpoint=True).astype(kind)
    held = "uint8" if zero == 128 else "int8"
    w = (rng.integers(-128, 125, (16, 8, 3, 3)) + zero).astype(held)
    middle = np.array(limits.max - 5, kind)
    feeds: Arrays = {"x": x} | ({"z": middle} if given else {})
    made = _Model()
    made.constants |= {"w": w, "m": w[:8, :, 0, 0].copy(), "wz": np.array(zero, held)} | (
        {} if given else {"z": middle}
    )
    made.nodes.append(node("ConvInteger", "x w z wz", "y", pads=[1, 0, 0, 2]))
    padded = np.pad(x.astype(np.int64) - middle, ((0, 0), (0, 0), (1, 0), (0, 2)))
    found = made.run(feeds, "y", TensorProto.INT32)
    np.testing.assert_array_equal(found, _convolved(padded, w.astype(np.int64) - zero, 1, 0))
    made.nodes[0] = node("MatMulInteger", "x m z wz", "y")
    exact = (x.astype(np.int64) - middle) @ (w[:8, :, 0, 0].astype(np.int64) - zero)
    np.testing.assert_array_equal(made.run(feeds, "y", TensorProto.INT32), exact)
    assert len(summed) > 1


def test_products_that_are_quantised_in_the_run(summed: list[Operation]) -> None:
    """The scale of the first factor is found in the run; bias and function follow it."""
    rng = np.random.default_rng(8)
    x = rng.standard_normal((5, 24)).astype(np.float32)
    w = rng.integers(-128, 127, (24, 16), endpoint=True).astype(np.int8)
    scales = rng.uniform(0.01, 0.02, 16).astype(np.float32)
    bias = rng.standard_normal(16).astype(np.float32)
    made = _Model()
    made.constants |= {"w": w, "s": scales, "b": bias}
    made.nodes = [
        node("DynamicQuantizeLinear", "x", "q scale zero"),
        node("MatMulInteger", "q w zero", "sums"),
        node("Cast", "sums", "real", to=TensorProto.FLOAT),
        node("Mul", "scale s", "both"),
        node("Mul", "real both", "product"),
        node("Add", "product b", "biased"),
        node("Relu", "biased", "y"),
    ]
    step = np.float32((x.max() - x.min()) / np.float32(255))
    zero = np.clip(np.rint(-x.min() / step), 0, 255)
    integers = np.clip(np.rint(x / step) + zero, 0, 255)
    exact = np.maximum((integers - zero) @ w.astype(np.float64) * step * scales + bias, 0)
    assert_close(made.run({"x": x}, "y", TensorProto.FLOAT), exact.astype(np.float32))
    assert summed


@pytest.mark.parametrize("case", ["outputs", "channels", "groups", "bias"])
def test_what_has_no_code_is_computed_in_float32(summed: list[Operation], case: str) -> None:
    """Sizes that fill no registers, groups, and a bias that is not a number."""
    rng = np.random.default_rng(6)
    outputs, channels = (7 if case == "outputs" else 8), (5 if case == "channels" else 8)
    x = rng.standard_normal((1, channels, 4, 4)).astype(np.float32)
    group = 2 if case == "groups" else 1
    array, real = _weights(rng, outputs, channels // group, 1, 1)
    bias = np.full(outputs, np.nan if case == "bias" else 1.0, np.float32)
    made = _Model()
    made.constants["b"] = bias
    inputs = f"{made.converted('x', 'uint8', 9)} {made.weights('w', array)} b"
    made.nodes.append(node("Conv", inputs, "y", group=group))
    found = made.run({"x": x}, "y", TensorProto.FLOAT)
    parts = np.split(_real(x, "uint8", 9), group, axis=1), np.split(real, group)
    exact = np.concatenate([_convolved(a, b, 1, 0) for a, b in zip(*parts, strict=True)], axis=1)
    np.testing.assert_array_equal(found, (exact + bias[:, None, None]).astype(np.float32))
    assert not summed


@pytest.mark.parametrize("depth", [65_536, 70_000])
def test_sums_of_more_than_32_bits_are_computed_in_float32(summed: list[Operation], depth: int) -> None:
    """All terms are as small as they can be: the next sum of so many would turn positive."""
    made = _Model()
    inputs = f"{made.converted('x', 'uint8', 0, 1.0)} {made.weights('w', np.full((depth, 8), -128, np.int8), 1)}"
    made.nodes.append(node("MatMul", inputs, "y"))
    found = made.run({"x": np.full((1, depth), 255, np.float32)}, "y", TensorProto.FLOAT)
    assert_close(found[0], (-128 * 255 * depth * 2.0 ** -(np.arange(8) % 3 + 5)).astype(np.float32))
    assert bool(summed) == (depth == 65_536)


_CHAINS: dict[str, tuple[list[tuple[str, float]], float]] = {
    "a summand that takes all digits": ([("Add", 1e20), ("Sub", 1e20)], 0.0),
    "a bound between such summands": ([("Add", 1e20), ("Relu", 0), ("Sub", 1e20)], 0.0),
    "a summand that rounds": ([("Add", 12582912.0), ("Sub", 12582912.0)], 62.0),
    "factors that overflow": ([("Mul", 1e20), ("Mul", 1e20), ("Mul", 1e-20), ("Mul", 1e-20)], np.inf),
    "factors that underflow": ([("Mul", 1e-30), ("Relu", 0), ("Mul", 1e-30), ("Mul", 1e30), ("Mul", 1e30)], 0.0),
}


@pytest.mark.parametrize("kind", [TensorProto.FLOAT, TensorProto.UINT8])
@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("case", _CHAINS)
def test_constants_behind_sums_are_applied_in_turn(
    summed: list[Operation], case: str, kind: int, *, residual: bool
) -> None:
    """Where one constant with the effect of several would have another one, there is none."""
    steps, exact = _CHAINS[case]
    made = _Model()
    start = made.converted("x", "uint8", 0, 1.0)
    made.constants["k"] = np.ones((8, 8, 1, 1), np.int8)
    made.constants["k_s"] = np.array(2.0**-5 * 1.25, np.float32)
    made.nodes += [node("DequantizeLinear", "k k_s", "k_d"), node("Conv", f"{start} k_d", "step0")]
    for place, (operator, constant) in enumerate(steps):
        given = "" if operator == "Relu" else f" c{place}"
        made.constants |= {given.strip(): np.array(constant, np.float32)} if given else {}
        made.nodes.append(node(operator, f"step{place}{given}", f"step{place + 1}"))
    name = f"step{len(steps)}"
    if residual:
        made.nodes.append(node("Add", f"{name} {start}", "sum"))
        name, exact = "sum", exact + 200
    made.converted(name, "uint8", 0, 1.0)
    x = np.full((1, 8, 2, 2), 200, np.float32)
    output = name if kind == TensorProto.FLOAT else f"{name}_q"
    wanted = exact if kind == TensorProto.FLOAT else min(exact, 255)
    assert_close(made.run({"x": x}, output, kind).astype(np.float32), np.full(x.shape, wanted, np.float32))
    assert summed
