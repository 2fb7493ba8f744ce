"""Processes that are forked or spawned from one that has sessions on OpenVINO."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest

from ort_py.errors import EPFail
from ort_py_openvino.forks import CALLS, Inheritance, _process, check_process
from ort_py_openvino.properties import Target
from providers.openvino.tests.models import NAME, opened, runners

NET = "g (float[n, 512] x, float[512, 512] w) => (float[n, 512] y) { a = MatMul(x, w) y = Tanh(a) }"

PROGRAM = f"""
import faulthandler, os, sys, warnings
import numpy as np
import ort_py
from providers.openvino.tests.models import NAME, opened

warnings.simplefilter("ignore")
options = eval(sys.argv[1])
session = opened({NET!r}, **options)
feeds = {{"x": np.full((64, 512), 0.01, np.float32), "w": np.eye(512, dtype=np.float32)}}
wanted = np.tanh(feeds["x"])
assert np.allclose(session.run(None, feeds)[0], wanted, atol=1e-5)
child = os.fork()
if not child:
    faulthandler.dump_traceback_later(30, exit=True)
    assert np.allclose(session.run(None, feeds)[0], wanted, atol=1e-5)
    print([record.reason for record in session.fallback_report], flush=True)
    session.close()
    later = opened({NET!r}, **options)
    assert np.allclose(later.run(None, feeds)[0], wanted, atol=1e-5)
    print(sorted({{node.provider for node in later.placement.nodes}}), flush=True)
    faulthandler.cancel_dump_traceback_later()
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
assert np.allclose(session.run(None, feeds)[0], wanted, atol=1e-5)
"""


def forked(options: str) -> str:
    """The output of a child. The child and its parent must both end."""
    command = [sys.executable, "-c", PROGRAM, options]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_child_goes_on_with_its_parents_session() -> None:
    """On the processor with one stream, also with several threads; it can make sessions of its own, and ends."""
    assert forked("{'num_of_threads': 2}") == f"[]\n['{NAME}']\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize(
    "options", ["{'num_streams': 2}", "{'device_type': 'HETERO:CPU'}", "{'device_type': 'AUTO:CPU'}"]
)
def test_a_child_never_waits_for_threads_that_it_does_not_have(options: str) -> None:
    """Other providers run what it has; the report says why, and what to do."""
    told = forked(options)
    assert "This process was forked from one that had started OpenVINO" in told
    assert NAME not in told.splitlines()[-1]


RUNNING = f"""
import os, signal, sys, threading, warnings
import numpy as np
from providers.openvino.tests.models import opened

warnings.simplefilter("ignore")
session = opened({NET!r}, num_of_threads=2)
feeds = {{"x": np.full((64, 512), 0.01, np.float32), "w": np.eye(512, dtype=np.float32)}}
wanted = session.run(None, feeds)[0]
ended = threading.Event()

def serve():
    while not ended.is_set():
        session.run(None, feeds)

threads = [threading.Thread(target=serve) for _ in range(2)]
for thread in threads:
    thread.start()
sys.setswitchinterval(1e-5)  # forks often come just after a call, when OpenVINO's threads are on their way to sleep
for _ in range(20):
    child = os.fork()
    if not child:
        signal.alarm(30)
        right = np.allclose(session.run(None, feeds)[0], wanted, atol=1e-5)
        os._exit(0 if right else 1)
    status = os.waitpid(child, 0)[1]
    if status:
        break
ended.set()
for thread in threads:
    thread.join()
assert status == 0, status
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_forks_while_other_threads_run_the_session() -> None:
    """No child finds a lock of OpenVINO's that a thread of its parent held."""
    done = subprocess.run([sys.executable, "-c", RUNNING], check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_a_child_forked_while_threads_of_openvino_were_at_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may find their locks held, so neither inherited models nor new ones are for it."""
    target = Target("CPU", {"NUM_STREAMS": 1}, static_only=False)
    inheritance = Inheritance(object(), target)
    monkeypatch.setattr(CALLS, "rested", False)
    monkeypatch.setattr(_process, "inherited", True)
    inheritance.after_fork()
    for refused in (inheritance.check, lambda: check_process(target)):
        with pytest.raises(EPFail, match=r"(?s)while threads of OpenVINO were at work.*fork while no thread runs"):
            refused()


def test_what_such_a_child_is_told() -> None:
    inheritance = Inheritance(object(), Target("AUTO", {}, static_only=False))
    inheritance.check()
    inheritance.after_fork()
    with pytest.raises(EPFail, match=r"(?s)whose threads for AUTO it does not have.*'spawn', or use device_type='CPU'"):
        inheritance.check()


def run_pickled(session: bytes, feeds: dict[str, np.ndarray]) -> tuple[np.ndarray, set[str]]:
    """In another process."""
    opened_again = pickle.loads(session)  # made by the test
    return opened_again.run(None, feeds)[0], set(runners(opened_again).values())


def test_a_session_goes_to_a_spawned_process() -> None:
    """The session is rebuilt from its source, with its provider options."""
    session = opened(NET, num_streams=2)
    feeds = {"x": np.full((4, 512), 0.01, np.float32), "w": np.eye(512, dtype=np.float32)}
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        result, found = pool.apply(run_pickled, (pickle.dumps(session), feeds))
    assert found == {NAME}
    np.testing.assert_array_equal(result, session.run(None, feeds)[0])
