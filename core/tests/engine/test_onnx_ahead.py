"""Tests of `ort_py.engine.onnx_ahead`. Most ask a fresh interpreter, because this one has onnx's table."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import pytest

from core.tests.small_models import model_bytes, typed_identity
from ort_py.engine import onnx_ahead as module
from ort_py.engine.onnx_ahead import OnnxAhead

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the function's name is known on Linux only")

AHEAD = "import os, sys, ort_py\nfrom ort_py.engine.onnx_ahead import onnx_ahead\n"


def answer(code: str, *arguments: str, **environment: str) -> str:
    """Return the output of a fresh interpreter."""
    command, around = [sys.executable, "-c", code, *arguments], {**os.environ, **environment}
    outcome = subprocess.run(command, capture_output=True, text=True, check=False, env=around)
    assert outcome.returncode == 0, outcome.stderr
    return outcome.stdout.strip()


@linux
def test_the_installed_onnx_has_the_function() -> None:
    """A version that calls it otherwise would be slower, and nothing else would say so."""
    assert hasattr(ctypes.CDLL(module._native_part()), module._FILL)


@linux
def test_the_table_can_be_used_after_it() -> None:
    code = AHEAD + (
        "onnx_ahead.begin()\n"
        "onnx_ahead.end()\n"
        "from ort_py.onnx_parts import onnx\n"
        "print(onnx.defs.has('Conv'), onnx.defs.has('Konv'), onnx.defs.get_schema('Relu', 14).since_version)"
    )
    assert answer(code).split() == ["True", "False", "14"]


@linux
def test_the_table_can_be_used_before_it_is_full() -> None:
    code = AHEAD + (
        "from ort_py.onnx_parts import onnx\n"
        "onnx_ahead.begin()\n"
        "print(onnx.defs.has('Conv'), onnx.defs.has('Konv'))\n"
        "onnx_ahead.end()"
    )
    assert answer(code).split() == ["True", "False"]


@linux
def test_no_thread_is_left_when_a_session_exists(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(model_bytes(typed_identity("float[2]")))
    code = AHEAD + (
        "options = ort_py.SessionOptions()\n"
        "options.intra_op_num_threads = 1\n"
        "session = ort_py.InferenceSession(sys.argv[1], options, providers=['CPUExecutionProvider'])\n"
        "print(onnx_ahead._begun, len(os.listdir('/proc/self/task')))"
    )
    environment = {"ORT_PY_CACHE": "off", "OPENBLAS_NUM_THREADS": "1"}
    assert answer(code, str(path), **environment).split() == ["True", "1"]


@linux
def test_no_thread_is_left_when_there_is_no_model(tmp_path: Path) -> None:
    code = AHEAD + (
        "try: ort_py.InferenceSession(sys.argv[1], providers=['CPUExecutionProvider'])\n"
        "except ort_py.OrtPyError: print(len(os.listdir('/proc/self/task')))"
    )
    environment = {"ORT_PY_CACHE": "off", "OPENBLAS_NUM_THREADS": "1"}
    assert answer(code, str(tmp_path / "absent.onnx"), **environment) == "1"


@pytest.mark.skipif(sys.platform == "win32", reason="there are no forks")
def test_a_fork_waits_for_the_table() -> None:
    code = AHEAD + (
        "onnx_ahead.begin()\n"
        "child = os.fork()\n"
        "from ort_py.onnx_parts import onnx\n"
        "if not child: os._exit(0 if onnx.defs.has('Conv') else 1)\n"
        "print(os.waitpid(child, 0)[1], onnx.defs.has('Conv'))"
    )
    assert answer(code) == "0 True"


def test_nothing_begins_where_addresses_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "addresses_limited", lambda: True)
    monkeypatch.delitem(sys.modules, "onnx", raising=False)
    ahead = OnnxAhead()
    ahead.begin()
    assert ahead._thread is None
    ahead.end()
