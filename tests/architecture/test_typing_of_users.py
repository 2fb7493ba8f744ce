"""The types a user sees: a small program written against the public surface passes ``mypy --strict``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import ort_py

pytestmark = pytest.mark.slow

RIGHT = """
from pathlib import Path
from typing import Any

import numpy as np
import ort_py as ort

options = ort.SessionOptions()
options.intra_op_num_threads = 2
options.limits = ort.Limits.untrusted()
with ort.InferenceSession(Path("model.onnx"), options, providers=["CPUExecutionProvider"]) as session:
    feeds: dict[str, Any] = {argument.name: np.zeros(3, np.float32) for argument in session.get_inputs()}
    results = session.run(None, feeds)
    first: Any = results[0]
    counts: dict[str, int] = session.placement.counts()
    seconds: float = session.load_report.seconds
value: ort.OrtValue = ort.OrtValue.ortvalue_from_numpy(np.zeros(2))
shape: list[int] = value.shape()
names: list[str] = ort.get_available_providers()
try:
    ort.InferenceSession(b"")
except ort.InvalidArgument as error:
    text: str = error.fix
"""

WRONG = """
import ort_py as ort

session = ort.InferenceSession("model.onnx", ort.RunOptions())
session.run(None, ["x"])
number: int = session.get_providers()
"""


def check(program: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Type-check a program as a user would."""
    (folder / "program.py").write_text(program)
    environment = dict(os.environ)
    home = Path(ort_py.__file__).parents[1]
    if home.name != "site-packages":  # mypy finds installed packages itself, and does not accept a path to them
        environment["MYPYPATH"] = str(home)
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "program.py"]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
    )


def test_right_program_passes(tmp_path: Path) -> None:
    """Sessions, options, values and errors have the types their documentation says."""
    done = check(RIGHT, tmp_path)
    assert done.returncode == 0, done.stdout


def test_wrong_program_is_found_out(tmp_path: Path) -> None:
    """Wrong arguments are errors: the types are not all `Any`."""
    done = check(WRONG, tmp_path)
    assert done.stdout.count(": error:") == 3, done.stdout
