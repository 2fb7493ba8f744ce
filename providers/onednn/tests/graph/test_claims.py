"""Claims as users see them: what is taken, what is refused and with which words, and when a subgraph pays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from onnx import NodeProto, TensorProto, helper

import ort_py as ort
from ort_py_kit.tolerances import assert_close
from providers.onednn.tests.models import PROVIDER, model, node, open_session, run_plain


def _f(*shape: int) -> np.ndarray[Any, Any]:
    return np.ones(shape, np.float32)


def _n(number: float) -> np.ndarray[Any, Any]:
    return np.array(number, np.float32)


def _i(*numbers: int) -> np.ndarray[Any, Any]:
    return np.array(numbers, np.int64)


X = _f(1, 4, 6, 6)

REFUSED: Mapping[str, tuple[NodeProto, dict[str, np.ndarray[Any, Any]], str]] = {
    "dilated pool": (node("MaxPool", "x", "y", kernel_shape=[2, 2], dilations=[2, 2]), {}, "windows are dilated"),
    "ceil": (
        node("AveragePool", "x", "y", kernel_shape=[2, 2], ceil_mode=1, count_include_pad=1),
        {},
        "averages count the padding",
    ),
    "wide strides": (node("ConvTranspose", "x w", "y", strides=[1, 257]), {"w": _f(4, 1, 1, 1)}, "strides above 256"),
    "beta": (node("Gemm", "m w b", "y", beta=2.0), {"w": _f(4, 4), "b": _f(4)}, "beta is not 1"),
    "steps": (
        node("Slice", "x s e a t", "y"),
        {"s": _i(4), "e": _i(0), "a": _i(3), "t": _i(-2)},
        "steps backwards",
    ),
    "mirrored": (
        node("Pad", "x p", "y", mode="reflect"),
        {"p": _i(0, 0, 9, 1, 0, 0, 1, 1)},
        "its mode is reflect, and it may add more than 8 elements",
    ),
    "scattered": (
        node("Gather", "x i", "y", axis=3),
        {"i": np.arange(64, dtype=np.int64) * 5 % 6},
        "it has too many places to copy each separately",
    ),
    "logarithm": (node("Log", "x", "y"), {}, "oneDNN's logarithm is inaccurate near 1"),
    "cubic": (
        node("Resize", "x - s", "y", mode="cubic"),
        {"s": np.array([1, 1, 2, 2], np.float32)},
        "mode cubic",
    ),
    "nearest": (
        node(
            "Resize",
            "x - s",
            "y",
            mode="nearest",
            nearest_mode="ceil",
            coordinate_transformation_mode="asymmetric",
        ),
        {"s": np.array([1, 1, 8, 8], np.float32)},
        "coordinates asymmetric with ceil",
    ),
    "sizes of two axes": (
        node("Resize", "x - - s", "y", mode="nearest"),
        {"s": _i(1, 4, 12, 12)[None]},
        "neither scales nor sizes can be compared",
    ),
    "long": (
        node("Resize", "x - - s", "y", mode="nearest"),
        {"s": _i(1, 4, 2**31, 6)},
        "2147483648 rows or columns",
    ),
    "aligned corners": (
        node("Resize", "x - s", "y", mode="linear", coordinate_transformation_mode="align_corners"),
        {"s": np.array([1, 1, 2, 2], np.float32)},
        "coordinates align_corners",
    ),
    "statistics": (
        node("LayerNormalization", "x s b", "y m", axis=-1),
        {"s": _f(6), "b": _f(6)},
        "statistics are wanted",
    ),
    "no slope": (node("LeakyRelu", "x", "y", alpha=0.0), {}, "0 · -infinity is not a number"),
    "no lower bound": (node("Clip", "x l h", "y"), {"l": _n(np.nan), "h": _n(1)}, "a bound is NaN"),
    "no upper bound": (node("Clip", "x l h", "y"), {"l": _n(0), "h": _n(np.nan)}, "a bound is NaN"),
    "steep celu": (node("Celu", "x", "y", alpha=0.5), {}, "x / alpha may overflow"),
    "endless celu": (node("Celu", "x", "y", alpha=float("inf")), {}, "alpha is not a finite number above 0"),
    "exponent": (node("Pow", "x e", "y"), {"e": _n(1.7)}, "an unusual exponent"),
    "unknown operator": (node("Sin", "x", "y"), {}, "does not support this operator"),
}


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_refusals_say_why(name: str) -> None:
    """An attribute or operand that oneDNN has nothing for: the placement report has the reason."""
    made, constants, reason = REFUSED[name]
    feeds = {"m": _f(3, 4)} if "m" in made.input else {"x": X}
    with open_session(model([made], feeds, constants, [name for name in made.output if name != "i"])) as session:
        (found,) = session.placement.nodes
        assert found.provider == "CPUExecutionProvider"
        assert any(who == PROVIDER and reason in why for who, why in found.refusals), found.refusals


def test_the_mean_alone_is_left_to_others() -> None:
    """Nobody reads what is normalised: the one output that is used is not the one that oneDNN makes."""
    made = node("LayerNormalization", "x s b", "y m", axis=-1)
    with open_session(model([made], {"x": X}, {"s": _f(6), "b": _f(6)}, ["m"])) as session:
        ((_, why),) = session.placement.nodes[0].refusals
        assert why == "statistics are wanted"


def test_other_types_are_left_to_others() -> None:
    x = helper.make_tensor_value_info("x", TensorProto.DOUBLE, [200, 200])
    y = helper.make_tensor_value_info("y", TensorProto.DOUBLE, [200, 200])
    graph = helper.make_graph([node("Relu", "x", "y")], "g", [x], [y])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    with open_session(made.SerializeToString()) as session:
        ((_, why),) = session.placement.nodes[0].refusals
        assert why == "'x' is double; only float32, float16 and bfloat16 are computed"


def test_shapes_that_are_data_are_refused() -> None:
    """A Reshape whose shape is an input of the model could need a plan for each run."""
    shape = helper.make_tensor_value_info("s", TensorProto.INT64, [2])
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 6])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([node("Reshape", "x s", "y")], "g", [x, shape], [y])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    with open_session(made.SerializeToString()) as session:
        reasons = [why for _, why in session.placement.nodes[0].refusals]
        assert reasons == ["input 1 is neither constant nor computed from shapes"]


def _decoder_step(past: int | str) -> bytes:
    """Keys and values behind those of the past, and attention over all of them."""
    state = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 2, past, 8]) for name in ("pk", "pv")]
    fresh = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 2, 3, 8]) for name in ("k", "v")]
    query = helper.make_tensor_value_info("q", TensorProto.FLOAT, [1, 3, 16])
    nodes = [
        node("Tanh", "k", "tk"),
        node("Tanh", "v", "tv"),
        node("Concat", "pk tk", "keys", axis=2),
        node("Concat", "pv tv", "values", axis=2),
        node("MultiHeadAttention", "q keys values", "y", num_heads=2, domain="com.microsoft"),
    ]
    results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("y", "keys", "values")]
    graph = helper.make_graph(nodes, "g", [query, *fresh, *state], results)
    imports = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=9).SerializeToString()


def test_a_cache_that_grows_is_left_to_others() -> None:
    """With it in a region, each token of a decoder would need a new plan."""
    with open_session(_decoder_step("past")) as session:
        reasons = {one.op_type: [why for _, why in one.refusals] for one in session.placement.nodes}
    assert reasons["Concat"] == ["it extends a cache that grows from run to run: a plan would serve one run"]
    assert reasons["MultiHeadAttention"] == [
        "the number of its keys and values changes from run to run: a plan would serve one run"
    ]


def test_a_cache_of_known_size_is_taken() -> None:
    """Keys and values that are split into heads already; the result is that of the other provider."""
    data = _decoder_step(5)
    shapes = {"q": (1, 3, 16), "k": (1, 2, 3, 8), "v": (1, 2, 3, 8), "pk": (1, 2, 5, 8), "pv": (1, 2, 5, 8)}
    random = np.random.default_rng(4)
    feeds = {name: random.standard_normal(shape, np.float32) for name, shape in shapes.items()}
    with open_session(data) as session:
        assert {one.provider for one in session.placement.nodes} == {PROVIDER}
        found = session.run(None, feeds)
    for left, right in zip(found, run_plain(data, feeds), strict=True):
        assert_close(left, right)


def _default(data: bytes) -> ort.InferenceSession:
    return ort.InferenceSession(data, providers=["CPUExecutionProvider"])


def test_a_few_numbers_do_not_pay() -> None:
    """Four floats are faster in NumPy; the reason says what would have paid."""
    with _default(model([node("Relu", "x", "y")], {"x": _f(4)})) as session:
        (found,) = session.placement.nodes
        assert found.provider == "CPUExecutionProvider"
        assert "too little work for a call to oneDNN" in found.refusals[0][1]


def test_a_large_tensor_or_a_product_pays() -> None:
    """And the provider stands in for the CPU without being named."""
    large = model([node("Relu", "x", "y")], {"x": _f(128, 128)})
    product = model([node("MatMul", "x w", "y")], {"x": _f(2, 3)}, {"w": _f(3, 4)})
    for data in (large, product):
        with _default(data) as session:
            assert [one.provider for one in session.placement.nodes] == [PROVIDER]


def test_groups_are_convex() -> None:
    """A node that others must run between two of ours splits them; a side branch does not."""
    nodes = [
        node("Conv", "x w", "a"),
        node("Sin", "a", "b"),
        node("Add", "a b", "c"),
        node("Conv", "c w", "y"),
        node("Relu", "a", "z"),
    ]
    with open_session(model(nodes, {"x": X}, {"w": _f(4, 4, 1, 1)}, ["y", "z"])) as session:
        regions = {one.op_type: one.provider for one in session.placement.nodes}
        assert regions["Sin"] == "CPUExecutionProvider"
        assert {who for op_type, who in regions.items() if op_type != "Sin"} == {PROVIDER}
        first, second = session.run(None, {"x": X})
    a = np.full((1, 4, 6, 6), 4, np.float32)
    np.testing.assert_allclose(first, 4 * (a + np.sin(a)), rtol=1e-5)
    np.testing.assert_array_equal(second, a)
