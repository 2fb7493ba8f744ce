"""`session.placement`: islands, borders, suggestions, JSON, and what is left of it after the session."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest

import ort_py
from core.tests.small_models import model_bytes
from ort_py.contracts import ProviderFactory
from ort_py_kit.fake_device import FakeBehaviour, FakeFactory

Register = Callable[[ProviderFactory], None]

CUT = """g (float[N, 4] x) => (float[N, 4] y) {
    a = Add(x, x)
    b = Relu(a)
    y = Add(b, b)
}"""
NESTED = """g (float[4] x, bool c) => (float[4] y) {
    a = Add(x, x)
    y = If (c) <
        then_branch = t () => (float[4] u) { u = Add(a, a) },
        else_branch = e () => (float[4] v) { v = Relu(a) }
    >
}"""


def opened(register: Register, text: str = CUT, **behaviour: object) -> ort_py.InferenceSession:
    """A session on an accelerator that takes additions only, completed by the CPU, as the model is written."""
    register(FakeFactory(behaviour=FakeBehaviour(operators=["Add"], **behaviour)))  # type: ignore[arg-type]  # of keywords
    options = ort_py.SessionOptions()
    options.cost_model = "always"
    options.graph_optimization_level = ort_py.GraphOptimizationLevel.ORT_DISABLE_ALL
    providers = ["FakeExecutionProvider", "CPUExecutionProvider"]
    return ort_py.InferenceSession(model_bytes(text), options, providers=providers)


def test_islands(register: Register) -> None:
    """Addition, rectification, addition: three islands in the order in which they run."""
    with opened(register) as session:
        placement = session.placement
        names = [[placement.nodes[node].op_type for node in island.nodes] for island in placement.islands]
        assert names == [["Add"], ["Relu"], ["Add"]]
        assert [island.provider for island in placement.islands][1] == "CPUExecutionProvider"


def test_regions_are_islands(register: Register) -> None:
    """A compiled region is one, under its name."""
    with opened(register, compiles=True) as session:
        regions = [island.region for island in session.placement.islands]
        assert regions[0].startswith("FakeExecutionProvider_")
        assert regions[1] == ""


def test_borders_name_bytes_and_symbols(register: Register) -> None:
    """Sixteen bytes a row of N, copied to the device and back at each border."""
    with opened(register) as session:
        found = [(one.value.name, one.value.size, one.copied) for one in session.placement.borders]
        assert found == [(name, "16 bytes × N", True) for name in ("x", "a", "b", "y")]


def test_the_operator_that_cuts_is_suggested(register: Register) -> None:
    """Relu's support would make one island of three."""
    with opened(register) as session:
        (one,) = session.placement.suggestions
        assert (one.op_type, one.provider, one.nodes) == ("Relu", "FakeExecutionProvider", 1)
        assert (one.islands_before, one.islands_after, one.merged) == (3, 1, 2)


def test_refusals_are_summed_up(register: Register) -> None:
    with opened(register) as session:
        ((provider, operator, reason, count),) = session.placement.refusals()
        assert (provider, operator, count) == ("FakeExecutionProvider", "Relu", 1)
        assert reason


def test_nested_graphs(register: Register) -> None:
    """Nodes of bodies are in islands of their own graph; captures cross borders."""
    with opened(register, NESTED) as session:
        placement = session.placement
        graphs = [graph.name for graph in placement.flow().graphs]
        assert graphs == ["g", "t", "e"]
        assert {island.graph for island in placement.islands} == {0, 1, 2}
        targets = {placement.islands[one.target].graph for one in placement.borders if one.value.name == "a"}
        assert 2 in targets  # to Relu, on the host


def test_json(register: Register) -> None:
    """Everything in types that JSON has."""
    with opened(register) as session:
        report = json.loads(json.dumps(session.placement.to_json()))
    assert [node["island"] for node in report["nodes"]] != [None] * 3
    assert [island["nodes"] for island in report["islands"]]
    assert report["copied"] == {"bytes": 0, "symbolic": ["16 bytes × N"] * 4}
    assert report["suggestions"][0]["merged"] == 2
    assert report["borders"][0]["from_island"] is None
    assert report["devices"]["CPUExecutionProvider"] == "cpu:0"


def test_it_outlives_the_session(register: Register) -> None:
    """Islands, borders and the page need no graph; neither does a copy out of a pickle."""
    session = opened(register)
    session.close()
    for placement in (session.placement, pickle.loads(pickle.dumps(session.placement))):
        assert len(placement.islands) == 3
        assert len(placement.borders) == 4


def test_the_model_does_not_outlive_the_session(register: Register, tmp_path: Path) -> None:
    """Its constants are gone: to_onnx says so."""
    session = opened(register)
    session.close()
    with pytest.raises(ort_py.InvalidArgument, match="no longer has a model to write") as caught:
        session.placement.to_onnx(tmp_path / "model.onnx")
    assert "while the session is open" in str(caught.value)


def test_annotated_model(register: Register, tmp_path: Path) -> None:
    """Each node carries its provider and the reason, those of nested graphs too; the checker finds nothing wrong."""
    path = tmp_path / "model.onnx"
    with opened(register, NESTED) as session:
        session.placement.to_onnx(path)
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    add, branch = model.graph.node
    said = {entry.key: entry.value for entry in add.metadata_props}
    assert said["ort_py.provider"] == "FakeExecutionProvider"
    assert said["ort_py.runner"] == "kernel"
    assert said["ort_py.island"] == "0"
    (relu,) = next(attribute for attribute in branch.attribute if attribute.name == "else_branch").g.node
    inner = {entry.key: entry.value for entry in relu.metadata_props}
    assert inner["ort_py.provider"] == "CPUExecutionProvider"
    assert json.loads(inner["ort_py.refusals"])[0]["provider"] == "FakeExecutionProvider"
    assert json.loads(model.metadata_props[0].value)["FakeExecutionProvider"] == 2


def test_a_model_without_nodes(tmp_path: Path) -> None:
    """It has no islands, and a page; where all is constant, nothing is left to place."""
    text = "g () => (float[1] y) { y = Constant <value_floats = [1.0]> () }"
    with ort_py.InferenceSession(model_bytes(text), providers=["CPUExecutionProvider"]) as session:
        assert len(session.placement.islands) == len(session.placement)
        session.placement.to_html(tmp_path / "page.html")
