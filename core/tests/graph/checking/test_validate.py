"""Every reason why a model is none."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import onnx
import pytest

from ort_py.contracts.schema import FormalParameter, OperatorSchema
from ort_py.dtypes import DataType, TensorType, ValueType, parse_value_type
from ort_py.errors import InconsistentGraph, InvalidGraph
from ort_py.graph.checking.schema import SchemaRegistry
from ort_py.graph.checking.validate import check_types, validate
from ort_py.graph.ir import Graph, Model, Node, Value
from ort_py.graph.reading.loader import load_model
from ort_py.graph.typing.shapes import infer_types

pytestmark = pytest.mark.quick


def load(text: str, opset: int = 17) -> Model:
    """A model from ONNX text, without its first line."""
    return load_model(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}, "my.ops": 1]> {text}'))


def problems(text: str, opset: int = 17) -> tuple[str, ...]:
    """The reasons validation gives."""
    with pytest.raises(InvalidGraph, match="The model is not valid ONNX") as caught:
        validate(load(text, opset), SchemaRegistry())
    assert caught.value.fix
    return caught.value.why


def test_a_valid_model_gets_its_versions() -> None:
    """Each node knows the schema in force, in nested graphs too."""
    model = load(
        "g (bool c, float x) => (float y) { y = If(c) <then_branch = t () => (float a) { a = Neg(x) }, "
        "else_branch = e () => (float b) { b = Add(x, x) }> }"
    )
    validate(model, SchemaRegistry())
    (node,) = model.graph.nodes
    assert node.since_version == 16
    assert [graph.nodes[0].since_version for graph in node.subgraphs] == [13, 14]


@pytest.mark.parametrize("outputs", [[], [""]])
def test_a_node_without_outputs_is_refused_where_the_first_is_required(outputs: list[str]) -> None:
    """An unnamed first output beside others is taken, and nodes whose outputs may all be absent are dead code."""
    helper, x = onnx.helper, onnx.helper.make_tensor_value_info("x", 1, [2, 1, 4])
    lstm = helper.make_node("LSTM", ["x", "w", "w"], outputs, hidden_size=4)
    inputs = [x, helper.make_tensor_value_info("w", 1, [1, 16, 4])]
    values = [helper.make_tensor_value_info("y", 1, None)]
    top = helper.make_node("MaxPool", ["x"], ["", "y"], kernel_shape=[2])
    for nodes, lacks in (([lstm, top], False), ([helper.make_node("Relu", ["x"], outputs), top], True)):
        graph = helper.make_graph(nodes, "g", inputs, values)
        model = load_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))
        with pytest.raises(InvalidGraph) if lacks else nullcontext() as caught:
            validate(model, SchemaRegistry())
        if caught is not None:
            assert caught.value.why == ("node 'Relu_0' (Relu): its output 'Y' is missing, and it has no other",)


def test_well_known_domains_are_imported_when_used() -> None:
    """onnxruntime knows them without an import; whoever writes the model again must import them."""
    model = load("g (float[2] x) => (float[2] y) { y = ai.onnx.ml.Normalizer(x) }")
    validate(model, SchemaRegistry())
    assert model.opset_imports["ai.onnx.ml"] == 5


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("y = Sofmax(x)", "node 'y' (Sofmax): domain 'ai.onnx' has no operator Sofmax; did you mean Softmax?"),
        ("y = Cast(x)", "node 'y' (Cast): its attribute 'to' is missing"),
        (
            "y = LeakyRelu <beta = 0.5> (x)",
            "node 'y' (LeakyRelu): LeakyRelu (since version 16) has no attribute 'beta', only: alpha",
        ),
        ("y = Neg <a = 1> (x)", "node 'y' (Neg): Neg (since version 13) has no attribute 'a', only: none"),
        ("y = LeakyRelu <alpha = 1> (x)", "node 'y' (LeakyRelu): its attribute 'alpha' is INT, LeakyRelu wants FLOAT"),
        (
            "y = Transpose <perm = [0.5]> (x)",
            "node 'y' (Transpose): its attribute 'perm' is FLOATS, Transpose wants INTS",
        ),
        ("y = Neg(x, x)", "node 'y' (Neg): it has 2 inputs, Neg takes at most 1"),
        ("y = Add(x)", "node 'y' (Add): its input 'B' (position 1) is missing"),
        ("y = Add(, x)", "node 'y' (Add): its input 'A' (position 0) is missing"),
        ("y = Concat <axis = 0> ()", "node 'y' (Concat): 'inputs' needs at least 1 inputs, it has 0"),
        ("y, z = Neg(x)", "node 'y' (Neg): it has 2 outputs, Neg gives at most 1"),
        ("y = my.ops.F(x)", "node 'y' (my.ops.F): no installed plug-in defines operators of domain 'my.ops'"),
        ('y = Upsample <mode = "nearest"> (x, x)', "Upsample exists until opset 9 of ai.onnx"),
    ],
)
def test_each_mistake_is_told(body: str, problem: str) -> None:
    (found,) = problems(f"g (float[2] x) => (float[2] y) {{ {body} }}")
    assert problem in found


def test_a_loop_needs_neither_condition_nor_carried_values() -> None:
    """Trailing inputs that are absent are cut, also those before a variadic one that may be empty."""
    loop = """
        y = Loop <body = counted (int64 i, bool c) => (bool go, int64 n) {
            go = Identity(c)
            n = Identity(i)
        }> (m, )
    """
    model = load(f"g (int64 m) => (int64[N] y) {{ {loop} }}")
    validate(model, SchemaRegistry())
    assert len(model.graph.nodes[0].inputs) == 1


def test_all_mistakes_are_told_at_once() -> None:
    """Structure first, then nodes in order."""
    found = problems("g (float x) => (float y) { a = Add(x)  b = Nge(a)  y = Neg <q = 1> (ghost) }")
    assert len(found) == 4
    assert "Input 'ghost'" in found[0]
    assert "'A'" in found[1] or "'B'" in found[1]


def test_long_lists_are_cut() -> None:
    """Twenty and the number of the others."""
    body = "\n".join(f"y{index} = Nope(x)" for index in range(50))
    found = problems(f"g (float x) => (float y0) {{ {body} }}")
    assert len(found) == 21
    assert found[-1] == "and 30 more"


def test_problems_inside_nested_graphs_say_where() -> None:
    (found,) = problems(
        'g (bool c, float x) => (float y) { ["if"] y = If(c) <then_branch = t () => (float a) { a = Nope(x) }, '
        "else_branch = e () => (float b) { b = Neg(x) }> }"
    )
    assert found.startswith("node 'a' (Nope) inside 'if': ")


def test_empty_lists_fit_every_list() -> None:
    """An empty list has lost its type."""
    proto = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 12]> g (float[1,2] x) => (float[2] y) { y = Squeeze(x) }'
    )
    proto.graph.node[0].attribute.add(name="axes", type=onnx.AttributeProto.INTS)
    validate(load_model(proto), SchemaRegistry())


def test_contributed_operators_are_checked_too() -> None:
    """A plug-in's schema counts like ONNX's."""
    schema = OperatorSchema("F", "my.ops", inputs=(FormalParameter("X", "T"),), outputs=(FormalParameter("Y", "T"),))
    model = load("g (float x) => (float y) { y = my.ops.F(x, x) }")
    with pytest.raises(InvalidGraph, match="it has 2 inputs, F takes at most 1"):
        validate(model, SchemaRegistry([schema]))


def type_problems(text: str) -> str:
    """The errors that type checking reports for a valid model."""
    model = load(text)
    schemas = SchemaRegistry()
    validate(model, schemas)
    with pytest.raises(InvalidGraph, match="The types in the model contradict") as caught:
        check_types(model, schemas)
    return str(caught.value)


def test_type_variables_are_bound() -> None:
    model = load("g (float[2] x) => (int64[2] y) { y = Cast <to = 7> (x) }")
    schemas = SchemaRegistry()
    validate(model, schemas)
    infer_types(model)
    check_types(model, schemas)
    assert model.graph.nodes[0].type_bindings == {"T1": "tensor(float)", "T2": "tensor(int64)"}


def test_one_variable_cannot_be_two_types() -> None:
    text = type_problems("g (float[2] x, int64[2] z) => (y) { y = Add(x, z) }")
    assert "type variable T is tensor(float) by 'x' and tensor(int64) by input 'z'" in text


def test_forbidden_types_are_told_with_what_is_allowed() -> None:
    text = type_problems("g (bool[2] x) => (y) { y = Add(x, x) }")
    assert "input 'x' is tensor(bool), which Add (since version 14) forbids for 'A'; allowed: tensor(bfloat16)" in text


def test_fixed_types_are_checked() -> None:
    text = type_problems("g (float[2] x, float[1] s) => (y) { y = Reshape(x, s) }")
    assert "input 's' is tensor(float), 'shape' must be tensor(int64)" in text


def test_heterogeneous_variadics_may_mix() -> None:
    """Loop carries values of several types in one variable."""
    model = load(
        """g (int64 n, bool c, float a, int64 b) => (float p, int64 q) {
            p, q = Loop(n, c, a, b) <body = l (int64 i, bool k, float u, int64 v) => (bool k, float u, int64 v) {}>
        }"""
    )
    schemas = SchemaRegistry()
    validate(model, schemas)
    check_types(model, schemas)
    assert model.graph.nodes[0].type_bindings["V"] == "tensor(float)"


@pytest.mark.parametrize(("homogeneous", "refused"), [(True, True), (False, False)])
def test_contributed_variadics_may_mix_where_their_schema_says_so(homogeneous: bool, refused: bool) -> None:
    given = FormalParameter("values", "V", variadic=True, homogeneous=homogeneous)
    taken = OperatorSchema(
        "Pack",
        "my.ops",
        inputs=(given,),
        outputs=(FormalParameter("Y", "tensor(float)"),),
        types={"V": frozenset({"tensor(float)", "tensor(uint8)"})},
    )
    schemas = SchemaRegistry([taken])
    model = load("g (float a, uint8 b) => (y) { y = my.ops.Pack(a, b) }")
    validate(model, schemas)
    with pytest.raises(InconsistentGraph, match="both must be the same") if refused else nullcontext():
        check_types(model, schemas)


@pytest.mark.parametrize(
    "node",
    [
        "p = Loop(n, c, b) <body = l (int64 i, bool k, float u) => (bool k, float u) {}>",
        "p = Scan <num_scan_inputs = 1, body = s (int64 t, float u) => (int64 t) {}> (n, b)",
    ],
)
def test_bodies_take_the_types_that_they_are_given(node: str) -> None:
    """A body that declares other types than it gets would compute in either, depending on the provider."""
    text = type_problems(f"g (int64 n, bool c, int64[3] b) => (p) {{ {node} }}")
    assert "input 'b' is tensor(int64), its body takes 'u' as tensor(float)" in text


def test_unknown_types_are_passed_over() -> None:
    """Types that inference could not find become known when the model runs."""
    model = load("g (float[2] x, float[2] z) => (y) { y = Add(x, z) }")
    model.graph.inputs[0].type = None
    validate(model, SchemaRegistry())
    check_types(model, SchemaRegistry())
    assert model.graph.nodes[0].type_bindings == {"T": "tensor(float)"}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "y = If(c) <then_branch = t (float p) => (float a) { a = Neg(x) }, "
            "else_branch = e () => (float b) { b = Neg(x) }>",
            "its then_branch has 1 inputs, but branches have none",
        ),
        (
            "y, z = If(c) <then_branch = t () => (float a) { a = Neg(x) }, "
            "else_branch = e () => (float b, float b) { b = Neg(x) }>",
            "its then_branch has 1 outputs, the node has 2",
        ),
        (
            "y = If(c) <then_branch = t () => (float a) { a = Neg(x) }, "
            "else_branch = e () => (float b, float b) { b = Neg(x) }>",
            "its then_branch has 1 outputs, its else_branch 2",
        ),
        (
            "y = Loop(n, c, x) <body = l (int64 i, bool k) => (bool k, float x) {}>",
            "its body has 2 inputs, 3 are needed: iteration number, condition and 1 carried values",
        ),
        (
            "y = Loop(n, c, x) <body = l (int64 i, bool k, float u) => (bool k) {}>",
            "its body has 1 outputs, a condition and 1 carried values are needed",
        ),
        (
            "y, z = Loop(n, c, x) <body = l (int64 i, bool k, float u) => (bool k, float u) {}>",
            "its body has 2 outputs, a condition and 2 values are needed",
        ),
        (
            "y = Scan <num_scan_inputs = 1, body = s (float a, float b) => (float b) {}> (v)",
            "its body has 2 inputs, 1 are needed",
        ),
        (
            "y = Scan <num_scan_inputs = 2, body = s (float a) => (float a) {}> (v)",
            "num_scan_inputs is 2, the node has 1 inputs",
        ),
        (
            "y = Scan <num_scan_inputs = 1, body = s (float a, float b) => () {}> (x, v)",
            "its body has 0 outputs, 1 states are needed",
        ),
        (
            "y, z = Scan <num_scan_inputs = 1, body = s (float a) => (float a) {}> (v)",
            "its body has 1 outputs, the node has 2",
        ),
        (
            "q = SequenceConstruct(x)  y = SequenceMap <body = s (float a, float b) => (float b) {}> (q)",
            "its body has 2 inputs, 1 are needed: one for each input of the node",
        ),
    ],
)
def test_bodies_must_fit_their_node(text: str, problem: str) -> None:
    """Counts of inputs and outputs, which no schema can say."""
    found = problems(f"g (bool c, int64 n, float x, float[3] v) => (y) {{ {text} }}")
    assert any(problem in line for line in found)


def single(value_type: ValueType, op_type: str, domain: str, **attributes: object) -> Model:
    """A model of one node with one input of a type."""
    model = Model({domain: 3, "": 17})
    graph = model.graph = Graph("g", model)
    value = Value("x", graph, value_type)
    graph.inputs.append(value)
    node = Node(op_type, [value], graph, name="n", domain=domain, attributes=dict(attributes))
    node.outputs = [Value("y", graph, producer=node)]
    graph.nodes.append(node)
    return model


def test_maps_are_compared_in_one_spelling() -> None:
    """A map of the model is a map of the schema."""
    model = single(parse_value_type("map(int64,tensor(float))"), "CastMap", "ai.onnx.ml")
    validate(model, SchemaRegistry())
    check_types(model, SchemaRegistry())
    model = single(TensorType(DataType.FLOAT), "CastMap", "ai.onnx.ml")
    validate(model, SchemaRegistry())
    with pytest.raises(InvalidGraph, match=r"is tensor\(float\), which CastMap"):
        check_types(model, SchemaRegistry())


def test_tensors_and_types_as_attributes_are_told_apart() -> None:
    """A tensor is wanted, a number is given."""
    model = single(TensorType(DataType.INT64), "ConstantOfShape", "", value=3)
    with pytest.raises(InvalidGraph, match="its attribute 'value' is INT, ConstantOfShape wants TENSOR"):
        validate(model, SchemaRegistry())
    validate(single(TensorType(DataType.INT64), "ConstantOfShape", "", value=np.zeros(1)), SchemaRegistry())
