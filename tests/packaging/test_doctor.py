"""``ort-py doctor`` and the page of a placement, from wheels: files have a record, and the page finds its parts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.fresh_environment import Environment

pytestmark = pytest.mark.packaging

CPU = "CPUExecutionProvider"


def test_an_installation_is_well(core_and_cpu: Environment) -> None:
    """Every recorded file is as it was installed, and the trial is exact."""
    outcome = core_and_cpu.script("ort-py", "doctor", "--json", "--require", CPU)
    report = json.loads(outcome.stdout)
    (cpu,) = report["providers"]
    assert (outcome.returncode, report["fine"], cpu["verdict"]) == (0, True, "usable"), outcome.stderr
    assert cpu["files"]["checked"] > 5
    assert cpu["files"]["modified"] == cpu["files"]["missing"] == []
    assert cpu["run"]["max_error"] == 0


def test_a_required_provider_that_is_not_installed(core_and_cpu: Environment) -> None:
    """Exit code 3, and the package that has it."""
    outcome = core_and_cpu.script("ort-py", "doctor", "--require", "DnnlExecutionProvider")
    assert outcome.returncode == 3
    assert "pip install ort-py-onednn" in outcome.stdout


def test_the_page_is_written(core_and_cpu: Environment, tmp_path: Path) -> None:
    """Its script and style are in the wheel."""
    page = tmp_path / "page.html"
    code = f"""
import onnx.parser, ort_py
text = '<ir_version: 10, opset_import: ["" : 21]> g (float[2] x) => (float[2] y) {{ y = Relu(x) }}'
model = onnx.parser.parse_model(text)
ort_py.InferenceSession(model.SerializeToString()).placement.to_html({str(page)!r})
"""
    outcome = core_and_cpu.run(code)
    assert outcome.returncode == 0, outcome.stderr
    assert "getContext" in page.read_text(encoding="utf-8")
