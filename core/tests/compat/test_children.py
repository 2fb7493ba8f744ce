"""ort-py under onnxruntime's name in child processes: whatever way they are started, as long as they get the
environment of their parent.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_REPORT = """
import importlib.metadata, importlib.util, os
import onnxruntime, ort_py

def report(_=None):
    assert onnxruntime.InferenceSession is ort_py.InferenceSession
    spec = importlib.util.find_spec("onnxruntime")
    return [spec.name, importlib.metadata.version("onnxruntime"), os.environ["ORT_PY_COMPAT"]]
"""


def run(folder: Path, code: str, *prefix: str) -> subprocess.CompletedProcess[str]:
    """Run a program in which onnxruntime is ort-py."""
    (folder / "report.py").write_text(_REPORT)
    (folder / "app.py").write_text(code)
    command = [sys.executable, "-m", "ort_py.as_onnxruntime", *(prefix or (str(folder / "app.py"),))]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=False, cwd=folder, stdin=subprocess.DEVNULL
    )


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_multiprocessing(method: str, tmp_path: Path) -> None:
    """Workers of a pool that start as fresh interpreters."""
    import multiprocessing

    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"this platform cannot {method}")
    done = run(
        tmp_path,
        "import multiprocessing\nfrom report import report\n"
        f"if __name__ == '__main__':\n    with multiprocessing.get_context({method!r}).Pool(1) as pool:\n"
        "        print(pool.map(report, [0]))\n",
    )
    assert done.stdout == "[['onnxruntime', '1.31.1', '1']]\n", done.stderr


def test_subprocess(tmp_path: Path) -> None:
    """A second interpreter that the program starts."""
    done = run(
        tmp_path,
        "import subprocess, sys\n"
        "subprocess.run([sys.executable, '-c', 'from report import report; print(report())'], check=True)\n",
    )
    assert done.stdout == "['onnxruntime', '1.31.1', '1']\n", done.stderr


def test_pytest(tmp_path: Path) -> None:
    """The tests of an application, run by pytest as a module."""
    (tmp_path / "test_app.py").write_text(
        "from report import report\n\ndef test_runtime():\n    assert report()[1] == '1.31.1'\n"
    )
    done = run(tmp_path, "", "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_app.py")
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout
