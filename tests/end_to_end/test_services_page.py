"""The page on services: its examples run and say what the page says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

import ort_py as ort
from tests.support.source_tree import ROOT

PAGE = (ROOT / "docs" / "user" / "services.md").read_text(encoding="utf-8")
WARMUP, MANAGER, FINGERPRINT = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)

TEXT = """<ir_version: 10, opset_import: ["" : 21]>
g (float[batch, length] x) => (float[batch, length] y) { y = Relu(x) }"""


def run(code: str, **names: Any) -> dict[str, Any]:
    """Run an example of the page."""
    found: dict[str, Any] = {"ort": ort, **names}
    exec(compile(code, "services.md", "exec"), found)  # the page is part of this repository
    return found


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model in the working directory."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "detector.onnx"
    onnx.save(onnx.parser.parse_model(TEXT), path)
    return path


def test_warming_up(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = run(WARMUP, session=ort.InferenceSession(model, providers=["CPUExecutionProvider"]))
    assert len(found["report"].warmed) == 4
    assert "x 8x32" in capsys.readouterr().out


def test_a_manager(model: Path) -> None:
    """A registered model is borrowed and run."""
    found = run(MANAGER, image=np.array([[-1.0, 2.0]], np.float32))
    np.testing.assert_array_equal(found["outputs"][0], [[0, 2]])
    found["manager"].close()


def test_a_fingerprint(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Twelve letters, parts, and what is different."""
    sessions = [ort.InferenceSession(model, providers=["CPUExecutionProvider"]) for _ in range(2)]
    run(FINGERPRINT, session=sessions[0], other=sessions[1])
    digest, parts, differences = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"[0-9a-f]{12}", digest)
    assert "'plan': " in parts
    assert differences == "{}"
