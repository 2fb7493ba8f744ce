"""Sessions as services use them: made before forking, run in all children at once, trimmed and changed meanwhile."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

import ort_py
from tests.support.process_memory import resident_bytes, written_bytes

pytestmark = [
    pytest.mark.usefixtures("cpu_runner"),
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork"),
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]

CPU = ["CPUExecutionProvider"]
SIZE = 2048
"""Rows and columns of the weight: 16 MiB, and products that are split over threads."""

TEXT = """<ir_version: 10, opset_import: ["" : 21]>
g (float[N, S] x) => (float[N, S] y) { h = MatMul(x, w) y = Relu(h) }"""


def weight() -> np.ndarray[Any, Any]:
    """The weight, seeded."""
    return np.random.default_rng(0).standard_normal((SIZE, SIZE)).astype(np.float32)


def allowance(feed: dict[str, Any]) -> np.ndarray[Any, Any]:
    """How far two results may differ.

    A child whose library was busy when it was forked computes with another one, which adds the terms in another order.
    Either order may be wrong by two units in the last place of the sum of the terms' sizes.
    """
    return np.asarray(4 * np.finfo(np.float32).eps * (np.abs(feed["x"]) @ np.abs(weight())))


def session_of(threads: int = 3) -> ort_py.InferenceSession:
    """A session with one large weight."""
    model = onnx.parser.parse_model(TEXT)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weight(), "w"))
    options = ort_py.SessionOptions()
    options.intra_op_num_threads = threads
    return ort_py.InferenceSession(model.SerializeToString(), options, providers=CPU)


def feed_of(rows: int, seed: int = 1) -> dict[str, Any]:
    """A seeded input."""
    return {"x": np.random.default_rng(seed).standard_normal((rows, SIZE)).astype(np.float32)}


def in_children(count: int, work: Callable[[int], str]) -> list[str]:
    """Call `work` in forked children at the same time; what each returns, or its traceback."""
    pipes = []
    for number in range(count):
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                text = work(number)
            except BaseException:
                text = traceback.format_exc()
            with os.fdopen(writing, "w") as file:
                file.write(text)
            os._exit(0)
        os.close(writing)
        pipes.append((child, reading))
    found = []
    for child, reading in pipes:
        killer = threading.Timer(60, os.kill, (child, 9))
        killer.start()
        with os.fdopen(reading) as file:
            found.append(file.read() or "no answer")
        os.waitpid(child, 0)
        killer.cancel()
    return found


def test_preloaded_in_the_parent_and_run_in_four_children() -> None:
    """Preloading servers do this: results are right, and the weight's pages stay the parent's."""
    session = session_of()
    feed = feed_of(4)
    (expected,) = session.run(None, feed)
    allowed = allowance(feed)

    def work(number: int) -> str:
        before = written_bytes()
        for _ in range(5):
            (y,) = session.run(None, feed)
        assert (np.abs(y - expected) <= allowed).all()
        return f"{written_bytes() - before}"

    found = in_children(4, work)
    assert all(int(text) < 8 << 20 for text in found), found


def test_forked_while_threads_split_products() -> None:
    """The parent's pool is busy; the child has its own pool and does not wait for the parent's."""
    session = session_of(3)
    feed = feed_of(64)
    (expected,) = session.run(None, feed)
    allowed = allowance(feed)
    stop = threading.Event()

    def load() -> None:
        while not stop.is_set():
            session.run(None, feed)

    def work(number: int) -> str:
        (y,) = session.run(None, feed)
        assert (np.abs(y - expected) <= allowed).all()
        session.trim()
        session.close()
        return "done"

    with ThreadPoolExecutor(2) as pool:
        jobs = [pool.submit(load) for _ in range(2)]
        try:
            assert [text for _ in range(3) for text in in_children(2, work)] == ["done"] * 6
        finally:
            stop.set()
        for job in jobs:
            job.result()
    assert (np.abs(session.run(None, feed)[0] - expected) <= allowed).all()


def _grandchild(session: ort_py.InferenceSession, feed: dict[str, Any], results: Any) -> None:
    """In a worker process: run, fork, run in the child."""
    results.put([session.run(None, feed)[0].sum(), *in_children(1, lambda _: str(session.run(None, feed)[0].sum()))])


def test_forked_again_in_a_worker() -> None:
    """A grandchild process of `multiprocessing` runs the session that its grandparent made."""
    session = session_of(2)
    feed = feed_of(2)
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    worker = context.Process(target=_grandchild, args=(session, feed, results))
    worker.start()
    total, told = results.get(timeout=60)
    worker.join(60)
    assert float(told) == total


def test_eight_threads_while_others_trim_and_change_providers() -> None:
    """No run fails and no result is wrong, whatever is given back or planned again meanwhile."""
    session = session_of(2)
    feeds = [feed_of(rows, rows) for rows in range(1, 9)]
    expected = [session.run(None, feed)[0] for feed in feeds]
    allowed = [allowance(feed) for feed in feeds]
    until = time.monotonic() + 1.5

    def runs(number: int) -> int:
        done = 0
        while time.monotonic() < until:
            (y,) = session.run(None, feeds[number])
            assert (np.abs(y - expected[number]) <= allowed[number]).all()
            done += 1
        return done

    def trims() -> int:
        done = 0
        while time.monotonic() < until:
            session.trim()
            session.memory_report()
            done += 1
        return done

    def changes() -> int:
        done = 0
        while time.monotonic() < until:
            session.set_providers(CPU)
            assert session.fingerprint
            done += 1
        return done

    with ThreadPoolExecutor(10) as pool:
        jobs = [*(pool.submit(runs, number) for number in range(8)), pool.submit(trims), pool.submit(changes)]
        assert all(job.result() > 0 for job in jobs)


def test_closing_ends_runs_in_order() -> None:
    """`close` waits for runs under way; they give right results, and later ones are refused by name."""
    session = session_of(2)
    feed = feed_of(64)
    (expected,) = session.run(None, feed)
    allowed = allowance(feed)
    started = threading.Barrier(5, timeout=30)

    def runs() -> str:
        started.wait()
        while True:
            try:
                (y,) = session.run(None, feed)
            except ort_py.InvalidArgument as error:
                return error.what
            assert (np.abs(y - expected) <= allowed).all()

    with ThreadPoolExecutor(4) as pool:
        jobs = [pool.submit(runs) for _ in range(4)]
        started.wait()
        time.sleep(0.05)
        session.close()
        assert {job.result() for job in jobs} == {"The session is closed."}
    assert session.state == "closed"


def test_memory_that_one_large_batch_took_comes_back() -> None:
    """After small runs and `trim` the process is about as large as before the large one."""
    if not resident_bytes():
        pytest.skip("the system does not tell")
    session = session_of(1)
    session.run(None, feed_of(1))
    session.trim()
    before = resident_bytes()
    session.run(None, feed_of(4096))
    session.run(None, feed_of(1))
    session.trim()
    assert resident_bytes() - before < 24 << 20  # the batch's values took 96 MiB
