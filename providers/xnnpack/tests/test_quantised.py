"""Quantised models: the integers of each node are roundings of the exact numbers, whatever scales and zero points.

What lies at a half may go to either side, as the page on semantics says; nothing else may.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import NodeProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import ort_py as ort
from ort_py_xnnpack.binding.features import has_outer_products
from ort_py_xnnpack.execution.plan import Plan
from ort_py_xnnpack.graph.flat_graph import FlatGraph
from ort_py_xnnpack.operators import integers
from providers.xnnpack.tests.models import PROVIDER, node, open_session
from providers.xnnpack.tests.quantised_graphs import drawn, in_single_operators

Array = np.ndarray[Any, Any]
_KINDS: dict[np.dtype[Any], int] = {np.dtype(np.int8): TensorProto.INT8, np.dtype(np.uint8): TensorProto.UINT8}
_KINDS |= {np.dtype(np.float32): TensorProto.FLOAT, np.dtype(np.uint16): TensorProto.UINT16}
_SMALL = (-63, 64)
"""Weights of 7 bits: onnxruntime cuts sums of two larger products to 16 bits on some processors."""
_LEVELS = [
    ort.GraphOptimizationLevel.ORT_ENABLE_ALL,
    ort.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    ort.GraphOptimizationLevel.ORT_DISABLE_ALL,
]


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The operators that regions compute with integers alone, as they are compiled."""
    if has_outer_products():
        pytest.skip("this processor has SME, on which products of integers are computed in float32")
    found: list[str] = []
    original = Plan.of.__func__  # type: ignore[attr-defined]  # of a class method

    def noted(cls: type[Plan], graph: FlatGraph) -> Plan:
        plan: Plan = original(cls, graph)
        found.extend(one.node.op_type for one in plan.integers.values())
        return plan

    monkeypatch.setattr(Plan, "of", classmethod(noted))
    return found


def _model(
    nodes: list[NodeProto],
    feeds: dict[str, Array],
    constants: dict[str, Array],
    *,
    kind: Any = np.uint8,
    opset: int = 20,
) -> bytes:
    inputs = [helper.make_tensor_value_info(name, _KINDS[one.dtype], one.shape) for name, one in feeds.items()]
    outputs = [helper.make_tensor_value_info("y", _KINDS[np.dtype(kind)], None)]
    held = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, held)
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()


def _scale(number: float) -> Array:
    return np.array(number, np.float32)


@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("block", range(8))
def test_random_graphs(block: int, single: bool) -> None:
    """Check graphs of up to six nodes: products, sums, pooling, functions, movement; some sizes known, run twice.

    Operators stand between conversions, or have scales of their own, as QLinearConv has.
    """
    changed = 0
    for seed in range(block * 25, block * 25 + 25):
        graph = drawn(seed)
        changed += in_single_operators(graph) if single else 0
        options = ort.SessionOptions()
        options.intra_op_num_threads = 1 + seed % 2
        options.graph_optimization_level = _LEVELS[seed % 3]
        with ort.InferenceSession(
            graph.model(dynamic=seed % 2 == 0),
            options,
            providers=[PROVIDER, "CPUExecutionProvider"],
            provider_options=[{"claim_small": True}, {}],
        ) as session:
            for again in range(2 if graph.steps else 0):
                feeds = graph.feeds(again)
                far, where = graph.worst(feeds, session.run(None, feeds))
                assert far <= 0, f"seed {seed}, {where}: {far} steps"
            assert not session.fallback_report, session.fallback_report
            assert "declined" not in session.plan
            assert not [one for one in session.placement.nodes if "Q" in one.op_type and one.provider != PROVIDER]
    assert (changed > 10) is single


def _convolution(x: Array, w: Array, **more: Any) -> tuple[bytes, dict[str, Array]]:
    """A convolution between conversions whose sums are small, so that its integers are those of every runtime."""
    wide = w.shape[0]
    constants = {
        "xs": _scale(0.05),
        "xz": np.array(more.get("zero", 0), x.dtype),
        "w": w,
        "ws": more.get("scales", np.full(wide, 0.02, np.float32)),
        "wz": np.full(wide, more.get("middle", 0), w.dtype),
        "b": more.get("bias", np.arange(wide, dtype=np.int32)),
        "bs": np.full(wide, np.float32(0.05) * np.float32(0.02), np.float32),
        "ys": _scale(0.0719),  # no sum of products lies at a half
        "yz": np.array(3, x.dtype),
    }
    nodes = [
        node("DequantizeLinear", "x xs xz", "xd"),
        node("DequantizeLinear", "w ws wz", "wd", axis=0),
        node("DequantizeLinear", "b bs", "bd", axis=0),
        node("Conv", "xd wd bd", "c"),
        node("QuantizeLinear", "c ys yz", "y"),
    ]
    return _model(nodes, {"x": x}, constants, kind=x.dtype), {"x": x}


def _run(data: bytes, feeds: dict[str, Array]) -> Array:
    with open_session(data) as session:
        assert set(session.placement.counts()) == {PROVIDER}, session.placement
        (found,) = session.run(None, feeds)
        assert not session.fallback_report
        return np.asarray(found)


@pytest.mark.parametrize("kind", [np.int8, np.uint8])
def test_a_convolution_is_onnxruntimes(kind: Any, computed: list[str]) -> None:
    """It computes with integers alone, and gives the integers of onnxruntime and of ONNX's reference."""
    rng = np.random.default_rng(1)
    limits = np.iinfo(kind)
    x = rng.integers(limits.min, limits.max, (2, 3, 8, 9), endpoint=True).astype(kind)
    w = rng.integers(*_SMALL, (4, 3, 3, 2)).astype(np.int8)
    data, feeds = _convolution(x, w, zero=7)
    found = _run(data, feeds)
    assert computed == ["Conv"]
    (wanted,) = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"]).run(None, feeds)
    np.testing.assert_array_equal(found, wanted)
    (wanted,) = ReferenceEvaluator(data).run(None, feeds)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    ("middle", "numbers", "taken"),
    [(128, (1, 255), True), (128, (0, 255), False), (100, (80, 120), True), (0, (0, 255), False)],
)
def test_weights_without_a_sign(middle: int, numbers: tuple[int, int], taken: bool, computed: list[str]) -> None:
    """They are computed with as integers if they lie within 127 of their zero point, and as float32 otherwise."""
    rng = np.random.default_rng(2)
    x = rng.integers(0, 256, (1, 3, 6, 6)).astype(np.uint8)
    w = rng.integers(*numbers, (4, 3, 3, 3), endpoint=True).astype(np.uint8)
    w.reshape(-1)[:2] = numbers
    data, feeds = _convolution(x, w, middle=middle)
    found = _run(data, feeds)
    assert (computed == ["Conv"]) is taken
    (wanted,) = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"]).run(None, feeds)
    assert np.abs(found.astype(int) - wanted.astype(int)).max() <= 1  # at halves
    assert (found != wanted).mean() < 0.01


def test_sums_beyond_32_bits_are_computed_in_float32(computed: list[str]) -> None:
    """A bias close to 2^31 leaves no room for what is added to it."""
    x = np.full((1, 3, 4, 4), 127, np.int8)
    w = np.full((4, 3, 3, 3), 127, np.int8)
    data, feeds = _convolution(x, w, bias=np.full(4, 2**31 - 1000, np.int32))
    np.testing.assert_array_equal(_run(data, feeds), np.full((1, 4, 2, 2), 127, np.int8))
    assert not computed


def test_scales_far_apart_are_computed_in_float32(computed: list[str]) -> None:
    """XNNPACK multiplies sums with less than 256."""
    x = np.array([[[[1, 2], [3, -4]]]], np.int8)
    w = np.ones((1, 1, 1, 1), np.int8)
    data, feeds = _convolution(x, w, scales=np.full(1, 1000, np.float32), bias=np.zeros(1, np.int32))
    np.testing.assert_array_equal(_run(data, feeds), np.where(x > 0, 127, -128))
    assert not computed


@pytest.mark.parametrize("zero", [0, 128, 127])
@pytest.mark.parametrize("scale", [1.0, 0.3])
def test_halves_go_to_the_even_integer(zero: int, scale: float) -> None:
    """QuantizeLinear divides and rounds before it adds the zero point."""
    halves = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 300, -300, 0.75, np.inf, -np.inf], np.float32)
    x = halves * np.float32(scale)
    constants = {"s": _scale(scale), "z": np.array(zero, np.uint8)}
    data = _model([node("QuantizeLinear", "x s z", "y")], {"x": x}, constants)
    with open_session(data) as session:
        (found,) = session.run(None, {"x": x})
    np.testing.assert_array_equal(found, np.clip(np.rint(x / np.float32(scale)) + zero, 0, 255))


def test_every_number_near_a_half() -> None:
    """Quotients are those of a division: the numbers next to each half of many scales."""
    rng = np.random.default_rng(4)
    for scale in rng.uniform(0.001, 3, 40).astype(np.float32):
        middle = ((np.arange(-128, 128) + 0.5) * np.float64(scale)).astype(np.float32)
        x = np.concatenate([middle, np.nextafter(middle, -np.inf), np.nextafter(middle, np.inf)])
        constants = {"s": _scale(scale), "z": np.array(5, np.int8)}
        data = _model([node("QuantizeLinear", "x s z", "y")], {"x": x}, constants, kind=np.int8)
        with open_session(data) as session:
            (found,) = session.run(None, {"x": x})
        np.testing.assert_array_equal(found, np.clip(np.rint(x / scale) + 5, -128, 127))


@pytest.mark.parametrize("op_type", ["Sigmoid", "Tanh", "HardSwish", "Relu", "Abs", "Neg"])
def test_functions_of_all_integers(op_type: str) -> None:
    """All 256 integers of many scales, against float64 but at halves."""
    functions: dict[str, Callable[[Array], Array]] = {
        "Sigmoid": lambda x: 1 / (1 + np.exp(-x)), "Tanh": np.tanh, "Relu": lambda x: np.maximum(x, 0),
        "HardSwish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1), "Abs": np.abs, "Neg": np.negative,
    }  # fmt: skip
    rng = np.random.default_rng(5)
    x = np.arange(256).astype(np.uint8)
    for scale, made in rng.uniform(0.005, 0.1, (20, 2)).astype(np.float32):
        constants = {"s": _scale(scale), "z": np.array(99, np.uint8), "t": _scale(made), "o": np.array(120, np.uint8)}
        nodes = [
            node("DequantizeLinear", "x s z", "d"),
            node(op_type, "d", "f"),
            node("QuantizeLinear", "f t o", "y"),
        ]
        found = _run(_model(nodes, {"x": x}, constants), {"x": x})
        exact = functions[op_type]((x.astype(np.float64) - 99) * np.float64(scale)) / np.float64(made) + 120
        assert np.abs(found - np.clip(exact, 0, 255)).max() <= 0.5 + 1e-4


@pytest.mark.parametrize("op_type", ["Add", "Sub", "Mul"])
def test_all_pairs_of_integers(op_type: str, computed: list[str]) -> None:
    """All 65,536 pairs of many scales, against float64 but at halves."""
    rng = np.random.default_rng(6)
    exact_of = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply}[op_type]
    a = np.repeat(np.arange(256), 256).astype(np.uint8)
    b = np.tile(np.arange(256), 256).astype(np.uint8)
    for first, second, made in np.exp(rng.uniform(-4, -1, (20, 3))).astype(np.float32):
        constants = {"s": _scale(first), "z": np.array(131, np.uint8), "t": _scale(second), "o": np.array(7, np.uint8)}
        constants |= {"u": _scale(made), "v": np.array(101, np.uint8)}
        nodes = [
            node("DequantizeLinear", "a s z", "c"),
            node("DequantizeLinear", "b t o", "d"),
            node(op_type, "c d", "e"),
            node("QuantizeLinear", "e u v", "y"),
        ]
        found = _run(_model(nodes, {"a": a, "b": b}, constants), {"a": a, "b": b})
        real = exact_of((a.astype(float) - 131) * np.float64(first), (b.astype(float) - 7) * np.float64(second))
        wanted = np.clip(real / np.float64(made) + 101, 0, 255)
        assert np.abs(found - wanted).max() <= 0.5 + 1e-3
    assert op_type in computed


def test_another_scale_elsewhere_is_refused() -> None:
    """Integers have one scale in XNNPACK; a reader that takes them for other numbers is left to NumPy."""
    x = np.arange(6, dtype=np.int8).reshape(2, 3)
    constants = {"s": _scale(0.5), "t": _scale(0.25), "z": np.array(1, np.int8)}
    nodes = [
        node("DequantizeLinear", "x s z", "a"),
        node("DequantizeLinear", "x t z", "b"),
        node("Add", "a b", "y"),
    ]
    data = _model(nodes, {"x": x}, constants, kind=np.float32)
    with open_session(data) as session:
        (found,) = session.run(None, {"x": x})
        reasons = [str(one.refusals) for one in session.placement.nodes if one.provider != PROVIDER]
    np.testing.assert_array_equal(found, (x.astype(np.float32) - 1) * np.float32(0.75))
    assert len(reasons) == 1
    assert "another scale" in reasons[0]


@pytest.mark.parametrize(
    ("constants", "kind", "reason"),
    [
        ({"s": np.full(3, 0.5, np.float32), "z": np.zeros(3, np.uint8)}, np.uint8, "each entry of an axis"),
        ({"s": _scale(0.5), "z": np.array(0, np.uint16)}, np.uint16, "uint16"),
        ({"s": _scale(1e-40), "z": np.array(0, np.uint8)}, np.uint8, "float32 from"),
    ],
)
def test_a_refusal_says_why(constants: dict[str, Array], kind: Any, reason: str) -> None:
    """Scales that change along an axis, wider integers, scales out of range."""
    x = np.zeros((2, 3), np.float32)
    data = _model([node("QuantizeLinear", "x s z", "y")], {"x": x}, constants, kind=kind, opset=21)
    with open_session(data) as session:
        (placed,) = session.placement.nodes
    assert placed.provider != PROVIDER
    assert reason in str(placed.refusals)


@pytest.mark.parametrize("op_type", ["MatMulInteger", "DynamicQuantizeLinear"])
def test_what_is_not_exact_is_refused(op_type: str) -> None:
    """Sums of 32 bits, and scales that a run finds: NumPy's kernels compute them."""
    rng = np.random.default_rng(7)
    x = rng.normal(0, 1, (5, 40)).astype(np.float32)
    w = rng.integers(-127, 128, (40, 6)).astype(np.int8)
    nodes = [
        node("DynamicQuantizeLinear", "x", "q s z"),
        node("MatMulInteger", "q w z", "p"),
        node("Cast", "p", "c", to=1),
        node("Mul", "c s", "y"),
    ]
    data = _model(nodes, {"x": x}, {"w": w}, kind=np.float32)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    with ort.InferenceSession(
        data, options, providers=[PROVIDER, "CPUExecutionProvider"], provider_options=[{"claim_small": True}, {}]
    ) as session:
        reasons = {one.op_type: str(one.refusals) for one in session.placement.nodes if one.provider != PROVIDER}
        (found,) = session.run(None, {"x": x})
    assert "XNNPACK" in reasons[op_type]
    (wanted,) = ReferenceEvaluator(data).run(None, {"x": x})
    np.testing.assert_allclose(found, np.asarray(wanted), rtol=1e-5)


def test_a_bias_keeps_all_digits(computed: list[str]) -> None:
    """Integers of 32 bits have more digits than float32; what is added to products is not rounded to those."""
    channels = 600
    x = np.full((1, channels + 1, 16, 16), 255, np.uint8)
    x[0, -1] = np.arange(256).reshape(16, 16)
    w = np.full((3, channels + 1, 1, 1), -127, np.int8)
    w[:, -1, 0, 0] = [1, 1, -1]
    bias = channels * 255 * 127 + np.array([1, 3, 201], np.int32)
    constants = {
        "xs": _scale(0.5), "xz": np.array(0, np.uint8), "w": w, "ws": _scale(0.25), "wz": np.array(0, np.int8),
        "ys": _scale(0.125), "yz": np.array(0, np.uint8), "b": bias,
    }  # fmt: skip
    data = _model([node("QLinearConv", "x xs xz w ws wz ys yz b", "y")], {"x": x}, constants)
    total = np.einsum("nchw,oc->nohw", x.astype(np.int64), w[:, :, 0, 0].astype(np.int64)) + bias.reshape(-1, 1, 1)
    np.testing.assert_array_equal(_run(data, {"x": x}), np.clip(total, 0, 255))
    assert computed == ["Conv"]


@pytest.mark.parametrize(
    ("attributes", "constants", "reason"),
    [
        ({"alpha": 0.5}, {}, "alpha"),
        ({}, {"as": np.full(5, 0.1, np.float32), "az": np.zeros(5, np.uint8)}, "scales"),
    ],
)
def test_operators_with_scales_that_have_no_counterpart(
    attributes: dict[str, Any], constants: dict[str, Array], reason: str
) -> None:
    """A factor of a product; a scale for each row, which a bias would have to have, too."""
    held = {
        "as": _scale(0.1), "az": np.array(3, np.uint8), "b": np.ones((4, 6), np.uint8), "bs": _scale(0.1),
        "bz": np.array(0, np.uint8), "c": np.ones(6, np.int32), "ys": _scale(0.2), "yz": np.array(0, np.uint8),
    }  # fmt: skip
    x = np.ones((5, 4), np.uint8)
    nodes = [node("QGemm", "x as az b bs bz c ys yz", "y", domain="com.microsoft", **attributes)]
    data = _model(nodes, {"x": x}, held | constants)
    with open_session(data) as session:
        (placed,) = session.placement.nodes
    assert placed.provider != PROVIDER
    assert reason in str(placed.refusals)


def test_weights_that_two_regions_read() -> None:
    """They are dequantised in one, and only the product of the other that reads them is left to NumPy."""
    rng = np.random.default_rng(8)
    x = rng.normal(0, 1, (4, 6)).astype(np.float32)
    w = rng.integers(-127, 128, (6, 6)).astype(np.int8)
    constants = {"w": w, "s": _scale(0.01)}
    nodes = [
        node("DequantizeLinear", "w s", "d"),
        node("MatMul", "x d", "a"),
        node("Ceil", "a", "b"),
        node("Tanh", "b", "t"),
        node("MatMul", "t d", "m"),
        node("MatMul", "t v", "n"),
        node("Add", "m n", "y"),
    ]
    constants["v"] = rng.normal(0, 1, (6, 6)).astype(np.float32)
    data = _model(nodes, {"x": x}, constants, kind=np.float32)
    with open_session(data) as session:
        (found,) = session.run(None, {"x": x})
        assert not session.fallback_report
        others = [one.op_type for one in session.placement.nodes if one.provider != PROVIDER]
    assert len(others) == 2  # the other is a product, which may have become a Gemm
    real = w.astype(np.float32) * np.float32(0.01)
    held = np.tanh(np.ceil(x @ real))
    np.testing.assert_allclose(found, held @ real + held @ constants["v"], rtol=1e-4, atol=1e-5)


def test_sizes_may_change_with_each_run(computed: list[str]) -> None:
    """A plan holds for all sizes; weights are packed once."""
    rng = np.random.default_rng(9)
    x = rng.integers(0, 256, (1, 3, 5, 5)).astype(np.uint8)
    w = rng.integers(*_SMALL, (4, 3, 3, 3)).astype(np.int8)
    data, _ = _convolution(x, w)
    loose = onnx.load_from_string(data)
    for axis in (0, 2, 3):
        loose.graph.input[0].type.tensor_type.shape.dim[axis].dim_param = f"n{axis}"
    data = loose.SerializeToString()
    peer = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    with open_session(data) as session:
        for size in [3, 9, 4, 9, 3]:
            feeds = {"x": rng.integers(0, 256, (1 + size % 3, 3, size, size + 2)).astype(np.uint8)}
            (found,), (wanted,) = session.run(None, feeds), peer.run(None, feeds)
            np.testing.assert_array_equal(found, wanted)
        assert "declined" not in session.plan
        (empty,) = session.run(None, {"x": np.zeros((0, 3, 4, 4), np.uint8)})
        assert empty.shape == (0, 4, 2, 2)
    assert computed == ["Conv"]


@pytest.mark.parametrize("outer", [False, True])
def test_products_are_float32_on_processors_with_outer_products(
    outer: bool, computed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """XNNPACK's integers were wrong there. The result stays within a step of that of integers."""
    monkeypatch.setattr(integers, "has_outer_products", lambda: outer)
    random = np.random.default_rng(3)
    x = random.integers(0, 256, (1, 8, 6, 7)).astype(np.uint8)
    data, feeds = _convolution(x, random.integers(*_SMALL, (4, 8, 2, 2)).astype(np.int8))
    found = _run(data, feeds).astype(np.int64)
    assert computed == ([] if outer else ["Conv"])
    (exact,) = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"]).run(None, feeds)
    assert np.abs(found - exact).max() <= 1


def test_this_processor_is_asked_for_its_features() -> None:
    """The answer is the same whoever asks; a processor of x86-64 has none of ARM's."""
    found = has_outer_products()
    assert has_outer_products() is found
    assert not (found and platform.machine().lower() in {"x86_64", "amd64"})
