"""Sessions in other processes: a forked child goes on with its parent's, a spawned one gets one by pickle."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
import traceback
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from core.tests.small_models import RELU, open_model

ROOT = Path(__file__).parents[3]
X = np.array([[-1.0, 2.0, -3.0]], np.float32)

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
quiet_fork = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


def call(session: Any, x: Any) -> Any:
    """Run in a worker process a session that was passed to it."""
    return session.run(None, {"x": x})[0]


def test_session_as_argument_of_a_spawned_worker() -> None:
    """`ProcessPoolExecutor` with the spawn method pickles the session; the worker opens its own."""
    program = """
import multiprocessing
from concurrent.futures import ProcessPoolExecutor

if __name__ == "__main__":
    from core.tests.small_models import RELU, open_model
    from core.tests.api.test_processes import X, call

    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        session = open_model(RELU)
        for found in pool.map(call, [session] * 4, [X * number for number in range(4)]):
            print(found.tolist())
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment, timeout=120, check=False
    )
    assert done.stdout.split("\n")[:4] == [str((np.maximum(X, 0) * n).tolist()) for n in range(4)], done.stderr


@needs_fork
@quiet_fork
def test_session_in_forked_workers() -> None:
    """A pool of forked processes, in one of which the parent's session is used and closed."""
    session = open_model(RELU)
    session.run(None, {"x": X})
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("fork")) as pool:
        for found in pool.map(call, [session] * 4, [X] * 4):
            np.testing.assert_array_equal(found, np.maximum(X, 0))


@needs_fork
@quiet_fork
@pytest.mark.skipif(
    not getattr(sys, "_is_gil_enabled", lambda: True)(),
    reason="without the GIL a child forked beside running threads may wait forever inside Python: dict.get is enough",
)
def test_child_forked_while_others_run() -> None:
    """The parent's threads are in the middle of runs, of closing and of making frames; the child has none of them.

    In the child the session runs, runs asynchronously, splits rows on threads, pickles and closes: no lock that
    another thread held is waited for, and no frame that another thread had.
    """
    from ort_py.execution.row_splitter import RowSplitter

    session, splitter, stop = open_model(RELU), RowSplitter(3), threading.Event()
    # What is imported at first use is imported now: Python itself never frees a lock of a module that another thread
    # was importing at the fork.
    asyncio.run(session.run_asyncio(None, {"x": X}))

    def work() -> None:
        while not stop.is_set():
            session.run(None, {"x": X})
            session.trim()
            splitter(3, 1, lambda _start, _stop: None)
            session.run_async(None, {"x": X}, lambda *_: None, None)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(10):
            child = os.fork()
            if child == 0:
                os._exit(_use(session, splitter))
            waiter = threading.Timer(30, os.kill, (child, 9))
            waiter.start()
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            waiter.cancel()
            assert status == 0
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def _use(session: Any, splitter: Any) -> int:
    """Everything that takes a lock or a thread; 0 where all of it went well."""
    try:
        for _ in range(3):
            np.testing.assert_array_equal(session.run(None, {"x": X})[0], np.maximum(X, 0))
        splitter(3, 1, lambda _start, _stop: None)
        np.testing.assert_array_equal(asyncio.run(session.run_asyncio(None, {"x": X}, timeout=20))[0], np.maximum(X, 0))
        pickle.dumps(session)
        session.trim()
        session.close()
        open_model(RELU).run(None, {"x": X})
    except BaseException:
        traceback.print_exc()
        return 1
    return 0
