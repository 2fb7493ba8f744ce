"""Protobuf graphs as written records."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from ort_py.dtypes import DataType, SequenceType, TensorType
from ort_py.errors import InvalidGraph
from ort_py.graph.reading.external_data import ExternalFiles
from ort_py.graph.reading.loader import load_model
from ort_py.graph.reading.parse_graph import GraphReader
from ort_py.graph.reading.tensors import TensorReader
from ort_py.graph.reading.written import WrittenGraph, WrittenNode
from ort_py.graph.weights.weight_store import WeightStore
from ort_py.limits import Budget, Limits

pytestmark = pytest.mark.quick


def reader() -> GraphReader:
    """A reader with a store of its own."""
    store, budget = WeightStore(), Budget(Limits())
    return GraphReader(TensorReader(store, budget, ExternalFiles(None, store, budget)), budget)


def only_node(node: onnx.NodeProto) -> tuple[WrittenNode, list[str]]:
    """One node as written, and the problems."""
    graphs = reader()
    return graphs.graph(onnx.GraphProto(node=[node])).nodes[0], graphs.problems


def test_attributes_become_python_values() -> None:
    """Numbers, text, lists, tensors and types."""
    node, problems = only_node(
        helper.make_node(
            "X",
            ["a"],
            ["b"],
            domain="ai.onnx",
            i=3,
            f=0.5,
            s="é",
            ints=[1, 2],
            floats=[0.5, 1.5],
            strings=["a", "b"],
            t=numpy_helper.from_array(np.arange(3)),
            tp=helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, [2, "n"])),
        )
    )
    assert not problems
    assert node.domain == ""
    array = node.attributes.pop("t")
    assert array.tolist() == [0, 1, 2]
    assert not array.flags.writeable
    assert node.attributes == {
        "i": 3,
        "f": 0.5,
        "s": "é",
        "ints": (1, 2),
        "floats": (0.5, 1.5),
        "strings": ("a", "b"),
        "tp": SequenceType(TensorType(DataType.FLOAT, (2, "n"))),
    }


def test_bytes_that_are_no_text_stay_bytes() -> None:
    """ONNX strings are bytes; most are text."""
    node, _ = only_node(helper.make_node("X", [], ["b"], s=b"\xff"))
    assert node.attributes["s"] == b"\xff"


def test_attributes_without_a_type_are_read_by_their_field() -> None:
    """IR version 1 had no type."""
    proto = helper.make_node("X", [], ["y"])
    proto.attribute.add(name="i", i=0)
    proto.attribute.add(name="axes", ints=[1])
    assert only_node(proto)[0].attributes == {"i": 0, "axes": (1,)}


def test_attributes_without_a_value_are_a_problem() -> None:
    """The text names node and attribute."""
    proto = helper.make_node("X", [], ["y"], name="n")
    proto.attribute.add(name="a")
    assert only_node(proto)[1] == ["node 'n' (X): Attribute 'a' has no value."]


def test_attributes_of_a_type_from_the_future_are_a_problem() -> None:
    """A number that this protobuf does not know reads as no type, so there is no value."""
    content = helper.make_node("X", [], ["y"], name="n")
    content.attribute.add(name="a")
    raw = content.SerializeToString().replace(b"\x0a\x01a", b"\x0a\x01a\xa0\x01\x63")
    raw = raw.replace(b"\x2a\x03", b"\x2a\x06")
    (problem,) = only_node(onnx.NodeProto.FromString(raw))[1]
    assert problem.startswith("node 'n' (X): Attribute 'a' has ")


def test_attributes_twice_are_a_problem() -> None:
    proto = helper.make_node("X", [], ["y"], name="n", a=1)
    proto.attribute.append(helper.make_attribute("a", 2))
    assert only_node(proto)[1] == ["node 'n' (X) has the attribute 'a' twice."]


def test_references_are_kept_for_the_call() -> None:
    """The value of a function's attribute is known when the function is called."""
    proto = helper.make_node("X", [], ["y"])
    proto.attribute.add(name="axis", ref_attr_name="dim", type=onnx.AttributeProto.INT)
    node, _ = only_node(proto)
    assert node.references == (("axis", "dim"),)
    assert node.attributes == {}


def test_constants_go_to_the_store_at_once() -> None:
    """The tensor of a Constant is a weight."""
    node, _ = only_node(helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(np.ones(2))))
    assert node.weight is not None
    assert node.weight.array().tolist() == [1, 1]


def test_wrong_tensors_are_collected() -> None:
    """The file is read to its end, and every wrong tensor is in the list."""
    bad = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4], raw_data=b"123")
    graphs = reader()
    written = graphs.graph(
        onnx.GraphProto(
            initializer=[bad],
            node=[helper.make_node("Constant", [], ["c"], value=bad), helper.make_node("X", ["c"], ["y"], t=bad)],
        )
    )
    assert len(graphs.problems) == 3
    assert (
        "Tensor 'w' does not have the amount of data that float[4] needs. (raw_data has 3 bytes" in graphs.problems[0]
    )
    assert graphs.problems[1].startswith("node 'c' (Constant): Tensor 'w'")
    assert [name for name, _ in written.weights] == ["w"]


def test_graphs_in_attributes_are_read_without_recursion() -> None:
    """Thirty levels, each with its nodes."""
    message = onnx.GraphProto(name="0")
    inner = message
    for level in range(1, 30):
        inner = inner.node.add(op_type="If").attribute.add(name="g", type=onnx.AttributeProto.GRAPH).g
        inner.name = str(level)
    written = reader().graph(message)
    for level in range(29):
        assert written.name == str(level)
        following = written.nodes[0].attributes["g"]
        assert isinstance(following, WrittenGraph)
        written = following


def test_functions_keep_their_defaults_and_imports() -> None:
    proto = helper.make_function(
        "pkg", "F", ["x"], ["y"], [helper.make_node("Relu", ["x"], ["y"])], [helper.make_opsetid("", 17)], ["must"],
        [helper.make_attribute("axis", 1)],
    )  # fmt: skip
    written = reader().function(proto)
    assert written.key == ("pkg", "F", "")
    assert written.title == "pkg.F"
    assert (written.inputs, written.outputs) == (["x"], ["y"])
    assert written.defaults == {"axis": 1}
    assert written.opset_imports == {"": 17}


def test_graphs_as_defaults_of_functions_are_a_problem() -> None:
    """ONNX does not allow them; the text names function and attribute."""
    proto = helper.make_function("pkg", "F", [], ["y"], [], [], [], [helper.make_attribute("g", onnx.GraphProto())])
    graphs = reader()
    graphs.function(proto)
    assert "Function 'pkg.F' has a graph as the default of its attribute 'g'" in graphs.problems[0]


def test_a_model_of_nothing_but_faults_is_refused_at_once() -> None:
    """A megabyte may hold half a million malformed tensors, each of which would be a problem to report."""
    content = (
        b"\x08\x08\x42\x04\x0a\x00\x10\x11"
        + onnx.ModelProto(graph=onnx.GraphProto(initializer=[onnx.TensorProto()] * 100_000)).SerializeToString()
    )
    with pytest.raises(InvalidGraph, match="and 981 more"):  # 1,001 were read
        load_model(content)
