"""Helpers for tests of the command line: a way to call it, and model files."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx.parser
import pytest

from ort_py.cli.main import main

RELU = "g (float[N, 3] x) => (float[N, 3] y) { y = Relu(x) }"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a command."""

    code: int
    out: str
    err: str

    @property
    def report(self) -> Any:
        """Standard output as JSON."""
        return json.loads(self.out)


Call = Callable[..., Outcome]
Save = Callable[..., Path]


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    """Call ``ort-py`` with arguments, in this process."""

    def run(*arguments: object) -> Outcome:
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return run


@pytest.fixture
def save(tmp_path: Path) -> Save:
    """Write a model, given as ONNX text, to a file."""

    def write(text: str = RELU, name: str = "model.onnx") -> Path:
        header = "" if text.lstrip().startswith("<") else '<ir_version: 10, opset_import: ["" : 21]> '
        path = tmp_path / name
        path.write_bytes(onnx.parser.parse_model(header + text).SerializeToString())
        return path

    return write


@pytest.fixture(autouse=True)
def on_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run these tests on the CPU provider, whatever is installed."""
    monkeypatch.setenv("ORT_PY_PROVIDERS", "CPUExecutionProvider")
    monkeypatch.delenv("ORT_PY_STRICT", raising=False)
