"""``ort-py tune``: a table of placements, JSON, and the calibration of providers."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.tests.cli.conftest import RELU, Call, Save


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own."""
    monkeypatch.setenv("ORT_PY_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_model_is_tuned(call: Call, save: Save) -> None:
    """A row for the order given, and what was chosen."""
    outcome = call("tune", save(RELU), "--seconds", "0.05", "--dim", "N=2")
    assert outcome.code == 0
    assert outcome.out.splitlines()[0].startswith("placement")
    assert "* in order" in outcome.out


def test_json_has_the_candidates(call: Call, save: Save) -> None:
    report = call("tune", save(RELU), "--seconds", "0.05", "--dim", "N=2", "--forget", "--json").report
    assert report["chosen"] == "in order"
    assert report["remark"] == "as was asked"
    assert report["candidates"][0]["milliseconds"] > 0


def test_providers_are_calibrated(call: Call, folder: Path) -> None:
    """A row for each; the cache lists what was found."""
    outcome = call("tune", "--calibrate", "--seconds", "0.05", "--threads", "1")
    assert outcome.code == 0
    assert "CPUExecutionProvider" in outcome.out
    report = call("tune", "--calibrate", "--seconds", "0.05", "--json").report
    assert report["providers"][0]["rates"]["flops_per_us"] > 0
    listed = call("cache", "ls").out
    assert "rates" in listed
    assert "CPUExecutionProvider" in listed


@pytest.mark.parametrize("arguments", [(), ("model.onnx", "--calibrate")])
def test_a_model_or_the_providers(call: Call, arguments: tuple[str, ...]) -> None:
    outcome = call("tune", *arguments)
    assert outcome.code == 1
    assert "Pass either MODEL or --calibrate" in outcome.err
