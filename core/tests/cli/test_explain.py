"""``ort-py explain``: who runs each node and who refused it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import onnx
import pytest

import ort_py
from core.tests.cli.conftest import Call, Save
from ort_py.discovery import default_catalog
from ort_py_kit.fake_device import FakeBehaviour, FakeFactory

CHAIN = "g (float[2] x) => (float[2] y) { a = Add(x, x) y = Relu(a) }"


@pytest.fixture
def adder() -> Iterator[None]:
    """An accelerator that takes additions only."""
    ort_py.register_provider(FakeFactory(behaviour=FakeBehaviour(operators=["Add"], cost_us=-1e9)))
    yield
    default_catalog().reset()


def test_table_has_a_row_for_each_node(call: Call, save: Save) -> None:
    """Node, operator, provider, how and why."""
    outcome = call("explain", save(CHAIN))
    assert outcome.code == 0
    lines = outcome.out.splitlines()
    assert lines[0].split() == ["node", "operator", "provider", "how", "why"]
    assert [line.split()[1] for line in lines[1:3]] == ["Add", "Relu"]


@pytest.mark.usefixtures("adder")
def test_refusals_are_shown(call: Call, save: Save) -> None:
    """Providers that refused before are in the row, and in a summary by operator."""
    outcome = call("explain", save(CHAIN), "--providers", "FakeExecutionProvider,CPUExecutionProvider")
    assert "FakeExecutionProvider refused: " in outcome.out
    summary = outcome.out[outcome.out.index("refusals") :]
    assert "Relu" in summary
    assert "Add" not in summary


@pytest.mark.usefixtures("adder")
def test_json_has_refusals(call: Call, save: Save) -> None:
    report = call("explain", save(CHAIN), "--providers", "FakeExecutionProvider,CPUExecutionProvider", "--json").report
    assert report["counts"] == {"FakeExecutionProvider": 1, "CPUExecutionProvider": 1}
    add, relu = report["nodes"]
    assert (add["provider"], add["refusals"]) == ("FakeExecutionProvider", [])
    assert relu["refusals"][0][0] == "FakeExecutionProvider"


def test_plan_on_request(call: Call, save: Save) -> None:
    assert "plan 'g': 2 steps" not in call("explain", save(CHAIN)).out
    assert "plan 'g': 2 steps" in call("explain", save(CHAIN), "--plan").out
    assert call("explain", save(CHAIN), "--plan", "--json").report["plan"][0].startswith("plan 'g': 2 steps")


def test_model_without_session_fails(call: Call, save: Save) -> None:
    outcome = call("explain", save("g (float[2] x) => (float[2] y) { y = Rellu(x) }"))
    assert (outcome.code, outcome.out) == (1, "")
    assert "did you mean Relu" in outcome.err


@pytest.mark.usefixtures("adder")
def test_islands_borders_and_suggestions_are_shown(call: Call, save: Save) -> None:
    """The output shows the islands, the values that cross borders, and the operator that cut the graph."""
    text = "g (float[2] x) => (float[2] y) { a = Add(x, x) b = Relu(a) y = Add(b, b) }"
    outcome = call("explain", save(text), "--providers", "FakeExecutionProvider,CPUExecutionProvider")
    assert "islands: 3" in outcome.out
    assert "values that cross borders: 4, of which 32 bytes are copied between devices in a run" in outcome.out
    suggested = outcome.out[outcome.out.index("support that would merge") :].splitlines()
    assert suggested[2].split() == ["Relu", "FakeExecutionProvider", "1", "3", "->", "1"]


def test_files_on_request(call: Call, save: Save, tmp_path: Path) -> None:
    """--html and --onnx write files, and the report names them."""
    page, model = tmp_path / "page.html", tmp_path / "annotated.onnx"
    report = call("explain", save(CHAIN), "--html", page, "--onnx", model, "--json").report
    assert report["written"] == [str(page), str(model)]
    assert "<title>model.onnx" in page.read_text(encoding="utf-8")
    assert onnx.load(model).graph.node[0].metadata_props[0].value == "CPUExecutionProvider"


def test_a_file_that_cannot_be_written(call: Call, save: Save, tmp_path: Path) -> None:
    """Is a failure that names it."""
    outcome = call("explain", save(CHAIN), "--html", tmp_path / "nowhere" / "page.html")
    assert outcome.code == 1
    assert "nowhere" in outcome.err
