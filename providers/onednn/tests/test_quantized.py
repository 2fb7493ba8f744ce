"""Quantised models: integers are those of the operators' definitions, computed and moved as integers."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto

import ort_py as ort
from ort_py_kit.tolerances import assert_close
from ort_py_onednn.execution.region import DnnlRegion
from providers.onednn.tests.models import model, narrow_weights, node, open_session, run_here, run_plain

Array: TypeAlias = np.ndarray[Any, Any]
KINDS = {"uint8": TensorProto.UINT8, "int8": TensorProto.INT8, "int32": TensorProto.INT32}
LIMITS = {"uint8": (0, 255), "int8": (-128, 127)}


def _scale(number: float) -> Array:
    return np.array(number, np.float32)


def _check(actual: Array, exact: Array, zero: int) -> None:
    """Each integer is a rounding of the exact number, saturated; where that lies at a half, either neighbour."""
    low, high = LIMITS[actual.dtype.name]
    wanted = np.clip(exact + zero, low, high)
    worst = np.abs(actual.astype(np.float64) - wanted).max()
    assert worst <= 0.5 + 1e-3, worst


def _convolved(x: Array, w: Array, group: int, stride: int, pad: int) -> Array:
    """Sums of products, of whole numbers."""
    x = np.pad(x.astype(np.int64), ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], (2, 3))[:, :, ::stride, ::stride]
    batch, channels, height, width = windows.shape[:4]
    parts = windows.reshape(batch, group, channels // group, height, width, *w.shape[2:])
    held = w.astype(np.int64).reshape(group, w.shape[0] // group, *w.shape[1:])
    return np.asarray(np.einsum("ngchwij,gocij->ngohw", parts, held).reshape(batch, w.shape[0], height, width))


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 1 << 30),
    group=st.sampled_from([1, 1, 2, 8]),
    channels=st.integers(1, 5),
    filters=st.integers(1, 9),
    kernel=st.integers(1, 3),
    stride=st.integers(1, 2),
    pad=st.integers(0, 2),
    kinds=st.tuples(*[st.sampled_from(["uint8", "int8"])] * 3),
    per_channel=st.booleans(),
    biased=st.booleans(),
)
def test_quantised_convolutions(
    seed: int,
    group: int,
    channels: int,
    filters: int,
    kernel: int,
    stride: int,
    pad: int,
    kinds: tuple[str, str, str],
    per_channel: bool,
    biased: bool,
) -> None:
    """QLinearConv rounds the exact result, whatever zero points, types, groups and scales of channels."""
    rng = np.random.default_rng(seed)
    source, held, made = kinds
    outputs = filters * group
    x = rng.integers(*LIMITS[source], (2, channels * group, 7, 6), endpoint=True).astype(source)
    middle = 128 if held == "uint8" else 0
    w = (rng.integers(-120, 121, (outputs, channels, kernel, kernel)) + middle).astype(held)
    w_scale = rng.uniform(0.01, 0.1, outputs if per_channel else 1).astype(np.float32)
    w_zero = np.full(w_scale.shape, middle, held)
    x_zero, y_zero = (rng.integers(*LIMITS[kind], endpoint=True).astype(kind) for kind in (source, made))
    bias = rng.integers(-2000, 2000, outputs).astype(np.int32)
    y_scale = _scale(0.05 * channels * kernel * kernel)
    constants: dict[str, Array] = {
        "xs": _scale(0.02),
        "xz": np.array(x_zero),
        "w": w,
        "ws": w_scale if per_channel else w_scale.reshape(()),
        "wz": w_zero if per_channel else w_zero.reshape(()),
        "ys": y_scale,
        "yz": np.array(y_zero),
    }
    names = "x xs xz w ws wz ys yz"
    if biased:
        constants["b"] = bias
        names += " b"
    nodes = [node("QLinearConv", names, "y", group=group, strides=[stride] * 2, pads=[pad] * 4)]
    (actual,) = run_here(model(nodes, {"x": x}, constants, kind=KINDS[made]), {"x": x})
    sums = _convolved(x.astype(np.int64) - int(x_zero), w.astype(np.int64) - middle, group, stride, pad)
    sums = sums + (bias if biased else np.zeros(outputs, np.int64))[None, :, None, None]
    factor = np.float64(0.02) * np.broadcast_to(w_scale, outputs).astype(np.float64) / np.float64(y_scale)
    _check(actual, sums * factor[None, :, None, None], int(y_zero))


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 1 << 30),
    shape=st.tuples(st.integers(1, 3), st.integers(1, 9), st.integers(1, 70), st.integers(1, 40)),
    kinds=st.tuples(*[st.sampled_from(["uint8", "int8"])] * 3),
    per_column=st.booleans(),
    middle=st.integers(-3, 3),
)
def test_quantised_products(
    seed: int, shape: tuple[int, int, int, int], kinds: tuple[str, str, str], per_column: bool, middle: int
) -> None:
    """QLinearMatMul rounds the exact result, with zero points on both sides and scales of columns."""
    rng = np.random.default_rng(seed)
    batch, rows, depth, columns = shape
    source, held, made = kinds
    a = rng.integers(*LIMITS[source], (batch, rows, depth), endpoint=True).astype(source)
    zero = middle + (128 if held == "uint8" else 0)
    b = (rng.integers(-100, 101, (depth, columns)) + zero).astype(held)
    scales = rng.uniform(0.01, 0.1, columns if per_column else 1).astype(np.float32)
    a_zero, y_zero = (rng.integers(*LIMITS[kind], endpoint=True).astype(kind) for kind in (source, made))
    y_scale = _scale(0.01 * depth)
    constants: dict[str, Array] = {
        "as": _scale(0.03),
        "az": np.array(a_zero),
        "b": b,
        "bs": scales if per_column else scales.reshape(()),
        "bz": np.full(columns, zero, held) if per_column else np.array(zero, held),
        "ys": y_scale,
        "yz": np.array(y_zero),
    }
    nodes = [node("QLinearMatMul", "a as az b bs bz ys yz", "y")]
    (actual,) = run_here(model(nodes, {"a": a}, constants, kind=KINDS[made]), {"a": a})
    sums = (a.astype(np.int64) - int(a_zero)) @ (b.astype(np.int64) - zero)
    _check(actual, sums * (0.03 * scales.astype(np.float64) / np.float64(y_scale)), int(y_zero))


@pytest.mark.parametrize("kind", ["uint8", "int8"])
def test_whole_products_are_exact(kind: str) -> None:
    """MatMulInteger's sums are exact beyond the digits of a float32."""
    rng = np.random.default_rng(1)
    a = rng.integers(*LIMITS[kind], (3, 4001), endpoint=True).astype(kind)
    b = rng.integers(-128, 128, (4001, 17)).astype(np.int8)
    a_zero = np.array(7, kind)
    constants = {"b": b, "az": a_zero, "bz": np.array(-5, np.int8)}
    data = model([node("MatMulInteger", "a b az bz", "y")], {"a": a}, constants, kind=TensorProto.INT32)
    (actual,) = run_here(data, {"a": a}, threads=2)
    np.testing.assert_array_equal(actual, (a.astype(np.int64) - 7) @ (b.astype(np.int64) + 5))


def test_whole_convolutions_are_exact() -> None:
    """ConvInteger pads with the zero point, and gives exact sums."""
    rng = np.random.default_rng(2)
    x = rng.integers(0, 256, (1, 6, 9, 9)).astype(np.uint8)
    w = rng.integers(0, 256, (5, 6, 3, 3)).astype(np.uint8)
    constants = {"w": w, "xz": np.array(99, np.uint8), "wz": np.array(128, np.uint8)}
    data = model([node("ConvInteger", "x w xz wz", "y", pads=[1] * 4)], {"x": x}, constants, kind=TensorProto.INT32)
    (actual,) = run_here(data, {"x": x})
    np.testing.assert_array_equal(actual, _convolved(x.astype(np.int64) - 99, w.astype(np.int64) - 128, 1, 1, 1))


@pytest.mark.parametrize("zero", [0, 128, 127])
def test_halves_go_to_the_even_integer(zero: int) -> None:
    """QuantizeLinear rounds before it adds the zero point, so that an odd one does not turn halves round."""
    x = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 300, -300, 0.75], np.float32)
    constants = {"s": _scale(1), "z": np.array(zero, np.uint8)}
    data = model([node("QuantizeLinear", "x s z", "y")], {"x": x}, constants, kind=TensorProto.UINT8)
    (actual,) = run_here(data, {"x": x})
    np.testing.assert_array_equal(actual, np.clip(np.rint(x) + zero, 0, 255))


def _residual_model(kind: str, zeros: tuple[int, int, int]) -> tuple[bytes, Array]:
    """Two convolutions, one after the other, and their sum with the first's input, between conversions."""
    rng = np.random.default_rng(3)
    x = rng.standard_normal((1, 16, 10, 10)).astype(np.float32)
    constants: dict[str, Array] = {}
    nodes = []

    def converted(name: str, scale: float, zero: int) -> str:
        constants[f"{name}_s"], constants[f"{name}_z"] = _scale(scale), np.array(zero, kind)
        nodes.append(node("QuantizeLinear", f"{name} {name}_s {name}_z", f"{name}_q"))
        nodes.append(node("DequantizeLinear", f"{name}_q {name}_s {name}_z", f"{name}_d"))
        return f"{name}_d"

    def convolved(name: str, made: str) -> None:
        constants[f"{made}_w"] = narrow_weights(rng, (16, 16, 3, 3))
        constants[f"{made}_ws"] = rng.uniform(0.002, 0.004, 16).astype(np.float32)
        constants[f"{made}_b"] = rng.integers(-500, 500, 16).astype(np.int32)
        constants[f"{made}_bs"] = (constants[f"{made}_ws"] * 0.02).astype(np.float32)
        nodes.append(node("DequantizeLinear", f"{made}_w {made}_ws", f"{made}_wd", axis=0))
        nodes.append(node("DequantizeLinear", f"{made}_b {made}_bs", f"{made}_bd", axis=0))
        nodes.append(node("Conv", f"{name} {made}_wd {made}_bd", made, pads=[1] * 4))

    start = converted("x", 0.02, zeros[0])
    convolved(start, "one")
    convolved(converted("one", 0.02, zeros[1]), "two")
    nodes.append(node("Add", f"{converted('two', 0.02, zeros[2])} {start}", "sum"))
    nodes.append(node("Relu", "sum", "out"))
    converted("out", 0.02, zeros[0])
    return model(nodes, {"x": x}, constants, ("out_q",), kind=KINDS[kind]), x


@pytest.mark.parametrize(("kind", "zeros"), [("uint8", (0, 128, 113)), ("int8", (0, -3, 6)), ("uint8", (101, 0, 7))])
def test_converted_chains(kind: str, zeros: tuple[int, int, int]) -> None:
    """Convolutions between conversions, a residual sum and Relu: onnxruntime's integers, but for halves."""
    data, x = _residual_model(kind, zeros)
    (actual,) = run_here(data, {"x": x}, threads=2)
    (wanted,) = run_plain(data, {"x": x})
    far = np.abs(actual.astype(int) - wanted.astype(int))
    assert far.max() <= 1
    assert (far > 0).mean() < 0.01


@pytest.mark.usefixtures("needs_exact_integers")
def test_integers_stay_integers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the first conversion and two products of bytes remain of such a chain, with the sum in the second."""
    regions: list[DnnlRegion] = []
    original = DnnlRegion.__init__

    def remember(self: DnnlRegion, *arguments: Any, **options: Any) -> None:
        original(self, *arguments, **options)
        regions.append(self)

    monkeypatch.setattr(DnnlRegion, "__init__", remember)
    data, _ = _residual_model("uint8", (0, 128, 113))
    with open_session(data):
        pass
    (region,) = regions
    assert [one.kind for one in region.operations] == ["QuantizeLinear", "QuantizedConv", "QuantizedConv"]


@pytest.mark.parametrize("zero", [0, 99])
def test_products_with_a_function_stay_products_of_integers(zero: int) -> None:
    """A Conv and its Relu, which the optimiser makes one, multiply integers all the same: weights stay bytes."""
    rng = np.random.default_rng(12)
    x = rng.integers(0, 256, (1, 16, 9, 9)).astype(np.uint8)
    w = rng.integers(-127, 128, (16, 16, 3, 3)).astype(np.int8)
    constants = {"s": _scale(0.02), "z": np.array(zero, np.uint8), "w": w, "t": _scale(0.3)}
    nodes = [node("DequantizeLinear", "x s z", "r"), node("DequantizeLinear", "w s", "v")]
    nodes += [node("Conv", "r v", "c", pads=[1] * 4), node("Relu", "c", "p"), node("QuantizeLinear", "p t z", "y")]
    data = model(nodes, {"x": x}, constants, kind=TensorProto.UINT8)
    (actual,) = run_here(data, {"x": x})
    exact = _convolved(x.astype(np.int64) - zero, w, 1, 1, 1) * (0.02 * 0.02 / 0.3)
    _check(actual, np.maximum(exact, 0), zero)
    with open_session(data) as session:
        assert [one.op_type for one in session.placement.nodes].count("DequantizeLinear") == 2


def test_integers_are_moved_as_they_are() -> None:
    """MaxPool, Transpose and Concat between conversions work on bytes, and give what they give for numbers."""
    rng = np.random.default_rng(4)
    x = rng.integers(0, 256, (1, 8, 6, 6)).astype(np.uint8)
    nodes = [
        node("DequantizeLinear", "x s z", "r"),
        node("MaxPool", "r", "m", kernel_shape=[2, 2], strides=[2, 2]),
        node("Concat", "m m", "c", axis=1),
        node("Transpose", "c", "y", perm=[0, 2, 3, 1]),
    ]
    data = model(nodes, {"x": x}, {"s": _scale(0.1), "z": np.array(31, np.uint8)})
    np.testing.assert_allclose(run_here(data, {"x": x})[0], run_plain(data, {"x": x})[0], rtol=1e-6)


@pytest.mark.parametrize("op_type", ["AveragePool", "GlobalAveragePool"])
@pytest.mark.parametrize("kind", ["uint8", "int8"])
def test_averages_of_integers(op_type: str, kind: str) -> None:
    rng = np.random.default_rng(5)
    x = rng.integers(*LIMITS[kind], (2, 8, 7, 7), endpoint=True).astype(kind)
    attributes = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4} if op_type == "AveragePool" else {}
    nodes = [
        node("DequantizeLinear", "x s z", "r"),
        node(op_type, "r", "m", **attributes),
        node("QuantizeLinear", "m t u", "y"),
    ]
    constants: dict[str, Array] = {
        "s": _scale(0.1),
        "z": np.array(31, kind),
        "t": _scale(0.0713),
        "u": np.array(13, kind),
    }
    data = model(nodes, {"x": x}, constants, kind=KINDS[kind])
    far = run_here(data, {"x": x})[0].astype(int) - run_plain(data, {"x": x})[0].astype(int)
    assert np.abs(far).max() <= 1
    assert (far != 0).mean() < 0.02


@pytest.mark.parametrize("shape", [(2, 3, 7, 3), (5, 1, 6, 9), (1, 8, 70, 90), (3, 2, 13, 1)])
@pytest.mark.parametrize("op_type", ["AveragePool", "GlobalAveragePool"])
@pytest.mark.parametrize("kind", ["uint8", "int8"])
def test_averages_are_rounded_once(op_type: str, kind: str, shape: tuple[int, ...]) -> None:
    """To a scale that is finer than the integers' own: pictures of one channel, many elements, and few."""
    low, high = LIMITS[kind]
    x = np.random.default_rng(7).integers(low, high, shape, endpoint=True).astype(kind)
    attributes = {"kernel_shape": [2, 1], "strides": [2, 1]} if op_type == "AveragePool" else {}
    nodes = [
        node("DequantizeLinear", "x s z", "r"),
        node(op_type, "r", "m", **attributes),
        node("QuantizeLinear", "m t u", "y"),
    ]
    zero = (low + high + 1) // 2 + 3
    constants: dict[str, Array] = {
        "s": _scale(0.5),
        "z": np.array(zero, kind),
        "t": _scale(0.125),
        "u": np.array(low + 90, kind),
    }
    centred = x.astype(np.float64) - zero
    if op_type == "AveragePool":
        exact = (centred[:, :, : shape[2] // 2 * 2 : 2] + centred[:, :, 1::2]) / 2
    else:
        exact = centred.mean((2, 3), keepdims=True)
    data = model(nodes, {"x": x}, constants, kind=KINDS[kind])
    _check(run_here(data, {"x": x})[0], exact * 4, low + 90)


@pytest.mark.parametrize("op_type", ["QLinearAdd", "QLinearMul"])
def test_sums_and_products_of_integers(op_type: str) -> None:
    """com.microsoft's element-wise operators give the rounding of the exact number."""
    rng = np.random.default_rng(6)
    a, b = (rng.integers(0, 256, (2, 8, 5, 5)).astype(np.uint8) for _ in range(2))
    constants = {"s": _scale(0.03), "za": np.array(9, np.uint8), "zb": np.array(200, np.uint8)}
    constants |= {"t": _scale(0.05), "zy": np.array(77, np.uint8)}
    nodes = [node(op_type, "a s za b s zb t zy", "y", domain="com.microsoft")]
    (actual,) = run_here(model(nodes, {"a": a, "b": b}, constants, kind=TensorProto.UINT8), {"a": a, "b": b})
    left, right = (a.astype(int) - 9) * 0.03, (b.astype(int) - 200) * 0.03
    _check(actual, (left + right if op_type == "QLinearAdd" else left * right) / 0.05, 77)


@pytest.mark.parametrize("scale", [1e-39, 1e-30, 1e-3])
def test_integers_with_small_scales_are_added(scale: float) -> None:
    """The other summand is a number of their steps only where that is no infinity."""
    r = np.full((1, 8, 2, 2), 200, np.uint8)
    constants: dict[str, Array] = {"w": np.ones((8, 8, 1, 1), np.int8), "one": _scale(1), "s": _scale(scale)}
    nodes = [
        node("DequantizeLinear", "x one", "a"),
        node("DequantizeLinear", "w one", "b"),
        node("Conv", "a b", "c"),
        node("DequantizeLinear", "r s", "d"),
        node("Add", "c d", "e"),
        node("QuantizeLinear", "e one", "y"),
    ]
    feeds = {"x": np.full((1, 8, 2, 2), 10, np.uint8), "r": r}
    (actual,) = run_here(model(nodes, feeds, constants, kind=TensorProto.UINT8), feeds)
    np.testing.assert_array_equal(actual, np.full(r.shape, 80, np.uint8))


@pytest.mark.parametrize("x", [np.linspace(-3, 5, 40), np.linspace(2, 9, 40), np.linspace(-7, -1, 40), np.zeros(40)])
def test_scales_found_in_a_run(x: Array) -> None:
    """DynamicQuantizeLinear: the range holds 0, and a range of nothing has a scale all the same."""
    x = x.astype(np.float32).reshape(4, 10)
    scale = np.float32((max(x.max(), 0) - min(x.min(), 0)) / np.float32(255)) or np.float32(1)
    zero = np.clip(np.rint(-min(x.min(), 0) / scale), 0, 255)
    nodes = [node("DynamicQuantizeLinear", "x", "q s z"), node("DequantizeLinear", "q t", "y")]
    data = model(nodes, {"x": x}, {"t": _scale(1)}, ("y", "s"))
    y, s = run_here(data, {"x": x})
    np.testing.assert_allclose(s, scale, rtol=1e-6)
    np.testing.assert_allclose(y, np.clip(np.rint(x / scale) + zero, 0, 255))


@pytest.mark.parametrize("held", ["uint8", "int8"])
def test_products_quantised_in_a_run(held: str) -> None:
    """DynamicQuantizeMatMul: scale and zero point of the run go into the product, with those of columns and a bias."""
    rng = np.random.default_rng(7)
    x = rng.standard_normal((2, 5, 48)).astype(np.float32)
    zero = 128 if held == "uint8" else 0
    b = (rng.integers(-100, 101, (48, 24)) + zero).astype(held)
    constants: dict[str, Array] = {
        "b": b,
        "s": rng.uniform(0.01, 0.02, 24).astype(np.float32),
        "z": np.full(24, zero, held),
        "c": rng.standard_normal(24).astype(np.float32),
    }
    data = model([node("DynamicQuantizeMatMul", "x b s z c", "y", domain="com.microsoft")], {"x": x}, constants)
    (actual,) = run_here(data, {"x": x})
    scale = np.float32((x.max() - x.min()) / np.float32(255))
    integers = np.clip(np.rint(x / scale) + np.rint(-x.min() / scale), 0, 255) - np.rint(-x.min() / scale)
    exact = integers @ (b.astype(np.float64) - zero) * scale * constants["s"] + constants["c"]
    np.testing.assert_allclose(actual, exact, rtol=1e-5, atol=1e-4)


def test_weights_serve_a_second_shape() -> None:
    """Weights whose original was let go after the first plan give the same integers for other shapes."""
    rng = np.random.default_rng(8)
    w = rng.integers(-127, 128, (64, 64, 3, 3)).astype(np.int8)
    constants = {"s": _scale(0.02), "z": np.array(77, np.uint8), "w": w, "t": _scale(0.5), "wz": np.array(0, np.int8)}
    nodes = [node("QLinearConv", "x s z w s wz t z", "y", pads=[1] * 4)]
    sizes = [(1, 64, 8, 8), (2, 64, 30, 5), (1, 64, 1, 1), (1, 64, 8, 8)]
    feeds = [rng.integers(0, 256, size).astype(np.uint8) for size in sizes]
    data = model(nodes, {"x": feeds[0]}, constants, dynamic=True, kind=TensorProto.UINT8)
    with open_session(data) as session:
        for x in feeds:
            (actual,) = session.run(None, {"x": x})
            _check(actual, _convolved(x.astype(np.int64) - 77, w, 1, 1, 1) * (0.02 * 0.02 / 0.5), 77)
        assert not session.fallback_report


@pytest.mark.parametrize(
    ("op_type", "inputs", "constants", "reason"),
    [
        ("QuantizeLinear", "x s", {"s": np.ones(4, np.float32)}, "not one constant for all"),
        ("QuantizeLinear", "x s", {"s": _scale(0)}, "not positive"),
        ("DequantizeLinear", "q s", {"s": np.ones(4, np.float32)}, "along an axis of a computed tensor"),
        ("DequantizeLinear", "q s", {"s": np.ones((2, 2), np.float32)}, "not a float32 number or vector"),
        ("DequantizeLinear", "w s", {"s": _scale(1), "w": np.ones((4, 4), np.int8)}, "no product reads"),
        ("MatMulInteger", "q r", {}, "the second factor is not a constant"),
        ("MatMulInteger", "q w - z", {"w": np.ones((4, 4), np.int8)}, "not a constant"),
        (
            "ConvInteger",
            "p w - z",
            {"w": np.array([0, 255], np.uint8).reshape(2, 1, 1, 1), "z": np.array(9, np.uint8)},
            "needs more than 8 bits",
        ),
    ],
)
def test_refusals(
    monkeypatch: pytest.MonkeyPatch, op_type: str, inputs: str, constants: dict[str, Array], reason: str
) -> None:
    """Operations without a form in oneDNN are refused with this reason, wherever products are exact."""
    monkeypatch.setattr("ort_py_onednn.graph.support.quantized.has_exact_integers", lambda: True)
    known: dict[str, Array] = {
        "x": np.zeros((2, 4), np.float32),
        "q": np.zeros((2, 4), np.uint8),
        "r": np.zeros((4, 4), np.uint8),
        "z": np.zeros((), np.int8),
        "p": np.zeros((1, 1, 2, 2), np.uint8),
    }
    feeds = {name: array for name, array in known.items() if name in inputs.split() and name not in constants}
    made = {"QuantizeLinear": TensorProto.UINT8, "DequantizeLinear": TensorProto.FLOAT}
    data = model([node(op_type, inputs, "y")], feeds, constants, kind=made.get(op_type, TensorProto.INT32))
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    providers = ["DnnlExecutionProvider", "CPUExecutionProvider"]
    with ort.InferenceSession(data, options, providers=providers) as session:
        reasons = [why for one in session.placement.nodes for _, why in one.refusals]
    assert any(reason in why for why in reasons), reasons


def test_without_exact_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a CPU that would cut sums to 16 bits products of integers are refused, and converted models take numbers."""
    monkeypatch.setattr("ort_py_onednn.graph.support.quantized.has_exact_integers", lambda: False)
    monkeypatch.setattr("ort_py_onednn.graph.quantization.has_exact_integers", lambda: False)
    a = np.ones((2, 4), np.uint8)
    data = model([node("MatMulInteger", "a b", "y")], {"a": a}, {"b": np.ones((4, 3), np.int8)}, kind=TensorProto.INT32)
    with open_session(data) as session:
        (placed,) = session.placement.nodes
        assert any("without VNNI" in why for _, why in placed.refusals), placed.refusals
    data, x = _residual_model("uint8", (0, 128, 113))
    far = run_here(data, {"x": x})[0].astype(int) - run_plain(data, {"x": x})[0].astype(int)
    assert np.abs(far).max() <= 1


@pytest.mark.parametrize("form", ["Max(h, k, one)", "Sum(h, k, one)", "Add(h, k)"])
@pytest.mark.parametrize(("rows", "operand"), [((2, 3), (1, 1, 1, 4)), ((2, 3), (2, 1, 4)), ((), (4,)), ((), (2, 1))])
def test_an_operand_between_a_product_and_its_rounding(
    form: str, rows: tuple[int, ...], operand: tuple[int, ...]
) -> None:
    """Where a primitive does not take the operand, the product must not become an integer before."""
    rng = np.random.default_rng(5)
    x, w = rng.integers(0, 255, (*rows, 8)).astype(np.uint8), narrow_weights(rng, (8, 4))
    k = rng.standard_normal(operand).astype(np.float32)
    numbers = {"s": np.float32(0.05), "z": np.uint8(120), "t": np.float32(0.02), "u": np.int8(0)}
    constants = {**numbers, "w": w, "r": np.float32(0.1), "v": np.uint8(100), "one": np.ones(1, np.float32)}
    last = node(form.partition("(")[0], form.partition("(")[2][:-1].replace(",", ""), "a")
    nodes = [
        node("DequantizeLinear", "x s z", "xd"),
        node("DequantizeLinear", "w t u", "wd"),
        node("MatMul", "xd wd", "h"),
        last,
        node("QuantizeLinear", "a r v", "y"),
    ]
    data = model(
        nodes, {"x": x, "k": k}, {name: np.asarray(one) for name, one in constants.items()}, kind=TensorProto.UINT8
    )
    (found,) = run_here(data, {"x": x, "k": k})
    exact = (x.astype(np.float64) - 120) @ w.astype(np.float64) * np.float64(np.float32(0.05)) * np.float32(0.02)
    joined = np.maximum(np.maximum(exact, k), 1) if form.startswith("Max") else exact + k + ("one" in form)
    _check(found, joined / np.float64(np.float32(0.1)), 100)


@pytest.mark.parametrize(
    ("size", "kernel", "dilations", "pads"),
    [
        ((3, 7), (7, 5), (2, 1), (10, 0, 12, 1)),
        ((7, 9), (5, 3), (1, 2), (4, 3, 4, 3)),
        ((14, 20), (5, 5), (3, 1), (3, 0, 4, 0)),
        ((5, 20), (7, 1), (1, 1), (3, 0, 6, 0)),
        ((14, 14), (3, 3), (1, 1), (1, 1, 1, 1)),
    ],
)
def test_padding_of_integers_with_a_zero_point(
    size: tuple[int, int], kernel: tuple[int, int], dilations: tuple[int, int], pads: tuple[int, ...]
) -> None:
    """A window that leaves the picture at either side counts zeros there, whatever the zero point is."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (2, 32, *size)).astype(np.uint8)
    weights = narrow_weights(rng, (8, 32, *kernel))
    constants: dict[str, Array] = {
        "scale": np.array(0.03125, np.float32),
        "zero": np.array(192, np.uint8),
        "w": weights,
        "scales": np.full(8, 0.015625, np.float32),
        "zeros": np.zeros(8, np.int8),
    }
    nodes = [
        node("DequantizeLinear", "x scale zero", "a"),
        node("DequantizeLinear", "w scales zeros", "b", axis=0),
        node("Conv", "a b", "y", dilations=list(dilations), pads=list(pads)),
    ]
    data = model(nodes, {"x": x}, constants, opset=17)
    (result,) = run_here(data, {"x": x})
    real = np.pad(x.astype(np.float64) - 192, ((0, 0), (0, 0), pads[::2], pads[1::2]))
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    windows = np.lib.stride_tricks.sliding_window_view(real, reach, (2, 3))[..., :: dilations[0], :: dilations[1]]
    exact = np.einsum("nchwij,ocij->nohw", windows, weights.astype(np.float64)) * 0.03125 * 0.015625
    assert_close(result, exact.astype(np.float32))
