"""``ort-py info``: what a file holds, with and without a session."""

from __future__ import annotations

import onnx
import pytest
from onnx import helper

from core.tests.cli.conftest import Call, Save

NESTED = """g (bool c, float[2] x) => (float[2] y) {
    y = If (c) <then_branch = t () => (float[2] a) { a = Relu(x) }, else_branch = e () => (float[2] b) { b = Neg(x) }>
}"""
WEIGHTS = "g (float[2] x, float[2] w = {1, 2}) => (float[2] y) <float[2] v = {3, 4}> { t = Mul(x, w) y = Add(t, v) }"
DANGLING = "g (float[2] x) => (float[2] y) { y = Add(x, nowhere) }"


def test_names_everything_in_the_file(call: Call, save: Save) -> None:
    """Inputs, outputs, opsets and operators stand in the page."""
    outcome = call("info", save())
    assert outcome.code == 0
    assert "opsets     ai.onnx 21 (IR version 10)" in outcome.out
    assert "x     tensor(float)  [N, 3]" in outcome.out
    assert "Relu      1      14" in outcome.out
    assert outcome.err == ""


def test_json(call: Call, save: Save) -> None:
    report = call("info", save(), "--json").report
    assert report["inputs"] == [{"name": "x", "type": "tensor(float)", "shape": ["N", 3]}]
    assert report["opsets"] == {"": 21}
    assert report["operators"] == [
        {"op_type": "Relu", "domain": "", "opset": 21, "since": 14, "function": False, "standard": True, "count": 1}
    ]


def test_nested_graphs_are_counted(call: Call, save: Save) -> None:
    """Operators inside branches count, and the page says how deep graphs nest."""
    report = call("info", save(NESTED), "--json").report
    assert (report["nodes"], report["nested_graphs"], report["nesting_depth"]) == (3, 2, 1)
    assert {use["op_type"] for use in report["operators"]} == {"If", "Relu", "Neg"}
    assert "3 nodes, 2 nested graphs 1 deep" in call("info", save(NESTED)).out


def test_weights_and_optional_inputs(call: Call, save: Save) -> None:
    """Initializers are counted in bytes; those that may be fed are listed apart."""
    report = call("info", save(WEIGHTS), "--json").report
    assert (report["weights"], report["weight_bytes"]) == (2, 16)
    assert [value["name"] for value in report["inputs"]] == ["x"]
    assert [value["name"] for value in report["overridable"]] == ["w"]


def test_constants_are_weights(call: Call, save: Save) -> None:
    """Tensors inside `Constant` nodes are weights by another name."""
    report = call("info", save("g () => (float[2] y) { y = Constant <value = float[2] {1, 2}> () }"), "--json").report
    assert (report["weights"], report["weight_bytes"]) == (1, 8)


def test_external_weights_are_not_needed(call: Call, save: Save) -> None:
    """Files beside the model are named with their bytes, whether they are there or not."""
    path = save("g (float[4] x) => (float[4] y) { y = Add(x, w) }")
    model = onnx.load(path)
    tensor = model.graph.initializer.add(name="w", data_type=1, dims=[4], data_location=onnx.TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="weights.bin")
    path.write_bytes(model.SerializeToString())
    outcome = call("info", path)
    assert outcome.code == 0
    assert "16 bytes in the file weights.bin" in outcome.out


def test_functions_and_metadata(call: Call, save: Save) -> None:
    """Functions are listed with their nodes, metadata with its values."""
    path = save("g (float[2] x) => (float[2] y) { y = Relu(x) }")
    model = onnx.load(path)
    model.producer_name, model.producer_version = "tool", "1.2"
    helper.set_model_props(model, {"labels": "cat,\ndog"})
    nodes = [helper.make_node("Neg", ["x"], ["t"]), helper.make_node("Neg", ["t"], ["y"])]
    model.functions.append(helper.make_function("own", "Twice", ["x"], ["y"], nodes, [helper.make_opsetid("", 21)]))
    model.graph.node[0].op_type, model.graph.node[0].domain = "Twice", "own"
    model.opset_import.append(helper.make_opsetid("own", 1))
    path.write_bytes(model.SerializeToString())
    out = call("info", path).out
    assert "producer   tool 1.2" in out
    assert "own.Twice  1      function of the model" in out
    assert "own.Twice  2" in out
    assert "labels  cat, dog" in out


def test_placement(call: Call, save: Save) -> None:
    """With --placement a session says who would run how many nodes."""
    assert "CPUExecutionProvider  1" in call("info", save(), "--placement").out
    session = call("info", save(), "--placement", "--json").report["session"]
    assert session["created"]
    assert session["nodes"] == {"CPUExecutionProvider": 1}


@pytest.mark.parametrize(
    "text", [DANGLING, "g (float[2] x) => (float[2] y) { y = Rellu(x) }"], ids=["dangling", "unknown"]
)
def test_model_that_cannot_run_is_described(call: Call, save: Save, text: str) -> None:
    """No session is needed to say what is in a file."""
    outcome = call("info", save(text))
    assert outcome.code == 0
    assert "x     tensor(float)  [2]" in outcome.out


def test_reason_for_no_session_is_reported(call: Call, save: Save) -> None:
    """With --placement the page ends with why no session can be created."""
    outcome = call("info", save(DANGLING), "--placement")
    assert outcome.code == 0
    assert "no session can be created\n  DanglingInputError: The model is not valid ONNX." in outcome.out
    session = call("info", save(DANGLING), "--placement", "--json").report["session"]
    assert not session["created"]
    assert "nowhere" in session["why"][0]


def test_unknown_operator_says_so_in_its_row(call: Call, save: Save) -> None:
    """The table marks operators that the installed onnx does not have."""
    out = call("info", save("g (float[2] x) => (float[2] y) { y = Rellu(x) }")).out
    assert "Rellu     1      not in the installed onnx (opset 21)" in out


def test_operators_of_other_domains_are_marked(call: Call, save: Save) -> None:
    """Operators that ONNX does not define are distinguished from those that the installed onnx lacks."""
    text = '<ir_version: 10, opset_import: ["" : 21, "own" : 3]> g (float[2] x) => (float[2] y) { y = own.Mine(x) }'
    assert "own.Mine  1      not an ONNX operator (opset 3 of its domain)" in call("info", save(text)).out


def test_file_that_is_no_model_fails(call: Call, save: Save) -> None:
    """Where nothing can be described, the job failed."""
    path = save()
    path.write_bytes(b"garbage")
    outcome = call("info", path)
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err.startswith("InvalidProtobuf: ")
