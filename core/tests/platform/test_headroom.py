"""Short memory and missing threads are errors with a type under the strict limits, and never end the process."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading

import pytest

from ort_py.errors import ExecutionError
from ort_py.execution.run_queue import Job, RunQueue
from ort_py.execution.thread_pool import ThreadPool
from ort_py.platform.headroom import has_headroom, start_thread

LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the size of a process is read from /proc")

PRODUCT = """
import resource, sys
import numpy as np, onnx.parser
import ort_py as ort
model = onnx.parser.parse_model(
    '<ir_version: 8, opset_import: ["" : 13]>'
    'g (double[n, k] a, double[k, m] b) => (double[n, m] c) { c = MatMul(a, b) }'
)
options = ort.SessionOptions()
options.limits = ort.Limits.untrusted()
options.intra_op_num_threads = 2
session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
a = np.ones((700, 700))
held = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (held + (int(sys.argv[1]) << 20),) * 2)
try:
    print(session.run(None, {"a": a, "b": a})[0].shape)
except ort.OrtPyError as error:
    print(type(error).__name__)
"""


def _child(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={"OPENBLAS_NUM_THREADS": "2"},
    )


@LINUX
@pytest.mark.parametrize(
    ("mebibytes", "expected"), [(4, "MemoryLimitError"), (24, "MemoryLimitError"), (512, "(700, 700)")]
)
def test_a_product_without_memory_for_buffers_is_refused(mebibytes: int, expected: str) -> None:
    """OpenBLAS would end the process: the first product on two threads allocates 32 MiB for each."""
    done = _child(PRODUCT, str(mebibytes))
    assert (done.returncode, done.stdout.strip()) == (0, expected), done.stderr


def test_an_unlimited_process_has_headroom() -> None:
    """The system decides itself, whatever is asked for."""
    done = _child("from ort_py.platform.headroom import has_headroom; print(has_headroom(1 << 60))")
    assert done.stdout.strip() == "True", done.stderr


@LINUX
def test_a_limited_process_has_what_is_left() -> None:
    """The headroom is as much as can be mapped."""
    program = """
    import resource
    from ort_py.platform.headroom import has_headroom
    held = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (held + (64 << 20),) * 2)
    print(has_headroom(32 << 20), has_headroom(80 << 20))
    """
    assert _child(program).stdout.strip() == "True False"


def _no_thread(self: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


def test_a_thread_that_cannot_be_started_is_an_error_with_a_type(monkeypatch: pytest.MonkeyPatch) -> None:
    """It names the thread, and keeps the cause."""
    monkeypatch.setattr(threading.Thread, "start", _no_thread)
    with pytest.raises(ExecutionError, match="'worker' cannot be started") as raised:
        start_thread(threading.Thread(name="worker"))
    assert isinstance(raised.value.__cause__, RuntimeError)


def test_a_pool_without_threads_leaves_the_work_to_its_callers(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It says so once."""
    monkeypatch.setattr(threading.Thread, "start", _no_thread)
    pool = ThreadPool(3)
    assert pool.free() == 0
    assert "A pool of 3 threads has 0" in caplog.text


def test_a_queue_without_threads_refuses_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """The run does not wait any longer."""
    queue = RunQueue(2)
    monkeypatch.setattr(threading.Thread, "start", _no_thread)
    with pytest.raises(ExecutionError, match="cannot be started"):
        queue.submit(Job(lambda: 4, lambda: None))
    monkeypatch.undo()
    job = Job(lambda: 5, lambda: None)
    queue.submit(job)
    assert job.future.result(30) == 5
    queue.close()


def test_there_is_headroom_here() -> None:
    """Tests run with memory."""
    assert has_headroom(1 << 20)
