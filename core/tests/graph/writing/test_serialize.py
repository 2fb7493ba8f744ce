"""The graph written back to ONNX."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from ort_py.errors import InvalidArgument, LimitError
from ort_py.errors import NotImplemented as NotImplementedHere
from ort_py.graph.ir import Model
from ort_py.graph.reading.loader import load_model
from ort_py.graph.view import ModelGraphView
from ort_py.graph.writing import serialize
from ort_py.graph.writing.serialize import model_to_proto
from ort_py_kit.graphs import model_from_text, reference_run, typed_model

X = np.arange(6, dtype=np.float32).reshape(2, 3)
NESTED = """<ir_version: 10, opset_import: ["" : 21], producer_name: "test", model_version: 7, doc_string: "about">
g (float[N, 3] x, int64 n) => (float[N, 3] y, float[M, N, 3] all) <float[3] w = {1, 2, 3}> {
    c = Constant<value = bool {1}>()
    y, all = Loop(n, c, x) <body = b (int64 i, bool go, float[N, 3] s) => (bool go2, float[N, 3] t, float[N, 3] u)
        <float[3] v = {2, 2, 2}> {
            go2 = Identity(go)
            k = Less(i, one)
            t = If(k) <then_branch = p () => (float[N, 3] q) { q = Add(s, w) },
                       else_branch = e () => (float[N, 3] r) { r = Mul(s, v) }>
            u = Add(t, x)
            one = Constant<value = int64 {1}>()
        }>
}"""


def test_a_model_with_nested_graphs_survives() -> None:
    """Loaded, written and loaded again it computes the same, and says the same about itself."""
    text = (
        NESTED.replace("            k = Less(i, one)\n", "")
        .replace(
            "            t = If(k)",
            "            one = Constant<value = int64 {1}>()\n            k = Less(i, one)\n            t = If(k)",
        )
        .replace(
            "            u = Add(t, x)\n            one = Constant<value = int64 {1}>()\n",
            "            u = Add(t, x)\n",
        )
    )
    proto = model_from_text(text)
    written = model_to_proto(typed_model(proto))
    feeds = {"x": X, "n": np.array(3)}
    for left, right in zip(reference_run(written, feeds), reference_run(proto, feeds), strict=True):
        np.testing.assert_array_equal(left, right)
    assert (written.producer_name, written.model_version, written.doc_string) == ("test", 7, "about")
    again = model_to_proto(load_model(written))
    assert [node.op_type for node in again.graph.node] == [node.op_type for node in written.graph.node]


def test_overridable_initializers_are_inputs_too() -> None:
    """ONNX expresses in this way that callers may feed them."""
    written = model_to_proto(typed_model("g (float[2] x, float w) => (float[2] y) <float w = {2}> { y = Mul(x, w) }"))
    assert [info.name for info in written.graph.input] == ["x", "w"]
    assert [tensor.name for tensor in written.graph.initializer] == ["w"]


def test_old_models_get_an_ir_version_that_fits() -> None:
    """Before version 4 each initializer had to be an input."""
    proto = model_from_text("g (float[2] x, float w) => (float[2] y) <float w = {2}> { y = Mul(x, w) }", opset=9)
    proto.ir_version = 3
    written = model_to_proto(typed_model(proto))
    assert written.ir_version == 4
    assert [info.name for info in written.graph.input] == ["x"]


def test_returned_outer_values_get_an_identity() -> None:
    """A branch may not return an outer value by name."""
    proto = model_from_text(
        """g (float[2] x, bool c) => (float[2] y) {
            y = If(c) <then_branch = t () => (float[2] p) { p = Neg(x) },
                       else_branch = e () => (float[2] q) { q = Abs(x) }>
        }"""
    )
    model = typed_model(proto)
    branch = model.graph.nodes[0].attributes["else_branch"]
    branch.nodes.clear()
    branch.outputs = [model.graph.inputs[0]]
    (result,) = reference_run(model, {"x": -X[0, :2], "c": np.array(False)})
    np.testing.assert_array_equal(result, -X[0, :2])


def test_empty_lists_keep_their_type() -> None:
    """The schema says what an empty list would hold."""
    model = typed_model("g (float[2] x) => (float[2] y) { y = Squeeze(x) }", 11)
    model.graph.nodes[0].attributes["axes"] = ()
    model.graph.nodes[0].attributes["other"] = ()
    written = model_to_proto(model).graph.node[0]
    assert [attribute.type for attribute in written.attribute] == [onnx.AttributeProto.INTS] * 2


def test_regions_have_their_border() -> None:
    """Some nodes as a model: what they read is an input, what others read of them an output."""
    model = typed_model(
        """g (float[2, 3] x) => (float[2, 3] y) <float[3] w = {1, 2, 3}> {
            a = Neg(x) b = Mul(a, w) c = Exp(b) d = Add(b, c) y = Relu(d)
        }"""
    )
    region = ModelGraphView(model.graph).region([1, 2, 3])
    proto = onnx.load_from_string(region.to_model())
    assert [info.name for info in proto.graph.input] == ["a"]
    assert [info.name for info in proto.graph.output] == ["d"]
    assert {info.name for info in proto.graph.value_info} == {"b", "c"}
    (result,) = reference_run(proto, {"a": X})
    np.testing.assert_allclose(result, X * [1, 2, 3] + np.exp(X * [1, 2, 3]), rtol=1e-6)


def _with_two_constants() -> Model:
    proto = model_from_text("g (float[600] x) => (float[600] y) <float s = {2}> { a = Mul(x, s) y = Add(a, w) }")
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.zeros(600, np.float32), "w"))
    return load_model(proto)


def test_regions_by_reference_have_inputs_for_constants() -> None:
    """Large constants come from outside, named as they were; the small ones, which parsers look at, stay."""
    region = ModelGraphView(_with_two_constants().graph).region([0, 1])
    proto = onnx.load_from_string(region.to_model("reference"))
    assert [info.name for info in proto.graph.input] == ["x", "w"]
    assert [tensor.name for tensor in proto.graph.initializer] == ["s"]


def test_whole_models_by_reference_too() -> None:
    """`model_to_proto` does the same for a model."""
    proto = model_to_proto(_with_two_constants(), "reference")
    assert [info.name for info in proto.graph.input] == ["x", "w"]
    x = np.arange(600, dtype=np.float32)
    (result,) = reference_run(proto, {"x": x, "w": np.ones(600, np.float32)})
    np.testing.assert_array_equal(result, x * 2 + 1)


def _with_external_data(folder: Path) -> Path:
    weights = np.arange(600, dtype=np.float32)
    proto = model_from_text("g (float[600] x) => (float[600] y) <float s = {2}> { a = Mul(x, s) y = Add(a, w) }")
    proto.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    path = folder / "model.onnx"
    onnx.save(proto, path, save_as_external_data=True, location="weights.bin", size_threshold=1024)
    return path


def test_external_constants_stay_in_their_file(tmp_path: Path) -> None:
    """The model refers to the file, relative to its folder; small constants are written out."""
    model = load_model(_with_external_data(tmp_path))
    written = model_to_proto(model, "external")
    large = next(tensor for tensor in written.graph.initializer if tensor.name == "w")
    entries = {entry.key: entry.value for entry in large.external_data}
    assert entries["location"] == "weights.bin"
    assert entries["length"] == "2400"
    onnx.save(written, tmp_path / "again.onnx")
    weight = load_model(tmp_path / "again.onnx").graph.initializers["w"].weight
    assert weight is not None
    np.testing.assert_array_equal(weight.array(), np.arange(600, dtype=np.float32))


def test_external_without_a_file_is_refused() -> None:
    """A constant that was inside the model has no file to refer to."""
    proto = model_from_text("g (float[600] x) => (float[600] y) { y = Add(x, w) }")
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.zeros(600, np.float32), "w"))
    with pytest.raises(InvalidArgument, match="was not read from a file") as caught:
        model_to_proto(load_model(proto), "external")
    assert "value 'w'" in str(caught.value)


def test_more_than_protobuf_can_hold_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound is met before the bytes are made."""
    monkeypatch.setattr(serialize, "PROTOBUF_LIMIT", 1000)
    proto = model_from_text("g (float[600] x) => (float[600] y) { y = Add(x, w) }")
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.zeros(600, np.float32), "w"))
    model = load_model(proto)
    with pytest.raises(LimitError, match="cannot hold more than 1,000"):
        model_to_proto(model)
    monkeypatch.setattr(serialize, "PROTOBUF_LIMIT", 10)
    with pytest.raises(LimitError, match="weights='external'"):
        ModelGraphView(model.graph).region([0]).to_model("reference")


FOREIGN = """<ir_version: 10, opset_import: ["" : 21, "f" : 1]>
g (float[2, 3] x) => (float[3] y) { y = f.Total(x) }
<domain: "f", opset_import: ["" : 11]>
Total (x) => (y) { a = ReduceSum<axes = [0], keepdims = 0>(x) y = Relu(a) }"""


def test_nodes_of_another_opset_become_functions() -> None:
    """A function's opset 11 survives in a model of opset 21: ReduceSum has other inputs there."""
    proto = model_from_text(FOREIGN)
    model = typed_model(proto)
    written = model_to_proto(model)
    assert [function.name for function in written.functions] == ["ReduceSum_1_1_axes_keepdims", "Relu_1_1"]
    assert {node.domain for node in written.graph.node} == {"ort_py.opset11"}
    np.testing.assert_array_equal(reference_run(written, {"x": X})[0], reference_run(proto, {"x": X})[0])


def test_nodes_of_another_opset_that_hold_graphs_are_refused() -> None:
    """A function cannot see what its nodes capture."""
    model = typed_model(
        """g (float[2] x, bool c) => (float[2] y) {
            y = If(c) <then_branch = t () => (float[2] p) { p = Neg(x) },
                       else_branch = e () => (float[2] q) { q = Abs(x) }>
        }"""
    )
    model.graph.nodes[0].opset = 11
    with pytest.raises(NotImplementedHere, match="opset 11 that holds graphs"):
        model_to_proto(model)
