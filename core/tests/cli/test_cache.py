"""``ort-py cache``: listing, pruning and verifying, as text and as JSON."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import ort_py
from core.tests.cli.conftest import Call, Save
from ort_py.cache.store import CacheStore
from ort_py.cache.writing import process_queue


@pytest.fixture
def folder(tmp_path: Path, save: Save) -> Path:
    """A cache with one prepared model and one artifact."""
    folder = tmp_path / "cache"
    options = ort_py.SessionOptions()
    options.cache_dir = folder
    options.add_session_config_entry("session.model_cache", "1")
    ort_py.InferenceSession(save(), options, providers=["CPUExecutionProvider"]).close()
    process_queue().wait()
    CacheStore(folder, 1 << 20).put("00ff", "artifact", b"engine")
    return folder


def test_listing_shows_what_there_is(folder: Path, call: Call) -> None:
    """Each entry with the model's file name and the providers of its nodes; the sum last."""
    outcome = call("cache", "ls", "--folder", folder)
    assert outcome.code == 0
    assert "model.onnx (CPUExecutionProvider: 1)" in outcome.out
    assert "artifact" in outcome.out
    assert "2 entries" in outcome.out
    assert str(folder) in outcome.out


def test_listing_as_json(folder: Path, call: Call) -> None:
    report = call("cache", "ls", "--folder", folder, "--json").report
    kinds = {entry["kind"]: entry for entry in report["entries"]}
    assert set(kinds) == {"model", "artifact"}
    assert kinds["model"]["about"] == {"title": "model.onnx", "nodes": 1, "providers": {"CPUExecutionProvider": 1}}
    assert report["bytes"] == sum(entry["bytes"] for entry in report["entries"])


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such names of files")
def test_names_of_models_cannot_steer_the_terminal(tmp_path: Path, save: Save, call: Call) -> None:
    """A file may be called anything."""
    options = ort_py.SessionOptions()
    options.cache_dir = tmp_path / "cache"
    options.add_session_config_entry("session.model_cache", "1")
    ort_py.InferenceSession(save(name="a\x1b[2Jb.onnx"), options, providers=["CPUExecutionProvider"]).close()
    process_queue().wait()
    assert "\x1b" not in call("cache", "ls", "--folder", tmp_path / "cache").out


def test_pruning_everything(folder: Path, call: Call) -> None:
    outcome = call("cache", "prune", "--all", "--folder", folder)
    assert outcome.out.startswith("removed 2 entries")
    assert call("cache", "ls", "--folder", folder, "--json").report["entries"] == []


def test_pruning_to_a_size(folder: Path, call: Call) -> None:
    """Only what does not fit goes; without arguments what does not fit in the cache."""
    assert call("cache", "prune", "--folder", folder, "--json").report["removed"] == []
    report = call("cache", "prune", "--size", "200", "--folder", folder, "--json").report
    assert report["left"] == 1


def test_pruning_what_nobody_uses(folder: Path, call: Call) -> None:
    assert call("cache", "prune", "--unused", "1", "--folder", folder, "--json").report["left"] == 2
    assert call("cache", "prune", "--unused", "-1", "--folder", folder, "--json").report["left"] == 0


def test_a_size_must_be_one(folder: Path, call: Call) -> None:
    outcome = call("cache", "prune", "--size", "much", "--folder", folder)
    assert outcome.code == 2
    assert "'much' is not a size" in outcome.err


def test_verifying(folder: Path, call: Call) -> None:
    """Zero where all is well, one where something is damaged; `--remove` cleans up."""
    assert call("cache", "verify", "--folder", folder).code == 0
    path = folder / "00ff.artifact"
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    outcome = call("cache", "verify", "--folder", folder)
    assert outcome.code == 1
    assert "00ff.artifact: its description was changed after it was written" in outcome.out
    assert call("cache", "verify", "--remove", "--folder", folder, "--json").report["damaged"] == 1
    assert call("cache", "verify", "--folder", folder).code == 0


def test_a_folder_that_is_not_there_is_empty_and_stays_away(tmp_path: Path, call: Call) -> None:
    folder = tmp_path / "none"
    assert call("cache", "ls", "--folder", folder).out.startswith("0 entries")
    assert call("cache", "verify", "--folder", folder).code == 0
    assert call("cache", "prune", "--folder", folder).code == 0
    assert not folder.exists()


def test_a_cache_that_is_off_is_said(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the way to name one."""
    monkeypatch.setenv("ORT_PY_CACHE", "off")
    outcome = call("cache", "ls")
    assert outcome.code == 1
    assert "ORT_PY_CACHE turns it off" in outcome.err
    assert "--folder" in outcome.err


def test_options_of_another_action_are_refused(folder: Path, call: Call) -> None:
    """A listing removes nothing, so an option for removal is refused."""
    outcome = call("cache", "ls", "--all", "--folder", folder)
    assert outcome.code == 1
    assert "Options of `ort-py cache prune` were passed to `ls`" in outcome.err


def test_an_action_is_needed(call: Call) -> None:
    """The command line is wrong without one."""
    assert call("cache").code == 2
