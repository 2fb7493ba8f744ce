"""Planning If, Loop, Scan and SequenceMap: what does not fit is refused; devices are chosen for bodies."""

from __future__ import annotations

import onnx
import pytest

from core.tests.driving import HostProvider, drive, typed_model
from ort_py.errors import InvalidGraph
from ort_py.graph.ir import Graph, Model, connect
from ort_py.planning.plan import (
    NONE_SLOT,
    BatchedScanStep,
    CopyStep,
    IfStep,
    LoopStep,
    ScanStep,
    SequenceMapStep,
)
from ort_py_kit.fake_device import FakeProvider

LOOP = """
g (int64 n, float[2] x) => (float[2] y, float[k,2] s) <bool go = {1}> {
  y, s = Loop (n, go, x) <body = b (int64 i, bool c, float[2] v) => (bool c2, float[2] w, float[2] t) {
    c2 = Identity(c) w = Neg(v) t = Abs(w)
  }>
}
"""
SCAN = """
g (float[2] x, float[3,2] xs) => (float[2] y, float[3,2] s) {
  y, s = Scan <num_scan_inputs = 1, body = b (float[2] v, float[2] e) => (float[2] w, float[2] t) {
    w = Add(v, e) t = Neg(w)
  }> (x, xs)
}
"""
IF = """
g (bool c, float[2] x) => (float[2] y) {
  y = If (c) <then_branch = t () => (float[2] r) { r = Neg(x) }, else_branch = e () => (float[2] r2) { r2 = Abs(x) }>
}
"""


def body_of(model: Model, name: str = "body") -> Graph:
    """The body of the first node."""
    graph = model.graph.nodes[0].attributes[name]
    assert isinstance(graph, Graph)
    return graph


def test_a_loop_with_a_missing_carried_input_is_refused() -> None:
    """The error names the loop, its body and both counts."""
    model = typed_model(LOOP)
    node = model.graph.nodes[0]
    connect(node, node.inputs[:2])
    with pytest.raises(InvalidGraph) as caught:
        drive(LOOP, model=model)
    assert "Loop and its body do not match: loop-carried inputs." in str(caught.value)
    assert "'b' has 1, 0 needed" in str(caught.value)
    assert caught.value.location.op_type == "Loop"


def test_a_body_with_too_few_outputs_is_refused() -> None:
    """A node cannot have more outputs than its body makes."""
    model = typed_model(LOOP)
    body_of(model).outputs.pop()
    with pytest.raises(InvalidGraph, match="do not match: outputs") as caught:
        drive(LOOP, model=model)
    assert "'the body' has 1, 2 needed" in str(caught.value)


def test_branches_must_agree() -> None:
    """Both branches of an If return the same number of values."""
    model = typed_model(IF)
    body_of(model, "else_branch").outputs.pop()
    with pytest.raises(InvalidGraph, match="branch outputs"):
        drive(IF, model=model)


def test_a_scan_that_scans_nothing_is_refused() -> None:
    """`num_scan_inputs` counts at least one of the node's inputs."""
    for wrong in (0, 3):
        model = typed_model(SCAN)
        model.graph.nodes[0].attributes["num_scan_inputs"] = wrong
        with pytest.raises(InvalidGraph, match=f"Scan has 2 input\\(s\\), {wrong} of which"):
            drive(SCAN, model=model)


def test_a_scan_with_a_wrong_number_of_axes_is_refused() -> None:
    """Axes and directions have one entry a scan value."""
    model = typed_model(SCAN)
    model.graph.nodes[0].attributes["scan_output_axes"] = (0, 0)
    with pytest.raises(InvalidGraph, match="scan_output_axes") as caught:
        drive(SCAN, model=model)
    assert "'the node' has 2, 1 needed" in str(caught.value)


BATCHED = """
<ir_version: 8, opset_import: ["" : 8]>
g (float[B,2] x, float[B,T,2] xs) => (float[B,2] y, float[B,T,2] s) {
  y, s = Scan <num_scan_inputs = 1, body = b (float[2] v, float[2] e) => (float[2] w, float[2] t) {
    w = Add(v, e) t = Neg(w)
  }> ( , x, xs)
}
"""


def test_scan_of_opset_8_has_a_step_of_its_own() -> None:
    """Its first input are the lengths, which may be absent and are read on the host."""
    (step,) = [step for step in drive(BATCHED).plan.steps if isinstance(step, BatchedScanStep)]
    assert (step.lengths, step.directions) == (NONE_SLOT, (0,))
    assert (len(step.states), len(step.scans)) == (1, 1)
    plan = drive(
        BATCHED.replace("( , x", "(n, x").replace("(float[B,2]", "(int64[B] n, float[B,2]", 1),
        FakeProvider(),
        HostProvider(),
    ).plan
    (step,) = [step for step in plan.steps if isinstance(step, BatchedScanStep)]
    (lengths,) = [value for value in plan.inputs if value.name == "n"]
    assert step.lengths == lengths.slot


@pytest.mark.parametrize(
    ("text", "name"),
    [(SCAN, "scan_input_directions"), (SCAN, "scan_output_directions"), (BATCHED, "directions")],
)
def test_a_direction_is_0_or_1(text: str, name: str) -> None:
    """Anything else is refused with what was found."""
    model = typed_model(text)
    model.graph.nodes[0].attributes[name] = (2,)
    with pytest.raises(InvalidGraph, match=rf"Scan has the {name} \[2\]") as caught:
        drive(text, model=model)
    assert "0 (forward) or 1 (backward)" in str(caught.value)


MAP = """
g (seq(float[N]) p, float[2] x) => (seq(float[N]) y) {
  y = SequenceMap <body = b (float[N] e, float[2] v) => (float[N] w) { w = Abs(e) }> (p, x)
}
"""


def test_a_sequence_map_is_a_step() -> None:
    """Its inputs are kept apart from what its body captures, and its body is printed inside it."""
    plan = drive(MAP).plan
    (step,) = [step for step in plan.steps if isinstance(step, SequenceMapStep)]
    assert step.mapped == step.inputs
    assert "body 'b': 1 steps" in str(plan)
    assert [role for role, _ in plan.nested()] == ["body"]


def test_a_sequence_map_whose_body_takes_something_else_is_refused() -> None:
    """The body has one input for each of the node's."""
    model = typed_model(MAP)
    node = model.graph.nodes[0]
    connect(node, node.inputs[:1])
    with pytest.raises(InvalidGraph, match="SequenceMap and its body do not match: inputs"):
        drive(MAP, model=model)


def test_a_node_without_its_body_is_refused() -> None:
    """A body that is not a graph is named."""
    model = typed_model(IF)
    del model.graph.nodes[0].attributes["else_branch"]
    with pytest.raises(InvalidGraph, match="If has no graph attribute 'else_branch'"):
        drive(IF, model=model)


def test_carried_values_stay_on_their_device() -> None:
    """A loop whose body runs on a device copies the value in before and out after it, not in each iteration."""
    plan = drive(LOOP, FakeProvider(), HostProvider()).plan
    (loop,) = [step for step in plan.steps if isinstance(step, LoopStep)]
    inside = [step for step in loop.body.plan.steps if isinstance(step, CopyStep)]
    assert [step.title for step in inside] == ["copy cpu:0 to fake:0", "copy fake:0 to cpu:0"], "the condition alone"
    assert [step.title for step in plan.steps if isinstance(step, CopyStep)] == [
        "copy cpu:0 to fake:0",
        "copy fake:0 to cpu:0",
        "copy fake:0 to cpu:0",
    ]


def test_captures_are_copied_once_outside() -> None:
    """Values that a body captures are brought to its device before the step."""
    plan = drive(IF, FakeProvider(), HostProvider()).plan
    (branch,) = [step for step in plan.steps if isinstance(step, IfStep)]
    assert not [step for step in branch.then_branch.plan.steps if isinstance(step, CopyStep)]
    assert len({outer for body in (branch.then_branch, branch.else_branch) for outer, _ in body.captures}) == 1


def test_axes_default_to_zero() -> None:
    """Scan's axes and directions may be left out."""
    (step,) = [step for step in drive(SCAN).plan.steps if isinstance(step, ScanStep)]
    assert (step.input_axes, step.directions, step.output_axes, step.output_directions) == (
        (0,),
        (0,),
        (0,),
        (0,),
    )


def test_trailing_outputs_may_be_left_out() -> None:
    """A loop whose last scan output has no name drops it."""
    model = onnx.parser.parse_model('<ir_version: 10, opset_import: ["" : 21]>\n' + LOOP)
    model.graph.node[0].output[1] = ""
    del model.graph.output[1]
    (step,) = [step for step in drive(model).plan.steps if isinstance(step, LoopStep)]
    assert len(step.outputs) == 2
