"""A session's description of its inputs, outputs and model, on both runtimes."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

import ort_py
from ort_py import NodeArg
from tests.drop_in.both_runtimes import OURS, THEIRS, each, expect_agreement, expect_difference

FLOAT, INT64, STRING = TensorProto.FLOAT, TensorProto.INT64, TensorProto.STRING
N3 = ["N", 3]


def tensor(name: str, shape: Any, element: int = FLOAT) -> onnx.ValueInfoProto:
    """A tensor's declaration; a shape of None declares none."""
    return helper.make_tensor_value_info(name, element, shape)


def typed(name: str, kind: onnx.TypeProto) -> onnx.ValueInfoProto:
    """The declaration of a value that is not a tensor."""
    return helper.make_value_info(name, kind)


def graph(nodes: Any, inputs: Any, outputs: Any, constants: Any = (), opset: int = 21) -> bytes:
    """A model of these parts."""
    nodes = [nodes] if isinstance(nodes, onnx.NodeProto) else list(nodes)
    found = helper.make_graph(nodes, "g", list(inputs), list(outputs), list(constants))
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("ai.onnx.ml", 3)]
    made = helper.make_model(found, opset_imports=imports)
    made.ir_version = 10
    return bytes(made.SerializeToString())


def node(op_type: str, inputs: str = "x", outputs: str = "y", **attributes: Any) -> onnx.NodeProto:
    """A node; names apart by blanks."""
    return helper.make_node(op_type, inputs.split(), outputs.split(), **attributes)


def relu(given: Any, declared: Any) -> bytes:
    """Relu with a declared input and output shape."""
    return graph(node("Relu"), [tensor("x", given)], [tensor("y", declared)])


def passed_on(kind: onnx.TypeProto) -> bytes:
    """A value that goes out as it came in."""
    return graph(node("Identity"), [typed("x", kind)], [typed("y", kind)])


def untouched(element: int) -> bytes:
    """A model with an input of a type that no operator needs to know: it is an output at once."""
    x = tensor("x", N3, element)
    return graph(node("Relu", "z", "y"), [tensor("z", ["N"]), x], [tensor("y", ["N"]), x], opset=21)


def sequence_of(kind: onnx.TypeProto) -> onnx.TypeProto:
    return helper.make_sequence_type_proto(kind)


def optional_of(kind: onnx.TypeProto) -> onnx.TypeProto:
    return helper.make_optional_type_proto(kind)


def tensor_of(element: int, shape: Any = None) -> onnx.TypeProto:
    return helper.make_tensor_type_proto(element, shape)


ELEMENTS = (
    *("FLOAT", "DOUBLE", "FLOAT16", "BFLOAT16", "BOOL", "STRING"),
    *("INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64"),
    *("FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ", "FLOAT8E8M0"),
    *("INT4", "UINT4", "INT2", "UINT2", "FLOAT4E2M1"),
)
SIZES = [helper.make_tensor("s", INT64, [2], [-1, 4])]

MODELS: dict[str, bytes] = {
    **{f"element type {name}": untouched(getattr(TensorProto, name)) for name in ELEMENTS},
    "symbolic": relu(N3, N3),
    "output not declared": relu(N3, None),
    "output declared without sizes": relu(N3, [None, None]),
    "output declared by another name": relu(N3, ["M", 3]),
    "output declared by names only": relu(N3, ["M", "K"]),
    "output declared with a size": relu(N3, [2, 3]),
    "sizes known better than declared": relu([2, 3], ["M", "K"]),
    "input not declared": relu(None, ["a", "b"]),
    "neither declared": relu(None, None),
    "negative sizes": relu([-1, 3], [-1, 3]),
    "names that are empty": relu(["", 3], ["", 3]),
    "zero": relu([0, 3], [0, 3]),
    "scalar": relu([], []),
    "sum of sizes": graph(node("Concat", "x x", axis=0), [tensor("x", ["N"])], [tensor("y", None)]),
    "sum of sizes, named": graph(node("Concat", "x x", axis=0), [tensor("x", ["N"])], [tensor("y", ["M"])]),
    "shape by data": graph(node("NonZero"), [tensor("x", N3)], [tensor("y", None, INT64)]),
    "shape by data, named": graph(node("NonZero"), [tensor("x", N3)], [tensor("y", ["r", "n"], INT64)]),
    "broadcast of names": graph(node("Add", "x z"), [tensor("x", ["N"]), tensor("z", ["M"])], [tensor("y", None)]),
    "product": graph(node("MatMul", "x z"), [tensor("x", ["B", "N", 4]), tensor("z", [4, "M"])], [tensor("y", None)]),
    "reshape": graph(node("Reshape", "x s"), [tensor("x", ["B", "N", 4])], [tensor("y", None)], SIZES),
    "shape of a shape": graph(node("Shape"), [tensor("x", ["B", 4])], [tensor("y", None, INT64)]),
    "two nodes": graph(
        [node("Relu", "x", "t"), node("Transpose", "t")], [tensor("x", ["B", "N"])], [tensor("y", None)]
    ),
    "sequence": passed_on(sequence_of(tensor_of(FLOAT, ["N"]))),
    "sequence of texts": passed_on(sequence_of(tensor_of(STRING))),
    "optional": passed_on(optional_of(tensor_of(FLOAT, ["N", 2]))),
    "optional without shape": passed_on(optional_of(tensor_of(FLOAT))),
    "optional sequence": passed_on(optional_of(sequence_of(tensor_of(INT64, ["N"])))),
    "made sequence": graph(
        node("SequenceConstruct", "x x"), [tensor("x", ["N"])], [typed("y", sequence_of(tensor_of(FLOAT)))]
    ),
    "list of maps, texts": graph(
        node("ZipMap", domain="ai.onnx.ml", classlabels_strings=["a", "b"]),
        [tensor("x", ["N", 2])],
        [typed("y", sequence_of(helper.make_map_type_proto(STRING, tensor_of(FLOAT))))],
    ),
    "list of maps, numbers": graph(
        node("ZipMap", domain="ai.onnx.ml", classlabels_int64s=[1, 2]),
        [tensor("x", ["N", 2])],
        [typed("y", sequence_of(helper.make_map_type_proto(INT64, tensor_of(FLOAT))))],
    ),
    "map": graph(
        node("DictVectorizer", domain="ai.onnx.ml", string_vocabulary=["a", "b"]),
        [typed("x", helper.make_map_type_proto(STRING, tensor_of(FLOAT)))],
        [tensor("y", None)],
    ),
    "overridable initializer": graph(
        node("Add", "x w"),
        [tensor("x", ["N"]), tensor("w", [1])],
        [tensor("y", None)],
        [helper.make_tensor("w", FLOAT, [1], [1.0])],
    ),
    "constant output": graph(
        node("Relu"),
        [tensor("x", ["N"])],
        [tensor("y", ["N"]), tensor("w", [2])],
        [helper.make_tensor("w", FLOAT, [2], [1.0, 2.0])],
    ),
}


def opened(ort: Any, content: bytes) -> Any:
    return ort.InferenceSession(content, providers=["CPUExecutionProvider"])


def arguments(ort: Any, content: bytes) -> Any:
    """Every NodeArg of a model, and its text."""
    found = opened(ort, content)
    asked = (found.get_inputs, found.get_outputs, found.get_overridable_initializers)
    return [[[arg.name, arg.type, arg.shape, str(arg)] for arg in ask()] for ask in asked]


@pytest.mark.parametrize("name", MODELS)
def test_arguments_are_those_of_onnxruntime(name: str) -> None:
    """Names, type strings, shapes and texts of inputs, outputs and overridable initializers."""
    expect_agreement(lambda ort: arguments(ort, MODELS[name]))


def write_argument(ort: Any, attribute: str) -> None:
    setattr(opened(ort, MODELS["symbolic"]).get_inputs()[0], attribute, "z")


def test_arguments_cannot_be_changed() -> None:
    """Name, type and shape are read-only on both."""
    for case in each("{}", ("name", "type", "shape"), write_argument).values():
        expect_agreement(case)


def test_arguments_are_plain_data() -> None:
    """NodeArgs can be pickled and compared, which onnxruntime's cannot, hashed, and read without their session."""

    def pickled(ort: Any) -> Any:
        argument = opened(ort, MODELS["symbolic"]).get_inputs()[0]
        return pickle.loads(pickle.dumps(argument)) == argument

    expect_difference(pickled, True)
    expect_agreement(lambda ort: len(set(opened(ort, MODELS["product"]).get_inputs())))
    assert opened(ort_py, MODELS["scalar"]).get_inputs()[0] == NodeArg("x", "tensor(float)", [])


def described(content: Any) -> onnx.ModelProto:
    """A model that says everything about itself."""
    model = onnx.load_from_string(content)
    model.producer_name, model.domain, model.doc_string, model.model_version = "tool", "org.example", "about", 7
    model.graph.doc_string = "about the graph"
    helper.set_model_props(model, {"labels": "cat,dog", "empty": ""})
    return model


FIELDS = ("custom_metadata_map", "description", "domain", "graph_description", "graph_name", "producer_name", "version")


def metadata(ort: Any, model: onnx.ModelProto) -> Any:
    found = opened(ort, model.SerializeToString()).get_modelmeta()
    return [getattr(found, name) for name in FIELDS]


@pytest.mark.parametrize("version", [None, 0, 1, -3, 2**40])
def test_metadata_is_that_of_onnxruntime(version: int | None) -> None:
    """Every field, and the version that stands for none."""
    model = described(MODELS["symbolic"])
    if version is None:
        model.ClearField("model_version")
    else:
        model.model_version = version
    expect_agreement(lambda ort: metadata(ort, model))


def test_metadata_of_a_model_that_says_nothing() -> None:
    """Empty texts, and the largest int64 for the version."""
    expect_agreement(lambda ort: metadata(ort, onnx.load_from_string(MODELS["symbolic"])))


def test_metadata_can_be_set() -> None:
    """All fields can be set, on both."""

    def changed(ort: Any) -> Any:
        found = opened(ort, MODELS["symbolic"]).get_modelmeta()
        for name in FIELDS[1:-1]:
            setattr(found, name, "new")
        found.version, found.custom_metadata_map = 5, {"a": "b"}
        return [getattr(found, name) for name in FIELDS], hasattr(found, "producer_version")

    expect_agreement(changed)


def test_metadata_is_the_callers_own() -> None:
    """Changing what was returned does not change what is returned next."""

    def twice(ort: Any) -> Any:
        found = opened(ort, MODELS["symbolic"])
        found.get_modelmeta().custom_metadata_map["x"] = "y"
        return found.get_modelmeta().custom_metadata_map

    expect_agreement(twice)


def test_arguments_outlive_the_session() -> None:
    """A NodeArg is read after its session is gone, and is the same object every time it is asked for."""

    def orphaned(ort: Any) -> Any:
        found = opened(ort, MODELS["symbolic"])
        argument, again = found.get_inputs()[0], found.get_inputs()[0]
        same = argument is again
        del found
        return same, argument.name, argument.shape

    expect_agreement(orphaned)


def test_rank_is_told_where_it_is_known() -> None:
    """`rank_known` tells a scalar from an unknown rank, which onnxruntime's empty shape does not."""
    assert opened(OURS, MODELS["scalar"]).get_inputs()[0].rank_known
    assert not opened(OURS, MODELS["neither declared"]).get_inputs()[0].rank_known
    assert not hasattr(opened(THEIRS, MODELS["scalar"]).get_inputs()[0], "rank_known")


def test_copies_are_equal() -> None:
    """A copied NodeArg is like the first."""
    argument = opened(ort_py, MODELS["symbolic"]).get_inputs()[0]
    assert copy.deepcopy(argument) == argument
