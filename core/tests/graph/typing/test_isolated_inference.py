"""Inference in a process of its own: the same types, and a crash or a hang there ends nothing but that process."""

from __future__ import annotations

import os
import sys
import time

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import ort_py
from ort_py.dtypes import TensorType, ValueType
from ort_py.errors import InconsistentGraph, InvalidArgument, LimitError
from ort_py.graph.ir import Model, walk
from ort_py.graph.reading.loader import load_model
from ort_py.graph.typing.inference_guard import MOST_AXES
from ort_py.graph.typing.native_inference import InferenceError, infer_shapes
from ort_py.graph.typing.shapes import infer_types
from ort_py.limits import Budget, Limits
from ort_py_kit.graphs import model_from_text

ISOLATED = Limits(isolated_inference=True)

COMPUTED = """g (float[N, 4] x) => (float[P, Q] y)
<int64[1] minus = {-1}, int64[1] zero = {0}>
{
    s = Shape(x)
    first = Slice(s, zero, minus)
    target = Concat<axis = 0>(first, minus)
    r = Reshape(x, target)
    y = Relu(r)
}"""


def _model(node: onnx.NodeProto, shape: list[int] | None) -> bytes:
    info = helper.make_tensor_value_info
    graph = helper.make_graph([node], "g", [info("x", TensorProto.FLOAT, shape)], [info("y", TensorProto.FLOAT, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    return bytes(model.SerializeToString())


def _types(model: Model) -> list[ValueType | None]:
    nodes = [node for graph in walk(model.graph) for node in graph.nodes]
    return [value.type for node in nodes for value in node.outputs if value is not None]


LETHAL = _model(helper.make_node("Split", ["x"], ["y", "z"], num_outputs=1), [2, 3])
"""onnx 1.23 aborts for it."""

ENDLESS = helper.make_model(
    helper.make_graph(
        [helper.make_node("Expand", ["x", "s"], ["y"])],
        "g",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [2**31 - 1]),
            helper.make_tensor_value_info("s", TensorProto.INT64, [2**31 - 1]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    ),
    opset_imports=[helper.make_opsetid("", 8)],
).SerializeToString()
"""onnx 1.23 makes a shape of 2³¹ axes for it."""


def test_types_are_those_of_inference_in_this_process() -> None:
    """This holds for whole graphs, and for nodes that are typed one by one after their shape was computed."""
    found = []
    for limits in (Limits(), ISOLATED):
        model = load_model(model_from_text(COMPUTED).SerializeToString(), limits=limits)
        infer_types(model)
        found.append([repr(known) for known in _types(model)])
    assert found[0] == found[1]


@pytest.mark.skipif(sys.platform == "win32", reason="onnx does not crash for it there")
def test_a_crash_is_an_error_and_the_next_model_is_typed() -> None:
    """The process that crashed is replaced."""
    budget = Budget(ISOLATED)
    with pytest.raises(InconsistentGraph, match="crashes or hangs on this model"):
        infer_shapes(LETHAL, strict=False, budget=budget)
    whole = infer_shapes(_model(helper.make_node("Relu", ["x"], ["y"]), [2, 3]), strict=True, budget=budget)
    assert [dim.dim_value for dim in whole.graph.output[0].type.tensor_type.shape.dim] == [2, 3]


def test_what_does_not_end_is_ended_when_loading_may_last_no_longer() -> None:
    """The error is that of the time limit, close to the limit."""
    start = time.monotonic()
    with pytest.raises(LimitError, match=r"takes longer than 0\.5 s"):
        infer_shapes(ENDLESS, strict=False, budget=Budget(Limits(isolated_inference=True, load_seconds=0.5)))
    assert time.monotonic() - start < 10


def test_contradictions_are_onnx_s_own_errors() -> None:
    """Its texts pass through the process border."""
    wrong = _model(helper.make_node("Flatten", ["x"], ["y"], axis=7), [2, 3])
    with pytest.raises(InferenceError, match="axis"):
        infer_shapes(wrong, strict=True, budget=Budget(ISOLATED))


def test_what_is_no_model_is_an_error() -> None:
    with pytest.raises(ValueError, match=r".+"):
        infer_shapes(b"\xff\xff", strict=False, budget=Budget(ISOLATED))


def test_without_a_python_to_start_nothing_is_inferred(monkeypatch: pytest.MonkeyPatch) -> None:
    """An embedded interpreter cannot start a process: types come from schemas and declarations alone."""
    monkeypatch.setattr(sys, "executable", "")
    text = "g (float[2, 3] x) => (float[a, b] y) { t = Celu(x) y = Cast<to = 1>(t) }"
    model = load_model(model_from_text(text).SerializeToString(), limits=ISOLATED)
    infer_types(model)
    inner, result = _types(model)
    assert getattr(inner, "shape", None) is None
    assert str(result) == "tensor(float)"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked on POSIX only")
def test_a_forked_process_starts_its_own() -> None:
    """Two processes that wrote to one would read each other's answers."""
    model = _model(helper.make_node("Relu", ["x"], ["y"]), [2, 3])
    infer_shapes(model, strict=True, budget=Budget(ISOLATED))
    child = os.fork()
    if child == 0:
        found = infer_shapes(_model(helper.make_node("Relu", ["x"], ["y"]), [5]), strict=True, budget=Budget(ISOLATED))
        os._exit(found.graph.output[0].type.tensor_type.shape.dim[0].dim_value)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
    assert (
        infer_shapes(model, strict=True, budget=Budget(ISOLATED))
        .graph.output[0]
        .type.tensor_type.shape.dim[1]
        .dim_value
        == 3
    )


def test_a_load_cannot_be_killed_by_an_attribute_under_the_default_limits() -> None:
    """Attributes beyond 32 bits, and targets of more elements than there are axes, never reach inference."""
    for kernel in (2**63 - 1, -(2**63), 2**31):
        model = load_model(_model(helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[kernel, 1]), [1, 1, 8, 8]))
        infer_types(model)
        assert [getattr(known, "shape", None) for known in _types(model)] == [None]
    model = load_model(ENDLESS)
    infer_types(model)
    (known,) = _types(model)
    assert isinstance(known, TensorType)
    assert len(known.shape or ()) <= MOST_AXES


@pytest.mark.parametrize("opset", [8, 10, 13])
def test_a_computed_target_gives_an_expand_its_rank(opset: int) -> None:
    """The target of an Expand is cut for inference; what is known of its length still counts, in nested graphs too."""
    text = """g (float[N] x, bool c) => (float[P, Q] y) {
        y = If (c) <
            then_branch = t () => (float[P1, Q1] ty) { s = Cast<to = 7>(two) ty = Expand(x, s) },
            else_branch = e () => (float[P2, Q2] ey) { r = Shape(x) z = Concat<axis = 0>(r, r) ey = Expand(x, z) }>
    }"""
    model = model_from_text(text, opset)
    model.graph.initializer.append(numpy_helper.from_array(np.array([2, 1], np.int32), "two"))
    loaded = load_model(model.SerializeToString())
    infer_types(loaded)
    for graph in walk(loaded.graph):
        for node in graph.nodes:
            if node.op_type == "Expand":
                (known,) = [value.type for value in node.outputs if value is not None]
                assert isinstance(known, TensorType)
                assert len(known.shape or ()) == 2


@pytest.mark.parametrize("op_type", ["Conv", "ConvTranspose", "MaxPool", "AveragePool", "LpPool"])
def test_padding_that_is_no_text_is_refused_with_its_reason(op_type: str) -> None:
    """Attributes that are not UTF-8 are kept as bytes; inference is guarded against them, too."""
    weights = ["w"] if op_type.startswith("Conv") else []
    node = helper.make_node(op_type, ["x", *weights], ["y"], kernel_shape=[2, 2])
    node.attribute.append(onnx.AttributeProto(name="auto_pad", type=onnx.AttributeProto.STRING, s=b"\xffSAME"))
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        [node],
        "g",
        [info("x", TensorProto.FLOAT, ["N", 2, 5, 5])],
        [info("y", TensorProto.FLOAT, None)],
        [helper.make_tensor("w", TensorProto.FLOAT, [2, 2, 2, 2], [1.0] * 16)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8).SerializeToString()
    with pytest.raises(InvalidArgument, match="auto_pad is"):
        ort_py.InferenceSession(model).run(None, {"x": np.ones((1, 2, 5, 5), np.float32)})
