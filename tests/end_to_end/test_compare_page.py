"""The page on comparing: its examples run and say what the page says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import onnx
import onnx.parser
import pytest

import ort_py as ort
from ort_py.cli.main import main
from tests.support.source_tree import ROOT

PAGE = (ROOT / "docs" / "user" / "compare.md").read_text(encoding="utf-8")
COMPARE, BISECT, SWITCH_OFF = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
COMMANDS = re.findall(r"^ort-py (compare model\.onnx.*?)(?:  +#.*)?$", PAGE, flags=re.MULTILINE)

TEXT = """<ir_version: 10, opset_import: ["" : 21]>
g (float[batch, 3] x) => (float[batch, 3] y) <float[3] one = {1, 1, 1}> {
    a = Add(x, one) b = Identity(a) y = Tanh(b)
}"""


def run(code: str, **names: Any) -> dict[str, Any]:
    """Run an example of the page."""
    found: dict[str, Any] = {"ort": ort, **names}
    exec(compile(code, "compare.md", "exec"), found)  # the page is part of this repository
    return found


@pytest.fixture(autouse=True)
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model in the working directory."""
    monkeypatch.chdir(tmp_path)
    onnx.save(onnx.parser.parse_model(TEXT), tmp_path / "model.onnx")


def test_comparing(capsys: pytest.CaptureFixture[str]) -> None:
    report = run(COMPARE)["report"]
    assert (report.equal, report.first, report.nan_origin) == (True, None, None)
    assert "model.onnx: 1 run(s), equal within the tolerance" in capsys.readouterr().out


def test_bisecting() -> None:
    """There is nothing to switch off."""
    report = run(BISECT)["report"]
    assert report.culprit is None
    assert tuple(run(SWITCH_OFF, report=report)["options"].disabled_transforms) == ()


def test_commands(capsys: pytest.CaptureFixture[str]) -> None:
    """Those that name no provider and no file of their own."""
    ran = 0
    for command in COMMANDS:
        if "--input" not in command and "XExecutionProvider" not in command:
            assert main(command.split()) == 0, capsys.readouterr().err
            ran += 1
    assert (len(COMMANDS), ran) == (5, 3)
