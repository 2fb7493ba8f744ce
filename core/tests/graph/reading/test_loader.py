"""From a file to the in-memory model."""

from __future__ import annotations

import gc
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from ort_py.dtypes import DataType, TensorType
from ort_py.errors import Fail, InvalidGraph, LimitError, OrtPyError
from ort_py.graph.checking.schema import SchemaRegistry
from ort_py.graph.checking.validate import validate
from ort_py.graph.ir import Model, walk
from ort_py.graph.reading.loader import load_model
from ort_py.graph.weights.weight_store import WeightStore
from ort_py.limits import Limits

pytestmark = pytest.mark.quick


def load(text: str, **options: object) -> Model:
    """A model from ONNX text, without its first line."""
    return load_model(
        onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> {text}'),
        **options,  # type: ignore[arg-type]  # passed on as they are
    )


def problems(model: Model) -> str:
    """The errors of the validation."""
    with pytest.raises(InvalidGraph) as caught:
        validate(model, SchemaRegistry())
    assert caught.value.fix
    return str(caught.value)


def test_the_graph_has_values_nodes_and_uses() -> None:
    """Inputs, outputs, producers and readers are connected."""
    model = load("g (float[N,2] x) => (float[N,2] y) { t = Relu(x)  y = Add(t, x) }")
    relu, add = model.graph.nodes
    (x,) = model.graph.inputs
    (y,) = model.graph.outputs
    assert x.type == TensorType(DataType.FLOAT, ("N", 2))
    assert list(x.uses) == [(relu, 0), (add, 1)]
    assert y.producer is add
    assert y.is_graph_output
    assert relu.outputs == add.inputs[:1]
    assert not model.problems


def test_the_header_is_kept() -> None:
    proto = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["ai.onnx": 17, "x": 3], producer_name: "p", producer_version: "1", '
        'domain: "d", model_version: 7, doc_string: "doc"> g () => () {}'
    )
    helper.set_model_props(proto, {"k": "v"})
    model = load_model(proto)
    assert model.opset_imports == {"": 17, "x": 3}
    assert (model.producer_name, model.producer_version, model.domain) == ("p", "1", "d")
    assert (model.model_version, model.doc_string, model.metadata, model.source) == (7, "doc", {"k": "v"}, "")


def test_constants_become_weights() -> None:
    """No Constant node is left; its output is an initializer."""
    model = load("g () => (float[2] y) { c = Constant<value_floats = [1.0, 2.0]>()  y = Neg(c) }")
    assert [node.op_type for node in model.graph.nodes] == ["Neg"]
    value = model.graph.initializers["c"]
    assert value.constant
    assert value.weight is not None
    assert value.weight.array().tolist() == [1, 2]
    assert value.type == TensorType(DataType.FLOAT, (2,))


def test_a_constant_without_a_value_is_a_problem() -> None:
    assert "Constant 'c' must have exactly one attribute" in problems(
        load("g () => (float y) { c = Constant()  y = Neg(c) }")
    )


def with_initializer_input(ir_version: int) -> Model:
    """A model whose weight is also listed as an input of unknown size."""
    proto = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 8]> g (float[2] x, float[K] w) => (float[2] y) <float[2] w = {1.0, 2.0}>'
        "{ y = Add(x, w) }"
    )
    if not proto.graph.initializer:
        proto.graph.initializer.append(numpy_helper.from_array(np.array([1, 2], np.float32), "w"))
    if all(info.name != "w" for info in proto.graph.input):
        proto.graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, ["K"]))
    proto.ir_version = ir_version
    return load_model(proto)


def test_listed_initializers_can_be_fed_since_ir_4() -> None:
    """They are defaults: not constant, not among the inputs, with the type that is declared."""
    model = with_initializer_input(4)
    value = model.graph.initializers["w"]
    assert value.overridable
    assert not value.constant
    assert value.type == TensorType(DataType.FLOAT, ("K",))
    assert [value.name for value in model.graph.inputs] == ["x"]


def test_listed_initializers_are_constant_before_ir_4() -> None:
    """Every initializer had to be listed then."""
    model = with_initializer_input(3)
    assert model.graph.initializers["w"].constant
    assert [value.name for value in model.graph.inputs] == ["x"]


def test_initializers_must_have_the_type_of_their_input() -> None:
    proto = onnx.parser.parse_model('<ir_version: 8, opset_import: ["": 8]> g (int64[2] w) => () {}')
    proto.graph.initializer.append(numpy_helper.from_array(np.zeros(2, np.float32), "w"))
    text = problems(load_model(proto))
    assert "Initializer 'w' is tensor(float), but the input of that name is declared as tensor(int64)" in text


def test_absent_inputs_are_none_and_trailing_ones_cut() -> None:
    (node,) = load("g (float x, float m) => (float y) { y = Clip(x, , m) }").graph.nodes
    assert [value and value.name for value in node.inputs] == ["x", None, "m"]
    proto = onnx.parser.parse_model('<ir_version: 8, opset_import: ["": 17]> g (float x) => (float y) { y = Clip(x) }')
    proto.graph.node[0].input.extend(["", ""])
    assert len(load_model(proto).graph.nodes[0].inputs) == 1


def test_nodes_without_a_name_are_called_by_their_output() -> None:
    """So that messages can name them."""
    assert load("g (float x) => (float y) { y = Neg(x) }").graph.nodes[0].name == "y"


def test_unsorted_nodes_are_sorted() -> None:
    """onnxruntime does this too. A valid order of the file is kept."""
    model = load("g (float x) => (float y) { y = Neg(c)  b = Abs(x)  c = Relu(b) }")
    assert [node.op_type for node in model.graph.nodes] == ["Abs", "Relu", "Neg"]
    validate(model, SchemaRegistry())


NESTED = """g (bool c, float x) => (float y) {
    y = If(c) <then_branch = t () => (float out) { out = Add(x, late) },
               else_branch = e () => (float out) { x = Neg(late)  out = Abs(x) }>
    late = Relu(x)
}"""


def test_nested_graphs_capture_outer_values() -> None:
    """A capture is a use of the outer value, and orders the nodes outside."""
    model = load(NESTED)
    relu, if_node = model.graph.nodes
    assert (relu.op_type, if_node.op_type) == ("Relu", "If")
    then_branch, else_branch = if_node.subgraphs
    assert [value.name for value in then_branch.captures()] == ["x", "late"]
    assert then_branch.owner is if_node
    assert then_branch.nodes[0].path == (if_node.name,)
    (late,) = relu.outputs
    assert late is not None
    assert [node.op_type for node, _ in late.uses] == ["Add", "Neg"]
    assert [value.name for value in else_branch.captures()] == ["late"]


def test_names_are_unique_in_the_whole_model() -> None:
    """Siblings and inner graphs that reuse a name get another; the main graph keeps its own."""
    model = load(NESTED)
    names = [value.name for graph in walk(model.graph) for node in graph.nodes for value in node.outputs if value]
    names += [value.name for value in model.graph.inputs]
    assert len(names) == len(set(names))
    assert {"c", "x", "y", "late", "out", "out_1"} <= set(names)


def test_a_graph_may_return_an_outer_value_or_an_input() -> None:
    """Outputs are values wherever they come from, and may repeat."""
    model = load(
        "g (bool c, float x) => (float y, float x, float y) "
        "{ y = If(c) <then_branch = t () => (x) {}, else_branch = e () => (x) {}> }"
    )
    y, x, again = model.graph.outputs
    assert x is model.graph.inputs[1]
    assert again is y
    assert all(graph.outputs == [x] for graph in model.graph.nodes[0].subgraphs)


def test_dangling_inputs_and_outputs_are_problems() -> None:
    """Everything wrong with the structure is in one message."""
    text = problems(load("g (float x) => (float y, float z) { y = Add(x, ghost)  t = Neg(ghost) }"))
    assert "Input 'ghost' of node 'y' (Add) is written by no node, and is neither an input nor an initializer." in text
    assert "Output 'z' of graph 'g' is written by no node" in text
    assert text.count("ghost") == 1


def test_outer_graphs_do_not_see_inner_values() -> None:
    branches = (
        "y = If(c) <then_branch = t () => (float a) { a = Constant<value_float = 1.0>() }, "
        "else_branch = e () => (float b) { b = Identity(?) }>"
    )
    sibling = load(f"g (bool c) => (float y) {{ {branches.replace('?', 'a')} }}")
    assert "Input 'a' of node 'b' (Identity)" in problems(sibling)
    outside = load(f"g (bool c) => (float z) {{ {branches.replace('?', 'c')}  z = Neg(a) }}")
    assert "Input 'a' of node 'z' (Neg)" in problems(outside)


def test_cycles_are_problems_with_their_nodes() -> None:
    """The text walks around the cycle."""
    text = problems(load("g (float x) => (float c) { a = Add(x, c)  b = Neg(a)  c = Abs(b) }"))
    assert "Nodes depend on each other in a cycle" in text
    for node in ("'a' (Add)", "'b' (Neg)", "'c' (Abs)"):
        assert node in text


def test_cycles_through_nested_graphs_are_found() -> None:
    """A node whose body reads what the node writes."""
    text = problems(
        load(
            "g (bool c) => (float y) { y = If(c) <then_branch = t () => (float a) { a = Neg(y) }, "
            "else_branch = e () => (float b) { b = Constant<value_float = 1.0>() }> }"
        )
    )
    assert "in a cycle: 'y' (If) -> 'y'" in text


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("g (float x) => (float y) { y = Neg(x)  y = Abs(x) }", "Value 'y' is defined more than once"),
        ("g (float x) => (float x) { x = Neg(x) }", "Value 'x' is defined more than once"),
        ("g (float x, float x) => (float y) { y = Neg(x) }", "Input 'x' of graph 'g' is declared twice"),
    ],
)
def test_duplicate_names_are_problems(text: str, problem: str) -> None:
    """Two nodes, a node and an input, two inputs."""
    assert problem in problems(load(text))


def test_duplicate_and_nameless_initializers_are_problems() -> None:
    proto = onnx.parser.parse_model('<ir_version: 8, opset_import: ["": 17]> g () => () {}')
    for name in ("w", "w", ""):
        proto.graph.initializer.append(numpy_helper.from_array(np.zeros(2), name))
    proto.graph.input.add()
    text = problems(load_model(proto))
    assert "Initializer 'w' of graph 'g' is defined twice." in text
    assert "An initializer of graph 'g' has no name." in text
    assert "An input of graph 'g' has no name." in text


def test_references_outside_functions_are_problems() -> None:
    """Only a function has attributes to refer to."""
    proto = onnx.parser.parse_model('<ir_version: 8, opset_import: ["": 17]> g (float x) => (float y) { y = Elu(x) }')
    proto.graph.node[0].attribute.add(name="alpha", ref_attr_name="a", type=onnx.AttributeProto.FLOAT)
    assert "Attribute 'alpha' of node 'y' (Elu) refers to the attribute 'a' of a function" in problems(
        load_model(proto)
    )


def header(opsets: dict[str, int], ir_version: int = 8) -> onnx.ModelProto:
    """A model with one node and this header."""
    proto = onnx.parser.parse_model('<ir_version: 8, opset_import: ["": 17]> g (float x) => (float y) { y = Neg(x) }')
    del proto.opset_import[:]
    proto.opset_import.extend(helper.make_opsetid(domain, version) for domain, version in opsets.items())
    proto.ir_version = ir_version
    return proto


@pytest.mark.parametrize(
    ("proto", "text"),
    [
        (header({"": 17}, 0), "The model has no IR version."),
        (header({"": 17}, 99), f"IR version 99; the newest supported one is {onnx.IR_VERSION}."),
        (header({}), "The model imports no opset."),
        (header({"": 999}), f"opset 999 of ai.onnx; the newest supported one is {onnx.defs.onnx_opset_version()}."),
        (header({"": 17, "ai.onnx.ml": 99}), "opset 99 of ai.onnx.ml; the newest supported one is"),
        (header({"": 17, "com.microsoft": 2}), "opset 2 of com.microsoft; the newest supported one is 1."),
        (header({"": 0}), "opset 0 of ai.onnx, which does not exist"),
    ],
)
def test_headers_nobody_understands_are_refused(proto: onnx.ModelProto, text: str) -> None:
    """Fail, as in onnxruntime, with a reason and a fix."""
    with pytest.raises(Fail) as caught:
        load_model(proto)
    assert text in str(caught.value)
    assert caught.value.why
    assert caught.value.fix


def test_unknown_domains_may_be_imported() -> None:
    """Exporters import more than they use."""
    assert load_model(header({"": 17, "nobody": 12})).opset_imports["nobody"] == 12


def test_models_before_opsets_have_opset_1() -> None:
    """IR version 2 had no imports."""
    assert load_model(header({}, 2)).opset_imports == {"": 1}


def test_external_data_lies_beside_the_model(tmp_path: Path) -> None:
    """Two loads of one model share the mapped array."""
    proto = onnx.parser.parse_model('<ir_version: 8, opset_import: ["": 17]> g () => (float[4] y) { y = Neg(w) }')
    tensor = proto.graph.initializer.add(name="w", data_type=TensorProto.FLOAT, dims=[4])
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="w.bin")
    (tmp_path / "w.bin").write_bytes(np.arange(4, dtype="<f4").tobytes())
    onnx.save(proto, tmp_path / "m.onnx")
    store = WeightStore()
    first, second = (load_model(tmp_path / "m.onnx", weights=store) for _ in range(2))
    arrays = [model.graph.initializers["w"].weight for model in (first, second)]
    assert arrays[0] is not None
    assert arrays[0] is arrays[1]
    assert arrays[0].array().tolist() == [0, 1, 2, 3]
    bytes_model = load_model((tmp_path / "m.onnx").read_bytes(), external_data_folder=tmp_path)
    assert bytes_model.graph.initializers["w"].weight is not None


def test_models_linked_into_a_folder_of_blobs_load(tmp_path: Path) -> None:
    """The layout of model hubs: model and data are links to files that lie together elsewhere."""
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshots" / "1"
    blobs.mkdir()
    snapshot.mkdir(parents=True)
    proto = onnx.parser.parse_model('<ir_version: 8, opset_import: ["": 17]> g () => (uint8[4] y) { y = Identity(w) }')
    tensor = proto.graph.initializer.add(name="w", data_type=TensorProto.UINT8, dims=[4])
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="w.bin")
    (blobs / "aaa").write_bytes(proto.SerializeToString())
    (blobs / "bbb").write_bytes(b"abcd")
    (snapshot / "model.onnx").symlink_to("../../blobs/aaa")
    (snapshot / "w.bin").symlink_to("../../blobs/bbb")
    weight = load_model(snapshot / "model.onnx").graph.initializers["w"].weight
    assert weight is not None
    assert weight.array().tobytes() == b"abcd"


def test_the_message_is_left_as_it_is() -> None:
    """A ModelProto belongs to the caller."""
    proto = header({"": 17})
    before = proto.SerializeToString()
    load_model(proto)
    assert proto.SerializeToString() == before


def test_nesting_is_limited() -> None:
    """The node that goes too deep is named."""
    text = "y0 = Constant<value_float = 1.0>()"
    for level in range(1, 6):
        branch = f"b () => (float y{level - 1}) {{ {text} }}"
        text = f"y{level} = If(c) <then_branch = {branch}, else_branch = {branch}>"
    model = f"g (bool c) => (float y5) {{ {text} }}"
    validate(load(model, limits=Limits(nesting_depth=5)), SchemaRegistry())
    with pytest.raises(LimitError, match=r"nested 5 deep; 4 levels(.|\n)*inside"):
        load(model, limits=Limits(nesting_depth=4))


def test_twelve_levels_of_branches_load_quickly() -> None:
    """8,190 graphs in half a megabyte: time grows with the file and not with the depth."""
    body, out = onnx.GraphProto(name="b"), "y0"
    body.node.append(helper.make_node("Constant", [], [out], value_float=1.0))
    body.output.append(helper.make_tensor_value_info(out, TensorProto.FLOAT, []))
    for level in range(1, 13):
        outer = onnx.GraphProto(name="b")
        outer.node.append(helper.make_node("If", ["c"], [f"y{level}"], then_branch=body, else_branch=body))
        outer.output.append(helper.make_tensor_value_info(f"y{level}", TensorProto.FLOAT, []))
        body = outer
    body.input.append(helper.make_tensor_value_info("c", TensorProto.BOOL, []))
    proto = helper.make_model(body, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    start = time.perf_counter()
    model = load_model(proto)
    validate(model, SchemaRegistry())
    assert time.perf_counter() - start < 3  # 0.3 s on an idle core; onnxruntime 1.31 needs 3.9 s
    assert sum(1 for _ in walk(model.graph)) == 8191


def test_loading_leaves_the_collector_as_it_was() -> None:
    """It is paused while the graph is built, also where loading fails."""
    load("g () => () {}")
    with pytest.raises(OrtPyError):
        load_model(b"garbage")
    assert gc.isenabled()


def test_loading_has_a_deadline() -> None:
    """Seconds are counted from the start."""
    with pytest.raises(LimitError, match="takes longer than 1e-09 s"):
        load("g () => () {}", limits=Limits(load_seconds=1e-9))
