"""Regions are what TensorRT-RTX's own parser takes, with its words for what it does not."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import onnx
import pytest

from ort_py.contracts import FormalParameter, GraphView, OperatorSchema, SessionContext
from ort_py_kit.graphs import graph_view
from ort_py_tensorrt import capability, nodes
from ort_py_tensorrt.capability import Found, find
from ort_py_tensorrt.options import options_of
from ort_py_tensorrt.parsing import ask
from ort_py_tensorrt.toolkit import Toolkit
from ort_py_tensorrt.variants import RTX
from ort_py_tensorrt.wishes import wishes_of
from providers.tensorrt.tests.models import bert, cnn, mlp, vit, with_weights

CUSTOM = OperatorSchema(
    "Strange",
    "strange",
    inputs=(FormalParameter("x", "tensor(float)"),),
    outputs=(FormalParameter("y", "tensor(float)"),),
    infer=lambda node: [node.inputs[0].type if node.inputs[0] is not None else None],
)


def _able(graph: GraphView) -> list[int]:
    wishes = wishes_of(RTX, {spec.name: spec.default for spec in options_of(RTX)}, SessionContext())
    return [node.index for node in graph.nodes if nodes.refusal(node, graph, RTX, wishes) is None]


def _refusals(text: str, opset: int = 21) -> dict[int, str]:
    graph = graph_view(text, opset=opset)
    wishes = wishes_of(RTX, {spec.name: spec.default for spec in options_of(RTX)}, SessionContext())
    reasons = {node.index: nodes.refusal(node, graph, RTX, wishes) for node in graph.nodes}
    return {index: reason for index, reason in reasons.items() if reason is not None}


def _found(toolkit: Toolkit, model: str | onnx.ModelProto, **options: Any) -> Found:
    graph = graph_view(model, **options)
    return find(
        graph, _able(graph), lambda graph, group: capability.refusals_of(partial(ask, toolkit), graph, group), 8
    )


@pytest.mark.parametrize(
    "model", [mlp(), mlp("N"), cnn(), cnn("N"), vit()], ids=["mlp", "mlp N", "cnn", "cnn N", "vit"]
)
def test_whole_models_are_one_region(model: onnx.ModelProto, toolkit: Toolkit) -> None:
    found = _found(toolkit, model)
    assert found.groups == (tuple(range(len(model.graph.node))),)
    assert (found.reasons, found.rounds) == ({}, 1)


def test_an_encoder_is_one_region_behind_its_embedding(toolkit: Toolkit) -> None:
    """The indices of a Gather are checked by whoever runs it, which an engine does not do."""
    model = bert("B", "L")
    found = _found(toolkit, model)
    assert found.groups == (tuple(range(1, len(model.graph.node))),)


def test_an_operator_without_converter_is_refused_in_the_parsers_words(toolkit: Toolkit) -> None:
    """Its name, its operator and the parser's code are in the reason, and what surrounds it becomes two regions."""
    text = """g (int32[4] x, float[4, 4] w) => (int32[4] y) {
        a = Add(x, x) b = BitwiseNot(a) y = Mul(b, b) }"""
    found = _found(toolkit, text)
    assert found.groups == ((0,), (2,))
    assert found.reasons[1].startswith("TensorRT-RTX's parser refuses BitwiseNot '")
    assert found.reasons[1].endswith("UNSUPPORTED_NODE: the operator is not supported")


def test_an_operator_of_another_domain_cuts_the_graph(toolkit: Toolkit) -> None:
    model = with_weights(
        """g (float[2, 8] x) => (float[2, 8] y) {
        a = MatMul(x, w) b = Relu(a) c = strange.Strange(b) d = MatMul(c, v) y = Relu(d) }""",
        {"w": (8, 8), "v": (8, 8)},
    )
    model.opset_import.add(domain="strange", version=1)
    found = _found(toolkit, model, schemas=[CUSTOM])
    assert found.groups == ((0, 1), (3, 4))
    assert "Plugin not found" in found.reasons[2]
    assert found.rounds == 2


def test_the_parser_is_asked_again_when_a_border_moves() -> None:
    """A node is only refused once its neighbour is: the parser checks nodes behind a refused one less far."""
    graph = graph_view("g (float[2] x) => (float[2] y) { a = Relu(x) b = Exp(a) c = Sin(b) y = Neg(c) }")
    asked = []

    def question(graph: GraphView, group: tuple[int, ...]) -> Mapping[int, str]:
        asked.append(group)
        if 1 in group:
            return {1: "no Exp"}
        return {2: "no Sin first"} if group[0] == 2 else {}

    found = find(graph, range(4), question, 8)
    assert asked == [(0, 1, 2, 3), (0,), (2, 3), (3,)]
    assert found.groups == ((0,), (3,))
    assert found.reasons == {1: "no Exp", 2: "no Sin first"}


def test_what_is_unsettled_after_the_last_round_is_refused() -> None:
    graph = graph_view("g (float[2] x) => (float[2] y) { a = Relu(x) b = Exp(a) c = Sin(b) y = Neg(c) }")
    found = find(graph, range(4), lambda graph, group: {group[-1]: "not the last one"}, 2)
    assert found.groups == ()
    assert set(found.reasons) == {0, 1, 2, 3}
    assert found.reasons[0] == "the parser still refused parts of its region after 2 rounds"


def test_values_that_decide_shapes_stay_outside(toolkit: Toolkit) -> None:
    """An engine would need them on the host."""
    text = """g (float[2, 8] x, int64[2] s) => (float[N, M] y) { a = Relu(x) y = Reshape(a, s) }"""
    found = _found(toolkit, text)
    assert found.groups == ((0,),)
    assert "decide the shape of its result" in found.reasons[1]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("g (double[2] x) => (double[2] y) { y = Relu(x) }", "'x' is a tensor(double)"),
        ("g (float[4] x, int64[2] i) => (float[2] y) { y = Gather(x, i) }", "engines do not check them"),
        ("g (float[0, 4] x) => (float[0, 4] y) { y = Relu(x) }", "'x' has no elements"),
        (
            "g (float[4] x, float s) => (int8[4] y) { y = QuantizeLinear<output_dtype = 3>(x, s) }",
            "have constant scales",
        ),
        (
            "g (float[1, 1, 4] x, float[1, 1, 3] w) => (float[1, 1, N] y) { "
            "y = ConvTranspose<strides = [2], dilations = [3]>(x, w) }",
            "the builder has no kernel",
        ),
        ("g (string[2] x) => (string[2] y) { y = Identity(x) }", "which engines of TensorRT-RTX do not have"),
    ],
)
def test_some_nodes_are_not_shown_to_the_parser(text: str, reason: str) -> None:
    graph = graph_view(text)
    wishes = wishes_of(RTX, {spec.name: spec.default for spec in options_of(RTX)}, SessionContext())
    assert reason in str(nodes.refusal(graph.nodes[0], graph, RTX, wishes))


def test_a_gather_of_constant_indices_is_taken(toolkit: Toolkit) -> None:
    model = with_weights("g (float[4, 8] x) => (float[2, 8] y) { y = Gather(x, i) }", {}, i=np.array([0, 3]))
    assert _found(toolkit, model).groups == ((0,),)


def test_bodies_of_control_flow_are_left_to_the_engine() -> None:
    text = """g (bool c, float[2] x) => (float[2] y) { y = If(c) <
        then_branch = t () => (float[2] a) { a = Relu(x) }, else_branch = e () => (float[2] b) { b = Neg(x) }> }"""
    graph = graph_view(text)
    wishes = wishes_of(RTX, {spec.name: spec.default for spec in options_of(RTX)}, SessionContext())
    assert str(nodes.refusal(graph.nodes[0], graph, RTX, wishes)).startswith("it holds graphs")


def test_regions_that_do_not_pay_are_refused() -> None:
    wishes = wishes_of(RTX, {spec.name: spec.default for spec in options_of(RTX)}, SessionContext())
    small = graph_view("g (float[8] x) => (float[8] y) { y = Relu(x) }").nodes
    large = graph_view("g (float[1024, 1024] x) => (float[1024, 1024] y) { y = Relu(x) }").nodes
    product = graph_view("g (float[2, 2] x) => (float[2, 2] y) { y = MatMul(x, x) }").nodes
    assert str(nodes.group_refusal(small, wishes)).startswith("does not pay")
    assert nodes.group_refusal(large, wishes) is None
    assert nodes.group_refusal(product, wishes) is None


def test_versions_that_the_parser_is_not_documented_for_are_refused() -> None:
    """At version 6, an average pool divides by what of the window lies in the picture."""
    text = "g (float[1, 3, 8, 8] x) => (float[1, 3, 7, 7] y) { y = AveragePool <kernel_shape = [2, 2]> (x) }"
    reason = "the model has version 8 of the operators, and the parser knows 9 and later"
    assert _refusals(text, opset=8) == {0: reason}
    assert _refusals(text, opset=9) == {}


def test_constants_of_int8_are_refused_unless_they_are_dequantised() -> None:
    """The builder takes any others for an error of its caller."""
    text = """g (int8[4] x) => (int8[4] y, float[4] z) <int8[4] w = {1, 2, 3, 4}, float scale = {0.5}> {
        y = Div(x, w) z = DequantizeLinear(w, scale) }"""
    (reason,) = _refusals(text).items()
    assert reason == (0, "'w' is a constant of int8, which the builder takes in front of DequantizeLinear only")
