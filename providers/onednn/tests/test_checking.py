"""The checker finds what it is for, and the plans of random graphs pass it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from onnx import NodeProto

from ort_py_kit.tolerances import assert_close
from ort_py_onednn.execution import coalescing
from ort_py_onednn.execution.coalescing import Proof
from ort_py_onednn.execution.timeline import Timeline
from ort_py_onednn.graph.operation import Operation
from ort_py_onednn.lowering.layouts import LayoutPlanner
from ort_py_onednn.lowering.table import LOWERINGS
from providers.onednn.tests.checking import Clash, watched
from providers.onednn.tests.models import model, node, open_session, run_here, run_plain

pytestmark = pytest.mark.unwatched

X = np.random.default_rng(0).standard_normal((2, 8, 6, 6)).astype(np.float32)
GATE = [node("Split", "x", "a b", axis=1, num_outputs=2), node("Sigmoid", "b", "s"), node("Add", "b s", "y")]


def _run(data: bytes, feeds: dict[str, Any]) -> list[Any]:
    with open_session(data) as session:
        return list(session.run(None, feeds))


def _ignoring(what: Callable[[Any, int], bool]) -> Proof:
    """The proof, blind to some accesses."""
    proof = coalescing.may_share

    def blind(timeline: Timeline, time: int, step: Any, code: int, home: Any) -> bool:
        root, _ = home
        kept = timeline._accesses[root]
        timeline._accesses[root] = [one for one in kept if not what(one, time)]
        try:
            return proof(timeline, time, step, code, home)
        finally:
            timeline._accesses[root] = kept

    return blind


def test_nothing_is_found_where_nothing_is_wrong() -> None:
    """One plan is replayed, and run apart once."""
    with watched() as watch:
        _run(model(GATE, {"x": X}), {"x": X})
    assert (watch.plans, watch.runs) == (1, 1)


def test_an_operand_that_is_written_over_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """``b + sigmoid(b)`` of a part: the function is written over the dense copy of the part that the sum reads."""
    monkeypatch.setattr(coalescing, "may_share", _ignoring(lambda access, time: access.first > time))
    with pytest.raises(Clash, match="are not those of whoever made them"), watched(runs_too=False):
        _run(model(GATE, {"x": X}), {"x": X})


def test_an_operand_of_the_same_step_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """``b · a + b``: the product is written over what its own post-op reads."""
    monkeypatch.setattr(coalescing, "may_share", _ignoring(lambda access, time: access.first == access.last == time))
    nodes = [GATE[0], node("Mul", "b a", "m"), node("Add", "m b", "y")]
    with pytest.raises(Clash, match="which it reads"), watched(runs_too=False):
        _run(model(nodes, {"x": X}), {"x": X})


def test_running_apart_finds_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the replay: the results differ."""
    monkeypatch.setattr(coalescing, "may_share", _ignoring(lambda access, time: access.first > time))
    monkeypatch.setattr("providers.onednn.tests.checking.replay", lambda *_: None)
    with pytest.raises(Clash, match="Output 0 differs"), watched():
        _run(model(GATE, {"x": X}), {"x": X})


def test_a_real_number_that_is_held_as_an_integer_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dequantised value whose integers were not scaled: the plan is not made."""

    def unscaled(planner: LayoutPlanner, operation: Operation) -> None:
        planner.bind(operation.outputs[0], planner.value(operation.inputs[0]))

    monkeypatch.setitem(LOWERINGS, "DequantizeLinear", unscaled)
    nodes = [node("DequantizeLinear", "x scale zero", "b"), node("Relu", "b", "r"), node("Add", "b r", "y")]
    constants: dict[str, Any] = {"scale": np.array(0.03, np.float32), "zero": np.array(120, np.uint8)}
    feeds = {"x": np.arange(256, dtype=np.uint8).reshape(1, 4, 8, 8)}
    with open_session(model(nodes, feeds, constants)) as session:
        assert "would be held as an integer" in str(session.fallback_report)


# Random graphs --------------------------------------------------------------------------------------------------------

UNARY = ("Relu", "Sigmoid", "Tanh", "Gelu", "Neg", "Abs", "HardSwish")
BINARY = ("Add", "Sub", "Mul", "Max", "Min")


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[NodeProto], dict[str, Any], tuple[str, ...]]:
    """Nodes over pictures of 8 channels, each of which reads any that are there; constants; outputs."""
    nodes: list[NodeProto] = []
    constants: dict[str, Any] = {}
    known = ["x"]
    rng = np.random.default_rng(draw(st.integers(0, 1 << 16)))
    for number in range(draw(st.integers(2, 12))):
        out = f"v{number}"
        kind = draw(st.sampled_from(["unary", "binary", "parts", "joined", "turned", "conv", "rows", "bytes", "sum"]))
        one, two = (draw(st.sampled_from(known)) for _ in range(2))
        if kind == "unary":
            nodes.append(node(draw(st.sampled_from(UNARY)), one, out))
        elif kind == "binary":
            nodes.append(node(draw(st.sampled_from(BINARY)), f"{one} {two}", out))
        elif kind == "parts":
            nodes.append(node("Concat", f"{one} {two}", f"{out}c", axis=1))
            nodes.append(node("Split", f"{out}c", f"{out}l {out}", axis=1, num_outputs=2))
            known.append(f"{out}l")
        elif kind == "joined":
            nodes.append(node("Split", one, f"{out}l {out}r", axis=1, num_outputs=2))
            nodes.append(node(draw(st.sampled_from(UNARY)), f"{out}l", f"{out}f"))
            nodes.append(node("Concat", f"{out}r {out}f", out, axis=1))
        elif kind == "turned":
            nodes.append(node("Transpose", one, f"{out}t", perm=[0, 1, 3, 2]))
            nodes.append(node("Mul", f"{out}t {two}", out))
        elif kind == "conv":
            constants[f"{out}w"] = (rng.standard_normal((8, 8, 1, 1)) / 4).astype(np.float32)
            nodes.append(node("Conv", f"{one} {out}w", f"{out}c"))
            nodes.append(node("Add", f"{out}c {two}", out))
        elif kind == "rows":
            nodes.append(node("Softmax", one, out, axis=draw(st.sampled_from([1, 3]))))
        elif kind == "bytes":
            constants[f"{out}s"], constants[f"{out}z"] = np.array(0.05, np.float32), np.array(128, np.uint8)
            nodes.append(node("QuantizeLinear", f"{one} {out}s {out}z", f"{out}q"))
            nodes.append(node("DequantizeLinear", f"{out}q {out}s {out}z", out))
        else:
            nodes.append(node("Sum", f"{one} {two} {one}", out))
        known.append(out)
    made = known[1:]
    outputs = draw(st.lists(st.sampled_from(made), min_size=1, max_size=3, unique=True))
    return nodes, constants, tuple(dict.fromkeys([*outputs, made[-1]]))


@seed(19)
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(graphs(), st.booleans())
def test_random_graphs(graph: tuple[list[NodeProto], dict[str, Any], Sequence[str]], dynamic: bool) -> None:
    """Their plans pass, whatever reads what; without quantisation results are onnxruntime's too."""
    nodes, constants, outputs = graph
    data = model(nodes, {"x": X}, constants, tuple(outputs), dynamic=dynamic)
    with watched() as watch:
        found = run_here(data, {"x": X})
    assert watch.plans == watch.runs >= 1
    if not any(one.op_type == "QuantizeLinear" for one in nodes):
        assert_close(found, run_plain(data, {"x": X}))
