"""A model as data and back: the same graph, types, attributes and constants; what has no form is refused."""

from __future__ import annotations

import json
import mmap
from dataclasses import fields
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from ort_py.cache.constants import CachedWeight, ConstantReader, ConstantWriter, NotStorableError, SmallWeight
from ort_py.cache.format import description_of, write_file
from ort_py.cache.model_record import BROKEN, MODEL_FIELDS, ModelReader, ModelWriter
from ort_py.contracts.function_body import FunctionBody, NodeTemplate
from ort_py.dtypes import DataType, MapType, OptionalType, SequenceType, TensorType
from ort_py.files import FileIdentity
from ort_py.graph.ir import Graph, Model, Node, Value, walk
from ort_py.graph.reading.fingerprint import ContentHash
from ort_py.graph.weights.weight_store import WeightStore, process_store
from ort_py.graph.weights.weights import MappedFile
from ort_py_kit.graphs import typed_model


def refuse(_: Any) -> Any:
    """Fail: these models have no external data."""
    raise NotStorableError("external data")


def through(model: Model, path: Path, store: WeightStore | None = None) -> Model:
    """Written to a file and read from it."""
    constants = ConstantWriter(refuse)
    record = ModelWriter(model, constants).record()
    rows, blocks = constants.finish()
    with path.open("wb") as file:
        write_file(file, json.dumps([record, rows]).encode(), (block() for block in blocks))
    with path.open("rb") as file:
        content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        mapped = MappedFile(content, "", FileIdentity.of_open(file))
    description, start = description_of(mapped.buffer)
    record, rows = json.loads(description)
    return ModelReader(record, ConstantReader(rows, mapped, start, refuse, store or WeightStore())).model


def node_text(node: Node) -> dict[str, Any]:
    """Everything a node says, graphs by their name."""
    plain = {
        name: getattr(node, name)
        for name in ("op_type", "domain", "overload", "name", "since_version", "type_bindings", "origin", "opset")
    }
    named = [[None if value is None else value.name for value in side] for side in (node.inputs, node.outputs)]
    attributes = {
        name: value.name if isinstance(value, Graph) else value.tolist() if isinstance(value, np.ndarray) else value
        for name, value in node.attributes.items()
    }
    return plain | {"inputs": named[0], "outputs": named[1], "attributes": attributes}


def value_text(value: Value) -> tuple[Any, ...]:
    """Everything a value says."""
    uses = [(node.name, position) for node, position in value.uses]
    producer = None if value.producer is None else value.producer.name
    return value.name, value.type, producer, value.graph.name, sorted(uses), value.overridable, value.is_graph_output


def graph_text(model: Model) -> list[Any]:
    """Everything the graphs of a model say, but the content of constants."""
    found: list[Any] = []
    for graph in walk(model.graph):
        owner = None if graph.owner is None else graph.owner.name
        found.append((graph.name, owner, [value.name for value in graph.inputs], [v.name for v in graph.outputs]))
        found += [node_text(node) for node in graph.nodes]
        values = [*graph.inputs, *graph.initializers.values()]
        values += [value for node in graph.nodes for value in node.outputs if value is not None]
        found += [value_text(value) for value in values]
    return found


TEXTS = {
    "chain": "g (float[N, 3] x) => (float[N, 3] y) <float[3] c = {1, 2, 3}> { a = Add(x, c)  y = Relu(a) }",
    "absent": "g (float[N] x, float h) => (float[N] y) { y = Clip(x, , h) }",
    "nested": """g (bool b, float[2] x) => (float[2] y) {
        t = Neg(x)
        y = If (b) <then_branch = a () => (float[2] p) { p = Abs(t) }, else_branch = e () => (float[2] q) {
            q = If (b) <then_branch = f () => (float[2] r) { r = Add(t, x) },
                        else_branch = h () => (float[2] s) { s = Identity(x) }> }> }""",
    "overridable": """<ir_version: 10, opset_import: ["" : 21]>
        g (float[2] x, float[2] w = {1, 2}) => (float[2] y) { y = Mul(x, w) }""",
    "attributes": """g (float[1, 1, 4, 4] x) => (float[1, 1, A, B] y) {
        y = MaxPool <kernel_shape = [2, 2], strides = [1, 2], auto_pad = "VALID"> (x) }""",
    "returned twice": "g (float[2] x) => (float[2] y, float[2] y) { y = Relu(x) }",
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_graph_comes_back_as_it_was(name: str, tmp_path: Path) -> None:
    """Nodes, values, uses, types, nested graphs with their captures, names and order."""
    model = typed_model(TEXTS[name])
    for graph in walk(model.graph):
        graph.declared_outputs = [value.type for value in graph.outputs]
    again = through(model, tmp_path / "entry")
    assert graph_text(again) == graph_text(model)
    pairs = zip(walk(again.graph), walk(model.graph), strict=True)
    assert all(one.declared_outputs == other.declared_outputs for one, other in pairs)
    assert (again.opset_imports, again.ir_version) == (model.opset_imports, model.ir_version)


def test_what_a_file_says_about_itself_comes_back(tmp_path: Path) -> None:
    model = typed_model(TEXTS["chain"])
    model.metadata = {"ключ": "\ud800 \0 \N{SNOWMAN}"}
    model.producer_name, model.model_version, model.doc_string = "somebody", 2**63 - 1, "text\n"
    model.source, model.fingerprint = "/home/somebody/model.onnx", ContentHash("abcd")
    again = through(model, tmp_path / "entry")
    assert (again.metadata, again.producer_name, again.model_version) == (model.metadata, "somebody", 2**63 - 1)
    assert (again.doc_string, str(again.fingerprint), again.source) == ("text\n", "abcd", "")


ARRAYS: list[Any] = [
    np.arange(5000, dtype=np.float32).reshape(50, 100),
    np.arange(6, dtype=np.float32).reshape(2, 3),
    np.float64(2.5).reshape(()),
    np.zeros((0, 4), np.int64),
    np.array([True, False, True]),
    np.tile(np.array([True, False]), 1000),
    np.array(["", "a\0b", "ä"], object),
    np.array([b"\xff", "text"], object),
    np.array([1 + 2j], np.complex64),
    np.array([1.5, -3], ml_dtypes.bfloat16),
    np.arange(-8, 8).astype(ml_dtypes.int4),
    np.tile(np.arange(-8, 8), 200).astype(ml_dtypes.int4),
    np.array([0.5, 448], ml_dtypes.float8_e4m3fn),
]


def constants_model(arrays: list[np.ndarray[Any, Any]]) -> Model:
    """A model of nothing but constants."""
    model = Model({"": 21})
    graph = model.graph = Graph("g", model)
    for number, array in enumerate(arrays):
        weight = process_store().add(array)
        value = Value(f"c{number}", graph, TensorType(weight.data_type, weight.shape), weight=weight)
        graph.initializers[value.name] = value
    return model


def test_constants_come_back_bit_by_bit(tmp_path: Path) -> None:
    """Constants may be large or small, scalars, empty, strings or sub-byte; they are read-only and aligned."""
    again = through(constants_model(ARRAYS), tmp_path / "entry")
    for value, array in zip(again.graph.initializers.values(), ARRAYS, strict=True):
        assert value.weight is not None
        found = value.weight.array()
        assert (found.dtype, found.shape, found.tolist()) == (array.dtype, array.shape, array.tolist())
        assert not found.flags.writeable
        assert found.flags.c_contiguous
        assert value.weight.nbytes == found.nbytes
        assert value.weight.array() is found
        if found.nbytes > 1024:
            assert found.ctypes.data % 64 == 0
        else:
            assert not found.size or found.ctypes.data % found.dtype.alignment == 0


def test_many_small_constants_share_a_block(tmp_path: Path) -> None:
    """Each is a weight of its own, with a key of its own; equal ones are stored once."""
    arrays = [np.full(4, index // 2, np.float32) for index in range(200)]
    again = through(constants_model(arrays), tmp_path / "entry")
    weights = [value.weight for value in again.graph.initializers.values()]
    assert all(isinstance(weight, SmallWeight) for weight in weights)
    assert len({weight.key for weight in weights if weight is not None}) == 100
    assert [int(weight.array()[0]) for weight in weights if weight is not None] == [index // 2 for index in range(200)]
    assert (tmp_path / "entry").stat().st_size < 20_000


def test_large_constants_are_released_and_found_again(tmp_path: Path) -> None:
    """They are pages of the entry, taking no memory of their own."""
    again = through(constants_model([np.arange(5000.0)]), tmp_path / "entry")
    weight = again.graph.initializers["c0"].weight
    assert isinstance(weight, CachedWeight)
    assert weight.in_place
    assert not weight.loaded
    assert weight.array()[-1] == 4999
    assert weight.release() == 0
    assert weight.array()[-1] == 4999


def test_a_constant_that_is_in_memory_is_not_read_again(tmp_path: Path) -> None:
    """A session that loaded the model itself has it already."""
    store = WeightStore()
    model = constants_model([])
    weight = store.add(np.arange(20_000.0))
    value = Value("c", model.graph, None, weight=weight)
    model.graph.initializers["c"] = value
    assert through(model, tmp_path / "entry", store).graph.initializers["c"].weight is weight
    assert through(model, tmp_path / "other").graph.initializers["c"].weight is not weight


def node_with(attribute: Any) -> Model:
    """A model whose only node has an attribute."""
    model = Model({"": 21})
    model.graph = Graph("g", model)
    model.graph.nodes.append(Node("Op", [], model.graph, name="n", domain="here", attributes={"value": attribute}))
    return model


TYPES = [
    TensorType(DataType.FLOAT, (1, "N", None)),
    TensorType(DataType.FLOAT, None),
    SequenceType(TensorType(DataType.STRING, ())),
    OptionalType(SequenceType(TensorType(DataType.INT64))),
    MapType(DataType.INT64, TensorType(DataType.FLOAT, ())),
]


@pytest.mark.parametrize(
    "value",
    [
        1,
        -(2**63),
        1.5,
        1e-45,
        float("inf"),
        "text",
        b"\xff\0",
        (1, 2),
        (1.0,),
        ("a", b"\xfe"),
        (),
        *TYPES,
        tuple(TYPES),
    ],
    ids=repr,
)
def test_attributes_come_back_as_they_were(value: Any, tmp_path: Path) -> None:
    """Every kind there is, tuples of one kind too."""
    (node,) = through(node_with(value), tmp_path / "entry").graph.nodes
    assert node.attributes == {"value": value}
    assert type(node.attributes["value"]) is type(value)


def test_tensors_in_attributes_come_back(tmp_path: Path) -> None:
    """Alone and in a tuple; not a number stays none."""
    array = np.array([1, np.nan], np.float32)
    (node,) = through(node_with((array, array[:1])), tmp_path / "entry").graph.nodes
    first, second = node.attributes["value"]
    np.testing.assert_array_equal(first, array)
    np.testing.assert_array_equal(second, array[:1])


def test_nodes_do_not_share_their_attributes(tmp_path: Path) -> None:
    """Equal ones are stored once, but who changes one node changes no other."""
    model = node_with(1)
    model.graph.nodes.append(Node("Op", [], model.graph, name="m", domain="here", attributes={"value": 1}))
    one, other = through(model, tmp_path / "entry").graph.nodes
    one.attributes["value"] = 2
    assert other.attributes == {"value": 1}


def test_the_function_a_node_replaces_comes_back(tmp_path: Path) -> None:
    """One body serves several nodes, and may hold bodies; so do the names of what the nodes stand for."""
    inner = FunctionBody(("a",), ("b",), (NodeTemplate("Neg", ("a",), ("b",)),))
    template = NodeTemplate("Op", ("x", "c"), ("y",), {"axis": 1, "values": (1.5,)}, "there", "n", inner)
    constants = {"c": np.arange(3, dtype=np.float32)}
    body = FunctionBody(("x", ""), ("y",), (template,), constants, {"": 21, "there": 1})
    model = node_with(1)
    model.graph.nodes.append(Node("Op", [], model.graph, name="m", domain="here"))
    for node in model.graph.nodes:
        node.body, node.sources = body, ("first", "second")
    one, other = through(model, tmp_path / "entry").graph.nodes
    assert one.sources == ("first", "second")
    assert one.body is other.body
    assert one.body is not None
    assert (one.body.inputs, one.body.outputs, one.body.opset_imports) == (("x", ""), ("y",), {"": 21, "there": 1})
    np.testing.assert_array_equal(one.body.constants["c"], constants["c"])
    (found,) = one.body.nodes
    assert (found.op_type, found.inputs, found.attributes) == ("Op", ("x", "c"), {"axis": 1, "values": (1.5,)})
    assert found.body is not None
    assert found.body.nodes == inner.nodes


def test_the_record_knows_every_part_of_a_graph() -> None:
    """A new slot of nodes, values or graphs, or a field of models, must be written too and be added to this list."""
    node = "attributes body domain graph inputs name op_type opset origin outputs overload since_version sources"
    assert {*Node.__slots__} == {*node.split(), "type_bindings"}
    value = "graph is_graph_output name overridable producer type uses weight"
    assert {*Value.__slots__} == {*value.split()}
    graph = "declared_outputs initializers inputs model name nodes outputs owner"
    assert {*Graph.__slots__} == {*graph.split()}
    found = {one.name for one in fields(Model)}
    # Where a model came from is known again, problems have been raised, bytes are kept by who was given them. Types of
    # equal nodes, and lone declarations, matter only while a session is prepared; graphs are counted again.
    not_written = {"source", "external_files", "problems", "kept", "node_types", "trusted", "graphs"}
    assert found == {*MODEL_FIELDS, *not_written, "budget", "fingerprint", "graph"}


def test_what_has_no_form_is_refused() -> None:
    """An attribute of a plug-in's own type: the model is not cached, nothing is guessed."""
    with pytest.raises(NotStorableError, match="an attribute is a object"):
        ModelWriter(node_with(object()), ConstantWriter(refuse)).record()


def test_a_value_of_no_graph_is_refused() -> None:
    """The model is broken; that is for others to say."""
    model = node_with(1)
    lost = Value("lost", model.graph)
    model.graph.nodes.append(Node("Op", [lost], model.graph, name="m"))
    with pytest.raises(NotStorableError, match="'lost' belongs to no graph"):
        ModelWriter(model, ConstantWriter(refuse)).record()


def test_a_record_that_does_not_fit_raises_what_counts_as_broken(tmp_path: Path) -> None:
    constants = ConstantWriter(refuse)
    record = ModelWriter(typed_model(TEXTS["nested"]), constants).record()
    rows, _ = constants.finish()
    file = MappedFile(b"", "", FileIdentity(0, 0, 0, 0, 0))
    wrongs: list[Any] = [None, 5, [], [[]], {}, "x"]
    for name in sorted(set(record) - {"declared", "bodies"}):  # which are empty here
        for wrong in wrongs:
            reader = ConstantReader(rows, file, 0, refuse, WeightStore())
            with pytest.raises(BROKEN):
                ModelReader({**record, name: wrong}, reader)


def test_a_constant_of_a_message_and_one_of_a_file_are_alike(tmp_path: Path) -> None:
    """A constant embedded in a model is used where the entry is mapped."""
    array = np.arange(3000, dtype=np.float32)
    graph = helper.make_graph(
        [helper.make_node("Identity", ["c"], ["y"])],
        "g",
        [],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3000])],
        [numpy_helper.from_array(array, "c")],
    )
    model = typed_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]))
    weight = through(model, tmp_path / "entry").graph.initializers["c"].weight
    assert isinstance(weight, CachedWeight)
    np.testing.assert_array_equal(weight.array(), array)
