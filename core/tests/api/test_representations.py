"""Representations in the interactive prompt and a debugger: short, with the most important facts."""

from __future__ import annotations

import re

import numpy as np

from core.tests.small_models import ADD, RELU, open_model
from ort_py import Limits, OrtValue, RunOptions, SessionOptions


def test_session() -> None:
    assert repr(open_model(RELU)) == "<InferenceSession g: nodes by provider CPUExecutionProvider: 1>"


def test_options_show_what_was_changed() -> None:
    """Defaults are left out; config entries are shown."""
    options = SessionOptions()
    assert repr(options) == "SessionOptions()"
    options.intra_op_num_threads = 2
    options.add_session_config_entry("session.disable_prepacking", "1")
    assert repr(options) == "SessionOptions(intra_op_num_threads=2, 'session.disable_prepacking': '1')"
    run = RunOptions()
    run.terminate = True
    assert repr(run) == "RunOptions(terminate=True)"


def test_node_arg_reads_as_in_onnxruntime() -> None:
    (x,) = open_model(RELU).get_inputs()
    assert str(x) == "NodeArg(name='x', type='tensor(float)', shape=['N', 3])"
    assert repr(x) == str(x)


def test_model_metadata() -> None:
    text = repr(open_model(RELU).get_modelmeta())
    assert text.startswith("ModelMetadata(")
    assert "graph_name='g'" in text


def test_ort_value() -> None:
    """Type, shape and device, never the content."""
    text = repr(OrtValue.ortvalue_from_numpy(np.zeros((1000, 2), np.float32)))
    assert "tensor(float)" in text
    assert "[1000, 2]" in text
    assert "cpu" in text
    assert len(text) < 100


def test_placement_and_its_nodes() -> None:
    """The placement as counts, a node with where and why."""
    placement = open_model(ADD).placement
    assert repr(placement) == "<Placement of 1 nodes: CPUExecutionProvider: 1>"
    (node,) = placement
    assert "op_type='Add'" in repr(node)


def test_empty_placement() -> None:
    assert repr(open_model("g (float[2] x) => (float[2] y) <float[2] y = {1, 2}> { }").placement).startswith(
        "<Placement of "
    )


def test_reports() -> None:
    """Stages and time; bytes by kind; the number of threads with its reason."""
    session = open_model(RELU)
    assert re.fullmatch(r"<LoadReport of 8 stages: \d+\.\d ms>", repr(session.load_report))
    assert repr(session.memory_report()).startswith("MemoryReport(weights=0, ")
    assert repr(session.threads).startswith("ThreadCount(count=")
    assert repr(session.load_report.stages[0]).startswith("StageReport(stage='providers'")


def test_limits() -> None:
    assert "run_seconds=1.5" in repr(Limits(run_seconds=1.5))
