"""Ctrl-C ends a run promptly, wherever it arrives, and the session goes on afterwards. Each in a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.skipif(os.name != "posix", reason="sends SIGINT to a child process"),
    pytest.mark.xdist_group("processor"),  # never beside tests that measure memory
]

ROOT = Path(__file__).parents[3]

PREAMBLE = """
import asyncio, signal, threading, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # what was started in the background ignores Ctrl-C
import numpy as np
import ort_py
from core.tests.small_models import RELU, model_bytes, open_model
from core.tests.options.test_run_options import LOOP

X = np.ones((1, 3), np.float32)

def check(session, feed, expected):
    assert all(frame.thread == 0 for frame in session.engine.runner.pool._made), "a frame did not come back"
    np.testing.assert_array_equal(session.run(None, feed)[0], expected)
    closer = threading.Thread(target=session.close)  # from another thread: a lost frame would be waited for
    closer.start()
    closer.join(20)
    assert not closer.is_alive(), "closing waits forever"
    print("usable", flush=True)
"""

IN_A_LOOP = """
session = open_model(LOOP)
try:
    print("begun", flush=True)
    session.run(None, {"n": 10**12, "x": np.ones(4, np.float32)})
except KeyboardInterrupt:
    print("interrupted", flush=True)
check(session, {"n": 1, "x": np.ones(4, np.float32)}, -np.ones(4))
"""

IN_PARTS = """
from ort_py.execution.row_splitter import RowSplitter

session, splitter = open_model(RELU), RowSplitter(3)
running = []

def part(start, stop):
    running.append(start)
    try:
        time.sleep(0.4 if start else 0)
    finally:
        running.remove(start)  # the caller's own part is interrupted where it is

try:
    print("begun", flush=True)
    while True:
        splitter(3, 1, part)
except KeyboardInterrupt:
    assert running == [], "a part runs on"
    print("interrupted", flush=True)
splitter(3, 1, part)
check(session, {"x": X}, X)
"""

IN_ASYNCIO = """
session = open_model(LOOP)
try:
    print("begun", flush=True)
    asyncio.run(session.run_asyncio(None, {"n": 10**12, "x": np.ones(4, np.float32)}))
except KeyboardInterrupt:
    print("interrupted", flush=True)
check(session, {"n": 1, "x": np.ones(4, np.float32)}, -np.ones(4))
"""

IN_CLOSE = """
session = open_model(LOOP)
options = ort_py.RunOptions()

def work():
    try:
        session.run(None, {"n": 10**12, "x": np.ones(4, np.float32)}, options)
    except ort_py.Fail:
        pass

worker = threading.Thread(target=work)
worker.start()
time.sleep(0.2)
try:
    print("begun", flush=True)
    session.close()
except KeyboardInterrupt:
    print("interrupted", flush=True)
options.terminate = True
worker.join()
session.close()
assert session.state == "closed"
assert session.engine.assembled is None, "closing again did not go on"
print("usable", flush=True)
"""


@pytest.mark.parametrize(
    "program", [IN_A_LOOP, IN_PARTS, IN_ASYNCIO, IN_CLOSE], ids=["loop", "parts", "asyncio", "close"]
)
def test_ctrl_c(program: str) -> None:
    """One signal; a moment later the program has its KeyboardInterrupt, and everything still works."""
    command = [sys.executable, "-c", PREAMBLE + program]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment) as child:
        assert child.stdout is not None
        first = child.stdout.readline()
        if first != "begun\n":
            child.kill()
            pytest.fail(child.communicate()[1])
        time.sleep(0.3)
        start = time.monotonic()
        child.send_signal(signal.SIGINT)
        assert child.stdout.readline() == "interrupted\n"
        seconds = time.monotonic() - start
        # communicate() would miss lines that came together with the last one read.
        output = child.stdout.read()
        assert child.stderr is not None
        errors = child.stderr.read()
        child.wait(60)
    assert (output, child.returncode) == ("usable\n", 0), errors
    assert seconds < 2


STORM = """
import os, signal, sys

session = open_model("g (float[N, 3] x) => (float[N, 3] y) { a = Relu(x) b = Neg(a) y = Neg(b) }")
main, rounds, ready, stop = os.getpid(), 0, False, False

def storm():
    while not ready:
        time.sleep(0.0007)
    while not stop:
        time.sleep(0.0007)
        os.kill(main, signal.SIGINT)

print("begun", flush=True)
thread = threading.Thread(target=storm, daemon=True)
until = time.monotonic() + 3
thread.start()
while time.monotonic() < until:
    try:
        ready = True  # not before this thread is where it catches them
        while True:
            session.run(None, {"x": X})
    except KeyboardInterrupt:
        rounds += 1
    except BaseException as error:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        raise SystemExit(f"after {rounds} rounds: {error!r}")
signal.signal(signal.SIGINT, signal.SIG_IGN)
stop = True
thread.join()
print(rounds, flush=True)
assert rounds > 100, rounds
check(session, {"x": X}, X)
"""


@pytest.mark.slow
def test_a_storm_of_ctrl_c() -> None:
    """Thousands of signals at random instructions of short runs: no frame is lost, none is used after it was closed."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])}
    done = subprocess.run(
        [sys.executable, "-c", PREAMBLE + STORM],
        capture_output=True,
        text=True,
        env=environment,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("usable\n")
