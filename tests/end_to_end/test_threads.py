"""Threads as an operator of services sees them: processors taken away, BLAS left as it was, nothing spins."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import pytest

import ort_py
from ort_py.platform.native_libraries import find_libraries

pytestmark = pytest.mark.usefixtures("cpu_runner")

TEXT = """<ir_version: 10, opset_import: ["" : 21]>
g (float[N, K] a, float[K, M] b) => (float[N, M] y) { y = MatMul(a, b) }"""

CHILD = """
import json, os, sys, threading, time
if sys.argv[1] != "all":
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[0]})
import numpy as np
import ort_py
session = ort_py.InferenceSession(sys.argv[2], providers=["CPUExecutionProvider"])
feeds = {"a": np.ones((512, 512), np.float32), "b": np.ones((512, 512), np.float32)}
for _ in range(5):
    session.run(None, feeds)
ours = sum(thread.name.startswith("ort_py_") for thread in threading.enumerate())
time.sleep(0.2)
before = time.process_time()
time.sleep(0.5)
idle = time.process_time() - before
print(json.dumps({"count": session.threads.count, "reason": session.threads.reason, "ours": ours, "idle": idle}))
"""


def session_of(threads: int = 0) -> ort_py.InferenceSession:
    """A session of one product."""
    options = ort_py.SessionOptions()
    options.intra_op_num_threads = threads
    model = onnx.parser.parse_model(TEXT).SerializeToString()
    return ort_py.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def feeds_of(size: int) -> dict[str, Any]:
    """Seeded square operands."""
    rng = np.random.default_rng(size)
    return {name: rng.standard_normal((size, size)).astype(np.float32) for name in "ab"}


def in_a_child(folder: Path, processors: str, **variables: str) -> dict[str, Any]:
    """A fresh process's threads after some large products."""
    model = folder / "model.onnx"
    onnx.save(onnx.parser.parse_model(TEXT), model)
    environment = {name: text for name, text in os.environ.items() if not name.endswith("_NUM_THREADS")} | variables
    command = [sys.executable, "-c", CHILD, processors, str(model)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity on this system")
def test_one_processor_means_one_thread(tmp_path: Path) -> None:
    found = in_a_child(tmp_path, "one")
    assert (found["count"], found["ours"]) == (1, 0)
    assert "affinity" in found["reason"]


@pytest.mark.parametrize("name", ["ORT_PY_NUM_THREADS", "OMP_NUM_THREADS"])
def test_a_variable_sets_the_number(tmp_path: Path, name: str) -> None:
    """One thread, whatever the machine has; the reason names the variable."""
    found = in_a_child(tmp_path, "all", **{name: "1"})
    assert (found["count"], found["ours"]) == (1, 0)
    assert found["reason"] == f"{name}=1" or found["reason"].startswith("1 processor")


def test_idle_is_idle(tmp_path: Path) -> None:
    """After large products no thread computes: neither the pool's nor BLAS's wait for work by spinning."""
    assert in_a_child(tmp_path, "all")["idle"] < 0.05


def test_blas_is_as_it_was() -> None:
    """After runs, failed ones too, and after the session, the program's own setting counts."""
    libraries = [library for library in find_libraries() if not library.family.per_thread]
    before = [library.get() for library in libraries]
    try:
        for library in libraries:
            library.set(2)
        with session_of(2) as session:
            session.run(None, feeds_of(300))
            assert [library.get() for library in libraries] == [2] * len(libraries)
            with pytest.raises(ort_py.OrtPyError):
                session.run(None, {"a": np.ones((2, 3), np.float32), "b": np.ones((2, 3), np.float32)})
            assert all(library.file in " ".join(session.threads.native) for library in libraries)
        assert [library.get() for library in libraries] == [2] * len(libraries)
    finally:
        for library, number in zip(libraries, before, strict=True):
            library.set(number)


@pytest.mark.parametrize("size", [64, 300, 512])
def test_results_do_not_depend_on_the_number_of_threads(size: int) -> None:
    """Sessions with one, two and three threads, and runs that share them with others: the same sums."""
    feeds = feeds_of(size)
    with session_of(1) as one:
        (expected,) = one.run(None, feeds)
    for threads in (2, 3):
        with session_of(threads) as session:
            with ThreadPoolExecutor(3) as crew:
                runs = [crew.submit(session.run, None, feeds) for _ in range(6)]
            for (y,) in (run.result() for run in runs):
                np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-4)
