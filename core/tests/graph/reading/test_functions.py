"""Functions: inlined exactly, and never a way to exhaust the machine."""

from __future__ import annotations

import time
import tracemalloc

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

from ort_py.errors import InvalidGraph, LimitError
from ort_py.graph.checking.schema import SchemaRegistry
from ort_py.graph.checking.validate import validate
from ort_py.graph.ir import Model, walk
from ort_py.graph.reading.loader import load_model
from ort_py.graph.writing.serialize import model_to_proto
from ort_py.limits import Limits

pytestmark = pytest.mark.quick

HEADER = '<ir_version: 9, opset_import: ["": 18, "d": 1]>'
IMPORTS = '<domain: "d", opset_import: ["": 18, "d": 1]>'


def load(text: str, limits: Limits | None = None) -> Model:
    """A model with functions from ONNX text."""
    return load_model(onnx.parser.parse_model(HEADER + text), limits=limits)


def problems(model: Model) -> str:
    """The errors of the validation."""
    with pytest.raises(InvalidGraph) as caught:
        validate(model, SchemaRegistry())
    return str(caught.value)


def same_result(text: str, **feeds: object) -> Model:
    """The model, after checking that inlining leaves its results as onnxruntime, which inlines too, computes them."""
    proto = onnx.parser.parse_model(HEADER + text)
    model = load_model(proto)
    validate(model, SchemaRegistry())
    inputs = {name: np.asarray(value) for name, value in feeds.items()}
    expected = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, inputs)
    found = onnxruntime.InferenceSession(model_to_proto(model).SerializeToString()).run(None, inputs)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)
    return model


def test_a_call_becomes_the_body() -> None:
    """Values of the caller keep their names, those of the body get the call's; nodes remember the function."""
    model = same_result(
        f"""g (float[2] x) => (float[2] y) {{ ["call"] y = d.f(x) }}
        {IMPORTS} f (a) => (b) {{ t = Relu(a)  ["inner"] b = Neg(t) }}""",
        x=np.array([-1, 2], np.float32),
    )
    relu, neg = model.graph.nodes
    assert [value and value.name for value in relu.outputs + neg.outputs] == ["call/t", "y"]
    assert (relu.name, neg.name) == ("call/t", "call/inner")
    assert relu.origin == neg.origin == "d.f"


def test_calls_of_one_function_do_not_mix() -> None:
    """Each call has values of its own."""
    model = same_result(
        f"""g (float[2] x) => (float[2] y) {{ s = d.f(x)  y = d.f(s) }}
        {IMPORTS} f (a) => (b) {{ t = Abs(a)  b = Neg(t) }}""",
        x=np.array([-1, 2], np.float32),
    )
    assert len(model.graph.nodes) == 4


def test_functions_call_functions() -> None:
    same_result(
        f"""g (float[2] x) => (float[2] y) {{ y = d.outer(x) }}
        {IMPORTS} outer (a) => (b) {{ t = d.inner(a)  b = d.inner(t) }}
        {IMPORTS} inner (a) => (b) {{ b = Neg(a) }}""",
        x=np.array([-1, 2], np.float32),
    )


def test_attributes_are_passed_or_defaulted() -> None:
    """References take the call's value, else the function's default, else they are absent."""
    model = same_result(
        f"""g (float[2] x) => (float[2] y, float[2] z, float[2] w) {{
            y = d.f <alpha: float = 0.5> (x)
            z = d.f (x)
            w = d.h (x)
        }}
        {IMPORTS} f <alpha: float = 0.25> (a) => (b) {{ b = LeakyRelu <alpha: float = @alpha> (a) }}
        {IMPORTS} h <alpha> (a) => (b) {{ b = LeakyRelu <alpha: float = @alpha> (a) }}""",
        x=np.array([-1, 2], np.float32),
    )
    assert [node.attributes for node in model.graph.nodes] == [{"alpha": 0.5}, {"alpha": 0.25}, {}]


def test_constants_may_refer_to_attributes() -> None:
    """The weight is made where the value is known."""
    model = same_result(
        f"""g (float[2] x) => (float[2] y) {{ y = d.f <v: float = 3.0> (x) }}
        {IMPORTS} f <v> (a) => (b) {{ c = Constant <value_float: float = @v> ()  b = Mul(a, c) }}""",
        x=np.array([-1, 2], np.float32),
    )
    assert [node.op_type for node in model.graph.nodes] == ["Mul"]


def test_constants_of_a_function_are_one_weight() -> None:
    model = load(
        f"""g (float[2] x) => (float[2] y) {{ s = d.f(x)  y = d.f(s) }}
        {IMPORTS} f (a) => (b) {{ c = Constant <value_float: float = 2.0> ()  b = Mul(a, c) }}"""
    )
    first, second = model.graph.initializers.values()
    assert first.weight is second.weight


def test_optional_parameters_may_be_absent() -> None:
    """An omitted input is absent inside; an omitted output is computed but not used."""
    model = load(
        f"""g (float[2] x) => (float[2] y) {{ y = d.f(x) }}
        {IMPORTS} f (a, low, high) => (b, c) {{ b = Clip(a, low, high)  c = Neg(b) }}"""
    )
    clip, neg = model.graph.nodes
    assert len(clip.inputs) == 1
    assert neg.outputs[0] is not None
    assert not neg.outputs[0].uses


def test_outputs_that_are_inputs_are_copied() -> None:
    """The caller's values need a producer."""
    model = load(
        f"""g (float[2] x) => (float[2] p, float[2] q) {{ p, q = d.f(x) }}
        {IMPORTS} f (a) => (a, b) {{ b = Neg(a) }}"""
    )
    validate(model, SchemaRegistry())
    x = np.array([-1, 2], np.float32)
    found = ReferenceEvaluator(model_to_proto(model)).run(None, {"x": x})
    for one, expected in zip(found, (x, -x), strict=True):
        np.testing.assert_array_equal(one, expected)


def test_bodies_hold_nested_graphs() -> None:
    """Captures inside a function are the function's values, and references reach into its graphs."""
    model = same_result(
        f"""g (bool c, float[2] t) => (float[2] y, float[2] z) {{
            y = d.f <alpha: float = 0.5> (c, t)
            z = d.f <alpha: float = 0.25> (c, y)
        }}
        {IMPORTS} f <alpha> (c, a) => (b) {{
            t = Neg(a)
            b = If(c) <then_branch = m () => (float[2] u) {{ u = LeakyRelu <alpha: float = @alpha> (t) }},
                       else_branch = n () => (float[2] u) {{ u = Abs(a) }}>
        }}""",
        c=np.array(True),
        t=np.array([1, -2], np.float32),
    )
    names = [v.name for graph in walk(model.graph) for node in graph.nodes for v in node.outputs if v]
    assert len(names) == len(set(names))


def test_overloads_are_told_apart() -> None:
    """Domain, name and overload are the key."""
    proto = onnx.parser.parse_model(
        f"""{HEADER} g (float[2] x) => (float[2] y) {{ s = d.f(x)  y = d.f(s) }}
        {IMPORTS} f (a) => (b) {{ b = Neg(a) }}
        {IMPORTS} f (a) => (b) {{ b = Abs(a) }}"""
    )
    proto.functions[1].overload = proto.graph.node[1].overload = "two"
    assert [node.op_type for node in load_model(proto).graph.nodes] == ["Neg", "Abs"]


def test_functions_keep_their_own_opset() -> None:
    """A body written for another opset means the operators of that opset."""
    model = load(
        """g (float[2] x) => (float[2] y) { s = Softmax(x)  y = d.f(s) }
        <domain: "d", opset_import: ["": 12]> f (a) => (b) { b = Softmax(a) }"""
    )
    validate(model, SchemaRegistry())
    outer, inner = model.graph.nodes
    assert (outer.opset_version, outer.since_version) == (18, 13)
    assert (inner.opset_version, inner.since_version) == (12, 11)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            f"g (float x) => (float y) {{ y = d.f(x, x) }} {IMPORTS} f (a) => (b) {{ b = Neg(a) }}",
            "Node 'y' calls function 'd.f' with 2 inputs; it has 1.",
        ),
        (
            f"g (float x) => (float y) {{ y, z = d.f(x) }} {IMPORTS} f (a) => (b) {{ b = Neg(a) }}",
            "Node 'y' calls function 'd.f' with 2 outputs; it has 1.",
        ),
        (
            f"g (float x) => (float y) {{ y = d.f(x) }} {IMPORTS} f (a) => (b) {{ c = Neg(a) }}",
            "Output 'b' of function 'd.f' is written by no node of it.",
        ),
        (
            f"g (float x) => (float y) {{ y = d.f(x) }} {IMPORTS} f (a) => (b) {{ b = Neg(x) }}",
            "Input 'x' of node 'b' (Neg) is written by no node",
        ),
        (
            f"g (float x) => (float y) {{ y = d.f(x) }} {IMPORTS} f (a) => (b) {{ b = Neg(a) }}"
            f" {IMPORTS} f (a) => (b) {{ b = Abs(a) }}",
            "Function 'd.f' is defined twice.",
        ),
    ],
)
def test_wrong_calls_and_bodies_are_problems(text: str, problem: str) -> None:
    """Counts, missing outputs, names from outside, duplicates."""
    assert problem in problems(load(text))


def test_recursion_is_refused_by_name() -> None:
    """The circle is shown, wherever it starts."""
    with pytest.raises(InvalidGraph, match=r"Function '\w' of the model calls itself(.|\n)*(f -> h -> f|h -> f -> h)"):
        load(
            f"""g (float x) => (float y) {{ y = d.f(x) }}
            {IMPORTS} f (a) => (b) {{ b = d.h(a) }}
            {IMPORTS} h (a) => (b) {{ b = d.f(a) }}"""
        )


def test_recursion_through_a_nested_graph_is_found() -> None:
    """A call in a branch is a call."""
    with pytest.raises(InvalidGraph, match="calls itself"):
        load(
            f"""g (bool c) => (float y) {{ y = d.f(c) }}
            {IMPORTS} f (c) => (b) {{ b = If(c) <then_branch = t () => (float u) {{ u = d.f(c) }},
                                               else_branch = e () => (float u) {{ u = d.f(c) }}> }}"""
        )


def chain(functions: int, calls: int) -> bytes:
    """A model whose functions each call the one before `calls` times; the first is one node."""
    made = [
        helper.make_function(
            "d", "f0", ["x"], ["y"], [helper.make_node("Relu", ["x"], ["y"])], [helper.make_opsetid("", 18)]
        )
    ]
    for index in range(1, functions):
        names = ["x", *[f"t{call}" for call in range(calls - 1)], "y"]
        nodes = [
            helper.make_node(f"f{index - 1}", [names[call]], [names[call + 1]], domain="d") for call in range(calls)
        ]
        made.append(helper.make_function("d", f"f{index}", ["x"], ["y"], nodes, [helper.make_opsetid("d", 1)]))
    graph = helper.make_graph(
        [helper.make_node(f"f{functions - 1}", ["a"], ["b"], domain="d")],
        "g",
        [helper.make_tensor_value_info("a", onnx.TensorProto.FLOAT, [2])],
        [helper.make_tensor_value_info("b", onnx.TensorProto.FLOAT, [2])],
    )
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("d", 1)]
    return helper.make_model(graph, functions=made, opset_imports=opsets, ir_version=9).SerializeToString()


def test_three_thousand_functions_in_a_chain_load() -> None:
    """onnxruntime 1.31 ends in a segmentation fault."""
    content = chain(3000, 1)
    start = time.perf_counter()
    model = load_model(content)
    validate(model, SchemaRegistry())
    assert time.perf_counter() - start < 5
    assert [node.op_type for node in model.graph.nodes] == ["Relu"]
    assert len(model.graph.nodes[0].name) < 400


def test_a_billion_laughs_are_refused_before_a_node_is_copied() -> None:
    """1.4 KB that mean two million nodes: onnxruntime 1.31 does not come back within a minute."""
    content = chain(22, 2)
    tracemalloc.start()
    try:
        with pytest.raises(LimitError, match="Inlining the model's functions makes 6,291,455 nodes"):
            load_model(content)
        assert tracemalloc.get_traced_memory()[1] < 20 << 20
    finally:
        tracemalloc.stop()


def test_what_the_limits_allow_is_built() -> None:
    assert len(load_model(chain(13, 2)).graph.nodes) == 4096


def test_no_limits_still_count_before_expanding() -> None:
    """Only whoever asks for everything gets everything: the size is known without expanding."""
    with pytest.raises(LimitError, match=r"about 2\^\d+ nodes"):
        load_model(chain(200, 3), limits=Limits(inlining_factor=None))
