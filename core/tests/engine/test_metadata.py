"""A session's description of its model, compared with onnxruntime."""

from __future__ import annotations

import onnx
import onnxruntime
import pytest

from core.tests.small_models import CPU, RELU, model_bytes, open_model, typed_identity
from ort_py import InferenceSession

DYNAMIC = {
    "symbolic": "g (float[N, 3] x) => (float[N, 3] y) { y = Relu(x) }",
    "unnamed": "g (float[?, 3] x) => (float[?, 3] y) { y = Relu(x) }",
    "scalar": "g (float x) => (float y) { y = Relu(x) }",
    "unknown rank": "g (float[] x) => (float[] y) { y = Relu(x) }",
    "data dependent": "g (float[N, 3] x) => (int64[?, ?] y) { y = NonZero(x) }",
    "sums of symbols": "g (float[N] x) => (float[?] y) { y = Concat <axis = 0> (x, x) }",
    "zero": "g (float[0, 3] x) => (float[0, 3] y) { y = Relu(x) }",
    "sequence": typed_identity("seq(float[N])"),
    "string": typed_identity("string[N]"),
    "double": typed_identity("double[N, 2]"),
}


@pytest.mark.parametrize("name", DYNAMIC)
def test_node_args_are_those_of_onnxruntime(name: str) -> None:
    """Names, types and shapes of inputs and outputs agree on dynamic models."""
    model = model_bytes(DYNAMIC[name])
    ours, theirs = InferenceSession(model, providers=CPU), onnxruntime.InferenceSession(model)
    for method in ("get_inputs", "get_outputs"):
        found = [(arg.name, arg.type, arg.shape) for arg in getattr(ours, method)()]
        assert found == [(arg.name, arg.type, arg.shape) for arg in getattr(theirs, method)()]


def test_scalar_and_unknown_rank_can_be_told_apart() -> None:
    """`rank_known` says what onnxruntime's empty shape does not."""
    assert open_model(DYNAMIC["scalar"]).get_inputs()[0].rank_known
    unknown = onnx.parser.parse_model('<ir_version: 10, opset_import: ["" : 21]> ' + DYNAMIC["scalar"])
    unknown.graph.input[0].type.tensor_type.ClearField("shape")
    unknown.graph.output[0].type.tensor_type.ClearField("shape")
    assert not InferenceSession(unknown.SerializeToString(), providers=CPU).get_inputs()[0].rank_known


def test_the_same_lists_every_time() -> None:
    """`get_inputs` and `get_outputs` return the same objects, as applications compare them by identity."""
    session = open_model(RELU)
    assert session.get_inputs() is session.get_inputs()
    assert session.get_outputs() is session.get_outputs()


def test_node_args_outlive_the_session() -> None:
    with open_model(RELU) as session:
        argument = session.get_inputs()[0]
    assert (argument.name, argument.shape) == ("x", ["N", 3])


def test_node_arg_reads_like_onnxruntimes() -> None:
    """The text of a NodeArg is that of onnxruntime."""
    theirs = onnxruntime.InferenceSession(model_bytes(RELU)).get_inputs()[0]
    assert str(open_model(RELU).get_inputs()[0]) == str(theirs)


def test_overridable_initializers() -> None:
    """An initializer that is an input too is overridable, and no input that must be fed."""
    text = "g (float[2] x, float[2] w = {1, 2}) => (float[2] y) { y = Mul(x, w) }"
    session = open_model(text)
    assert [arg.name for arg in session.get_inputs()] == ["x"]
    assert [arg.name for arg in session.get_overridable_initializers()] == ["w"]


def test_model_metadata_is_that_of_onnxruntime() -> None:
    model = onnx.parser.parse_model('<ir_version: 10, opset_import: ["" : 21]> ' + RELU)
    model.producer_name, model.domain, model.doc_string, model.model_version = "tool", "org.example", "about", 7
    model.graph.doc_string = "about the graph"
    onnx.helper.set_model_props(model, {"labels": "cat,dog"})
    ours = InferenceSession(model.SerializeToString(), providers=CPU).get_modelmeta()
    theirs = onnxruntime.InferenceSession(model.SerializeToString()).get_modelmeta()
    for name in (
        "producer_name",
        "graph_name",
        "domain",
        "description",
        "graph_description",
        "version",
        "custom_metadata_map",
    ):
        assert getattr(ours, name) == getattr(theirs, name), name


def test_version_of_a_model_without_one() -> None:
    """Without a model version it is the largest int64, as in onnxruntime."""
    theirs = onnxruntime.InferenceSession(model_bytes(RELU)).get_modelmeta()
    assert open_model(RELU).get_modelmeta().version == theirs.version == 2**63 - 1


def test_metadata_works_after_close() -> None:
    """The model's declarations are available after the session was closed."""
    session = open_model(RELU)
    session.close()
    assert session.get_inputs()[0].name == "x"
    assert session.get_modelmeta().graph_name == "g"
