"""Fingerprints: their inputs, the changes that affect them and those that do not, and the places that show them."""

from __future__ import annotations

import json
import logging
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from core.tests.small_models import RELU, open_model
from ort_py import Fingerprint, InvalidArgument, SessionOptions

ROOT = Path(__file__).parents[3]


def test_its_parts() -> None:
    """Model, versions, machine, provider with its version, options and plan."""
    found = open_model(RELU).fingerprint
    assert list(found.parts) == [
        *("model", "ort-py-core", "numpy", "python", "machine"),
        *("provider CPUExecutionProvider", "options", "plan"),
    ]
    assert found.parts["numpy"] == np.__version__
    assert found.parts["provider CPUExecutionProvider"].startswith("ort-py-cpu ")
    assert str(found) == found.digest
    assert len(found.digest) == 12


def test_equal_sessions_are_equal() -> None:
    """Also as keys of a dict, and after a pickle."""
    one, two = open_model(RELU).fingerprint, open_model(RELU).fingerprint
    assert one == two == pickle.loads(pickle.dumps(one))
    assert {one: 1}[two] == 1
    assert one.differences(two) == {}
    assert one != str(one)


def test_other_processes_say_the_same() -> None:
    """The fingerprint depends neither on the hash seed nor on the folder nor on the number of threads."""
    program = "from core.tests.small_models import RELU, open_model; print(open_model(RELU).fingerprint)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])}
    found = {
        subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            check=True,
            env={**environment, "PYTHONHASHSEED": seed, "ORT_PY_NUM_THREADS": seed},
        ).stdout.strip()
        for seed in ("1", "2")
    }
    assert found == {str(open_model(RELU).fingerprint)}


def test_another_model_differs_in_model_and_plan() -> None:
    there = open_model(RELU.replace("Relu", "Neg")).fingerprint
    found = open_model(RELU).fingerprint.differences(there)
    assert sorted(found) == ["model", "plan"]
    assert found["plan"][1] == there.parts["plan"]


def test_options_that_change_results_are_a_part() -> None:
    """Precision, config entries and fixed dimensions are; log levels, limits and threads are not."""
    usual = open_model(RELU).fingerprint
    silent = SessionOptions()
    silent.log_severity_level = 3
    silent.intra_op_num_threads = 1
    assert open_model(RELU, silent).fingerprint == usual
    other = SessionOptions()
    other.precision = "bfloat16"
    other.disabled_transforms = {"B", "A"}
    other.add_free_dimension_override_by_name("N", 2)
    found = open_model(RELU, other).fingerprint
    assert found.parts["options"] == "disabled_transforms=A,B precision=bfloat16 N=2"
    assert "options" in usual.differences(found)


def test_parts_that_only_one_has() -> None:
    """Named with nothing on the other side."""
    assert Fingerprint({"a": "1"}).differences(Fingerprint({"b": "2"})) == {"a": ("1", ""), "b": ("", "2")}


def test_reports_and_log_tell_it(caplog: pytest.LogCaptureFixture) -> None:
    """The load report describes it, and the log at INFO; nothing is computed without a listener."""
    with caplog.at_level(logging.INFO, "ort_py.session"):
        session = open_model(RELU)
    assert f"fingerprint <Fingerprint {session.fingerprint}" in caplog.text
    assert session.load_report.fingerprint == str(session.fingerprint)
    assert f"fingerprint  {session.fingerprint}" in str(session.load_report)
    with caplog.at_level(logging.WARNING, "ort_py.session"):
        assert open_model(RELU)._fingerprint is None


def test_the_profile_tells_it(tmp_path: Path) -> None:
    """Among the arguments of its first event."""
    options = SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = str(tmp_path / "p")
    session = open_model(RELU, options)
    events = json.loads(Path(session.end_profiling()).read_text())
    assert events[0]["args"]["fingerprint"] == str(session.fingerprint)


def test_closed_sessions_know_what_they_were() -> None:
    asked, unasked = open_model(RELU), open_model(RELU)
    before = asked.fingerprint
    asked.close()
    unasked.close()
    assert asked.fingerprint == before
    assert unasked.load_report.fingerprint == ""
    with pytest.raises(InvalidArgument, match="session is closed"):
        _ = unasked.fingerprint
