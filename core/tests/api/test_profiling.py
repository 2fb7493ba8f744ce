"""The profile a session writes, in the shape of onnxruntime's."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np

from core.tests.small_models import RELU, open_model
from ort_py import SessionOptions

X = np.ones((2, 3), np.float32)


def profile(prefix: Path) -> str:
    """Run a model with profiling on; the file's name."""
    options = SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = str(prefix)
    session = open_model(RELU, options)
    session.run(None, {"x": X})
    return session.end_profiling()


def test_file_is_named_like_onnxruntimes(tmp_path: Path) -> None:
    """Prefix, underscore, date, time and milliseconds."""
    name = Path(profile(tmp_path / "run")).name
    assert re.fullmatch(r"run_\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d_\d{3}\.json", name)


def test_each_node_has_an_event(tmp_path: Path) -> None:
    """A node's event names operator and provider."""
    events = json.loads(Path(profile(tmp_path / "run")).read_text())
    (node,) = [event for event in events if event["cat"] == "Node"]
    assert node["name"].endswith("_kernel_time")
    assert (node["args"]["op_name"], node["args"]["provider"]) == ("Relu", "CPUExecutionProvider")
    assert node["dur"] >= 0


def test_creation_and_run_are_events(tmp_path: Path) -> None:
    """Loading, initialisation and each run are events of the session."""
    events = json.loads(Path(profile(tmp_path / "run")).read_text())
    names = [event["name"] for event in events if event["cat"] == "Session"]
    assert {"session_initialization", "model_run"} <= set(names)


def test_ending_twice_gives_nothing(tmp_path: Path) -> None:
    """The second call has nothing to write."""
    options = SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = str(tmp_path / "run")
    session = open_model(RELU, options)
    assert session.end_profiling()
    assert session.end_profiling() == ""
    assert len(list(tmp_path.iterdir())) == 1


def test_nothing_is_written_without_profiling(tmp_path: Path) -> None:
    """A session that does not profile has no file."""
    assert open_model(RELU).end_profiling() == ""


def test_closing_writes_the_profile(tmp_path: Path) -> None:
    """A session that is closed without `end_profiling` still writes its file, as onnxruntime does."""
    options = SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = str(tmp_path / "run")
    with open_model(RELU, options) as session:
        session.run(None, {"x": X})
    (file,) = tmp_path.iterdir()
    assert json.loads(file.read_text())


def test_sequences_have_neither_type_nor_size(tmp_path: Path) -> None:
    options = SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = str(tmp_path / "run")
    session = open_model("g (float[2] x) => (seq(float[2]) y) { y = SequenceConstruct(x, x) }", options)
    session.run(None, {"x": X[:, 0]})
    events = json.loads(Path(session.end_profiling()).read_text())
    (told,) = [event["args"] for event in events if event["args"].get("op_name") == "SequenceConstruct"]
    assert (told["input_type_shape"], told["activation_size"]) == ([{"float": [2]}] * 2, "16")
    assert (told["output_type_shape"], told["output_size"]) == ([], "0")
