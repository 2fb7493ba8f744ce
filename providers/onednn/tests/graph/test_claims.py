"""Claims as users see them: what is taken, what is refused and with which words, and when a subgraph pays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from onnx import NodeProto, TensorProto, helper

import ort_py as ort
from providers.onednn.tests.models import PROVIDER, model, node, open_session


def _f(*shape: int) -> np.ndarray[Any, Any]:
    return np.ones(shape, np.float32)


def _n(number: float) -> np.ndarray[Any, Any]:
    return np.array(number, np.float32)


def _i(*numbers: int) -> np.ndarray[Any, Any]:
    return np.array(numbers, np.int64)


X = _f(1, 4, 6, 6)

REFUSED: Mapping[str, tuple[NodeProto, dict[str, np.ndarray[Any, Any]], str]] = {
    "dilated pool": (node("MaxPool", "x", "y", kernel_shape=[2, 2], dilations=[2, 2]), {}, "dilated windows"),
    "ceil": (node("AveragePool", "x", "y", kernel_shape=[2, 2], ceil_mode=1), {}, "averages with ceil_mode"),
    "output_shape": (
        node("ConvTranspose", "x w", "y", output_shape=[7, 7]),
        {"w": _f(4, 4, 2, 2)},
        "output_shape is given",
    ),
    "beta": (node("Gemm", "m w b", "y", beta=2.0), {"w": _f(4, 4), "b": _f(4)}, "beta is not 1"),
    "steps": (
        node("Slice", "x s e a t", "y"),
        {"s": _i(0), "e": _i(4), "a": _i(3), "t": _i(2)},
        "steps other than 1",
    ),
    "pad mode": (node("Pad", "x p", "y", mode="reflect"), {"p": _i(0, 0, 1, 1, 0, 0, 1, 1)}, "mode reflect"),
    "pad value": (
        node("Pad", "x p v", "y"),
        {"p": _i(0, 0, 1, 1, 0, 0, 1, 1), "v": _n(3)},
        "padding with a number other than 0",
    ),
    "cubic": (
        node("Resize", "x - s", "y", mode="cubic"),
        {"s": np.array([1, 1, 2, 2], np.float32)},
        "mode cubic",
    ),
    "nearest factor": (
        node("Resize", "x - s", "y", mode="nearest"),
        {"s": np.array([1, 1, 1.5, 1.5], np.float32)},
        "factors are no whole numbers",
    ),
    "aligned corners": (
        node("Resize", "x - s", "y", mode="linear", coordinate_transformation_mode="align_corners"),
        {"s": np.array([1, 1, 2, 2], np.float32)},
        "coordinates align_corners",
    ),
    "extreme": (node("ReduceMax", "x", "y"), {}, "of infinities it would find a wrong extreme"),
    "statistics": (
        node("LayerNormalization", "x s b", "y m", axis=-1),
        {"s": _f(6), "b": _f(6)},
        "statistics are wanted",
    ),
    "exponent": (node("Pow", "x e", "y"), {"e": _n(1.7)}, "an unusual exponent"),
    "unknown operator": (node("Sin", "x", "y"), {}, "does not have this operator"),
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


def test_other_types_are_left_to_others() -> None:
    """Only float32 is computed."""
    x = helper.make_tensor_value_info("x", TensorProto.DOUBLE, [200, 200])
    y = helper.make_tensor_value_info("y", TensorProto.DOUBLE, [200, 200])
    graph = helper.make_graph([node("Relu", "x", "y")], "g", [x], [y])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    with open_session(made.SerializeToString()) as session:
        ((_, why),) = session.placement.nodes[0].refusals
        assert why == "'x' is double; only float32 is computed"


def test_shapes_that_are_computed_are_refused() -> None:
    """A Reshape whose shape is an input is not planned for."""
    shape = helper.make_tensor_value_info("s", TensorProto.INT64, [2])
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 6])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([node("Reshape", "x s", "y")], "g", [x, shape], [y])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    with open_session(made.SerializeToString()) as session:
        reasons = [why for _, why in session.placement.nodes[0].refusals]
        assert reasons == ["input 1 is no constant"]


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
