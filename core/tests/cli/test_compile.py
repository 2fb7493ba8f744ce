"""``ort-py compile``: a file that runs, its report, and arguments that make no sense."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import ort_py
from core.tests.cli.conftest import RELU, Call, Save
from ort_py.engine import compiled_fit

X = np.array([[1, -2, 3]], np.float32)


def test_a_model_is_compiled(call: Call, save: Save, tmp_path: Path) -> None:
    """The report says what is in the file; the other commands run it."""
    target = tmp_path / "m.ortpy"
    outcome = call("compile", save(RELU), "-o", target, "--dim", "N=2")
    assert outcome.code == 0
    assert outcome.out.startswith(f"{target}: ")
    assert "CPUExecutionProvider: 1 nodes" in outcome.out
    assert ort_py.InferenceSession(target).run(None, {"x": X})[0].tolist() == [[1, 0, 3]]
    assert call("run", target, "--dim", "N=2").code == 0


def test_the_file_is_named_like_the_model(
    call: Call, save: Save, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the working folder, and not beside the model."""
    model = save(RELU)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert call("compile", model, "--no-run").code == 0
    assert [one.name for one in (tmp_path / "here").iterdir()] == [model.with_suffix(".ortpy").name]


def test_json_has_the_parts(call: Call, save: Save, tmp_path: Path) -> None:
    report = call("compile", save(RELU), "-o", tmp_path / "m.ortpy", "--embed-original", "--json").report
    assert set(report["parts"]) == {"model", "original"}
    assert report["bytes"] == (tmp_path / "m.ortpy").stat().st_size


def test_info_shows_what_a_file_was_made_for(call: Call, save: Save, tmp_path: Path) -> None:
    """The description is text or JSON, and says why the model does not fit."""
    target = tmp_path / "m.ortpy"
    call("compile", save(RELU), "-o", target)
    outcome = call("info", target)
    assert outcome.code == 0
    assert "model.onnx" in outcome.out
    assert "ort-py-core" in outcome.out
    assert "not here" not in outcome.out
    report = call("info", target, "--json").report
    assert report["bytes"] == target.stat().st_size
    assert report["does_not_fit"] == []


def test_info_shows_why_a_file_does_not_fit(
    call: Call, save: Save, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call("compile", save(RELU), "-o", tmp_path / "m.ortpy")
    monkeypatch.setattr(compiled_fit, "versions_of", lambda names: {})
    assert "not here   ort-py-core" in call("info", tmp_path / "m.ortpy").out
    (tmp_path / "m.ortpy").write_bytes(b"something else")
    assert call("info", tmp_path / "m.ortpy").code == 1


def test_options_are_compiled_in(call: Call, save: Save, tmp_path: Path) -> None:
    """A size that is fixed, and a config entry."""
    target = tmp_path / "m.ortpy"
    arguments = ("--fix", "N=1", "--config", "session.plugin_kernels_override=1", "--optimization", "basic")
    assert call("compile", save(RELU), "-o", target, *arguments).code == 0
    session = ort_py.InferenceSession(target)
    assert session.get_inputs()[0].shape == [1, 3]
    options = session.get_session_options()
    assert options.get_session_config_entry("session.plugin_kernels_override") == "1"
    assert options.graph_optimization_level is ort_py.GraphOptimizationLevel.ORT_ENABLE_BASIC


def test_inputs_from_files_have_to_fit(call: Call, save: Save, tmp_path: Path) -> None:
    """A run that fails with them is an error; with generated ones it is a note."""
    np.save(tmp_path / "x.npy", np.zeros((1, 4), np.float32))
    target = tmp_path / "m.ortpy"
    outcome = call("compile", save(RELU), "-o", target, "--input", tmp_path / "x.npy")
    assert outcome.code == 1
    assert not target.exists()
    model = save("g (int64[1] i) => (float[1] y) <float[2] c = {1, 2}> { y = Gather(c, i) }", "gather.onnx")
    outcome = call("compile", model, "-o", target)
    assert outcome.code == 0
    assert target.exists()


@pytest.mark.parametrize("given", [("--fix", "N"), ("--fix", "N=x"), ("--config", "a"), ("--config", "=1")])
def test_a_wrong_command_line_is_refused(call: Call, save: Save, given: tuple[str, str]) -> None:
    outcome = call("compile", save(RELU), *given)
    assert outcome.code == 2
    assert given[1] in outcome.err


def test_a_wrong_name_is_an_error(call: Call, save: Save, tmp_path: Path) -> None:
    outcome = call("compile", save(RELU), "-o", tmp_path / "m.bin")
    assert outcome.code == 1
    assert "has to end in '.ortpy'" in outcome.err
