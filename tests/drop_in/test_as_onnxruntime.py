"""ort-py under onnxruntime's name beside an installed onnxruntime."""

from __future__ import annotations

import subprocess
import sys


def python(code: str) -> subprocess.CompletedProcess[str]:
    """Run code in a fresh interpreter."""
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def test_the_installed_onnxruntime_loses() -> None:
    """Package and metadata are ours, though onnxruntime is installed."""
    done = python(
        "import ort_py\nort_py.install_as_onnxruntime()\n"
        "import importlib.metadata, onnxruntime\n"
        "print(onnxruntime.InferenceSession is ort_py.InferenceSession)\n"
        "print(importlib.metadata.metadata('onnxruntime')['Summary'])"
    )
    assert done.stdout.startswith("True\nort-py under the name of onnxruntime"), done.stderr


def test_the_imported_onnxruntime_is_not_replaced() -> None:
    """Once onnxruntime is imported it is too late, and the message says what to do."""
    done = python("import onnxruntime\nimport ort_py\nort_py.install_as_onnxruntime()")
    assert done.returncode == 1
    assert "ort-py cannot stand in for onnxruntime: onnxruntime is imported already." in done.stderr
    assert "python -m ort_py.as_onnxruntime" in done.stderr
