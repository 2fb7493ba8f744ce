"""Sessions that oneDNN runs, used in every way that services use sessions: the region's memory is a frame's own.

What all providers owe is tested beside this file with and without it (the fixture `cpu_runner`); here are the ways that
lead through frames, threads and processes in another manner, on a network of convolutions that it runs whole.
"""

from __future__ import annotations

import asyncio
import copy
import multiprocessing
import os
import pickle
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

import ort_py
from ort_py_kit.tolerances import assert_close

library = pytest.importorskip("ort_py_onednn.binding.library", reason="ort-py-onednn is not installed")

pytestmark = pytest.mark.skipif(
    isinstance(library.find(), library.Missing), reason="oneDNN cannot be opened on this machine: no library for it"
)

NAME, CPU = "DnnlExecutionProvider", ["CPUExecutionProvider"]
TEXT = """<ir_version: 10, opset_import: ["" : 21]>
g (float[N, 3, H, W] x) => (float[N, K] y, float[N, C, P, Q] last) {
    a = Conv <pads = [1, 1, 1, 1]> (x, first)
    b = Relu (a)
    left = Conv <pads = [1, 1, 1, 1]> (b, second)
    right = Conv <pads = [1, 1, 1, 1]> (b, third)
    c = Add (left, right)
    last = Relu (c)
    pooled = GlobalAveragePool (last)
    flat = Flatten (pooled)
    y = Gemm <transB = 1> (flat, matrix, bias)
}"""
SHAPES = {"first": (16, 3, 3, 3), "second": (16, 16, 3, 3), "third": (16, 16, 3, 3), "matrix": (10, 16), "bias": (10,)}


def content() -> bytes:
    """The network with seeded weights."""
    rng = np.random.default_rng(0)
    model = onnx.parser.parse_model(TEXT)
    for name, shape in SHAPES.items():
        weight = (rng.standard_normal(shape) * 0.2).astype(np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(weight, name))
    return bytes(model.SerializeToString())


def options_of(threads: int = 2, **values: Any) -> ort_py.SessionOptions:
    """Options with a number of threads, and others."""
    options = ort_py.SessionOptions()
    options.intra_op_num_threads = threads
    for name, value in values.items():
        setattr(options, name, value)
    return options


def feeds_of(count: int = 6) -> list[dict[str, Any]]:
    """Seeded pictures of several sizes."""
    rng = np.random.default_rng(1)
    sizes = [(1 + number % 2, 3, 16 + 3 * (number % 3), 20) for number in range(count)]
    return [{"x": rng.standard_normal(size).astype(np.float32)} for size in sizes]


@pytest.fixture(scope="module")
def expected() -> list[list[Any]]:
    """Results of the plain CPU provider for `feeds_of()`."""
    with ort_py.InferenceSession(content(), options_of(pin_cpu=True), CPU) as session:
        return [list(session.run(None, feed)) for feed in feeds_of()]


@pytest.fixture
def session() -> Iterator[ort_py.InferenceSession]:
    """A session asked for the CPU, which oneDNN runs whole."""
    with ort_py.InferenceSession(content(), options_of(), CPU) as opened:
        assert opened.placement.counts().keys() == {NAME}
        yield opened
        assert opened.state == "closed" or not opened.fallback_report


def test_callbacks_of_many_runs_at_once(session: ort_py.InferenceSession, expected: list[list[Any]]) -> None:
    """`run_async`: each callback gets the results of its own feeds."""
    feeds = feeds_of()
    found: dict[int, Any] = {}
    done = threading.Semaphore(0)

    def told(outputs: Any, number: int, error: str) -> None:
        found[number] = error or outputs
        done.release()

    for number in range(30):
        session.run_async(None, feeds[number % len(feeds)], told, number)
    assert all(done.acquire(timeout=60) for _ in range(30))
    for number, outputs in found.items():
        assert_close(outputs, expected[number % len(feeds)], context=f"run {number}")


def test_awaits_of_which_some_are_cancelled(session: ort_py.InferenceSession, expected: list[list[Any]]) -> None:
    """A cancelled run leaves its frame as good as new for the next."""
    feeds = feeds_of()

    async def main() -> None:
        for _ in range(10):
            tasks = [asyncio.create_task(session.run_asyncio(None, feed)) for feed in feeds]
            await asyncio.sleep(0.001)
            tasks[0].cancel()
            for number, outputs in enumerate(await asyncio.gather(*tasks, return_exceptions=True)):
                if isinstance(outputs, BaseException):
                    assert isinstance(outputs, asyncio.CancelledError), outputs
                else:
                    assert_close(outputs, expected[number])

    asyncio.run(main())


def test_a_stream_keeps_its_order(session: ort_py.InferenceSession, expected: list[list[Any]]) -> None:
    """Several inputs are under way, each with memory of its own, and an abandoned stream holds nothing up."""
    feeds = feeds_of()
    results = list(session.run_stream(feeds[number % len(feeds)] for number in range(24)))
    for number, outputs in enumerate(results):
        assert_close(outputs, expected[number % len(feeds)], context=f"input {number}")
    for outputs in session.run_stream(feeds[0] for _ in range(1000)):
        assert_close(outputs, expected[0])
        break


def test_results_are_bound(session: ort_py.InferenceSession, expected: list[list[Any]]) -> None:
    """Through `IOBinding`, again and again, with buffers of the caller's and with new shapes."""
    feeds = feeds_of()
    binding = session.io_binding()
    for number in (0, 0, 1, 2, 0):
        x = feeds[number]["x"]
        binding.bind_cpu_input("x", x)
        binding.bind_output("y")
        last = np.empty_like(expected[number][1])
        binding.bind_output("last", "cpu", 0, np.float32, last.shape, last.ctypes.data)
        session.run_with_iobinding(binding)
        assert_close(binding.copy_outputs_to_cpu()[0], expected[number][0])
        assert_close(last, expected[number][1])


@pytest.mark.parametrize("threads", [1, 3])
def test_the_parallel_executor(threads: int, expected: list[list[Any]]) -> None:
    """A session that may run steps side by side gives the same, from several threads at once."""
    options = options_of(threads, execution_mode=ort_py.ExecutionMode.ORT_PARALLEL, inter_op_num_threads=2)
    feeds = feeds_of()
    with ort_py.InferenceSession(content(), options, CPU) as session, ThreadPoolExecutor(4) as pool:
        assert NAME in session.placement.counts()
        jobs = [pool.submit(session.run, None, feeds[number % len(feeds)]) for number in range(40)]
        for number, job in enumerate(jobs):
            assert_close(job.result(), expected[number % len(feeds)])


def test_the_number_of_threads_is_the_sessions(session: ort_py.InferenceSession) -> None:
    """OpenMP, which oneDNN computes with, is among the libraries that are set to the run's share."""
    session.run(None, feeds_of(1)[0])
    assert session.threads.count <= 2
    assert any("OpenMP" in entry for entry in session.threads.native)


def test_copies_and_pickles(session: ort_py.InferenceSession, expected: list[list[Any]]) -> None:
    """Sessions of their own, run by oneDNN as well."""
    for other in (copy.deepcopy(session), pickle.loads(pickle.dumps(session))):
        with other:
            assert other.placement.counts() == session.placement.counts()
            assert_close(other.run(None, feeds_of()[0]), expected[0])


def _run_in_a_worker(session: ort_py.InferenceSession, feed: dict[str, Any]) -> tuple[list[Any], list[str]]:
    """In another process: results, and who ran."""
    return list(session.run(None, feed)), sorted(session.placement.counts())


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_workers_get_it_as_an_argument(
    method: str, session: ort_py.InferenceSession, expected: list[list[Any]]
) -> None:
    """Processes that share nothing with this one open their own library and sessions."""
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip("no such start method on this system")
    session.run(None, feeds_of(1)[0])
    with ProcessPoolExecutor(2, multiprocessing.get_context(method)) as pool:
        jobs = [pool.submit(_run_in_a_worker, session, feed) for feed in feeds_of(2)]
        for number, job in enumerate(jobs):
            outputs, runners = job.result(timeout=120)
            assert runners == [NAME]
            assert_close(outputs, expected[number])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_forked_while_threads_run(session: ort_py.InferenceSession, expected: list[list[Any]]) -> None:
    """The child runs with threads of its own, opens another session, and closes both; the parent goes on."""
    feeds = feeds_of()
    stop = threading.Event()

    def load(number: int) -> None:
        while not stop.is_set():
            assert_close(session.run(None, feeds[number]), expected[number])

    def child() -> int:
        assert_close(session.run(None, feeds[3]), expected[3])
        with ort_py.InferenceSession(content(), options_of(), CPU) as other:
            assert_close(other.run(None, feeds[4]), expected[4])
        session.close()
        return 0

    with ThreadPoolExecutor(2) as pool:
        jobs = [pool.submit(load, number) for number in range(2)]
        try:
            for _ in range(3):
                assert _exit_code_of_a_fork(child) == 0
        finally:
            stop.set()
        for job in jobs:
            job.result()


def _exit_code_of_a_fork(work: Any) -> int:
    """Exit code of a forked child that calls a function; -9 where it hung."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            code = work()
        finally:
            os._exit(code)
    killer = threading.Timer(60, os.kill, (pid, 9))
    killer.start()
    status = os.waitpid(pid, 0)[1]
    killer.cancel()
    return os.waitstatus_to_exitcode(status)


def test_closed_while_runs_and_streams_are_under_way(expected: list[list[Any]]) -> None:
    """`close` waits for what runs; what comes later is refused by name, and no result is wrong."""
    session = ort_py.InferenceSession(content(), options_of(), CPU)
    feeds = feeds_of()
    started = threading.Barrier(5, timeout=30)

    def runs(number: int) -> str:
        started.wait()
        while True:
            try:
                outputs = session.run(None, feeds[number])
            except ort_py.InvalidArgument as error:
                return error.what
            assert_close(outputs, expected[number])

    def streams() -> str:
        started.wait()
        try:
            for outputs in session.run_stream(feeds[0] for _ in range(1_000_000)):
                assert_close(outputs, expected[0])
        except ort_py.InvalidArgument as error:
            return error.what
        return "the stream ended"

    with ThreadPoolExecutor(4) as pool:
        jobs = [*(pool.submit(runs, number) for number in range(3)), pool.submit(streams)]
        started.wait()
        time.sleep(0.1)
        session.close()
        assert {job.result() for job in jobs} == {"The session is closed."}


def test_trimmed_and_planned_anew_meanwhile(session: ort_py.InferenceSession, expected: list[list[Any]]) -> None:
    """Frames are given back and providers changed while eight threads run shapes that vary."""
    feeds = feeds_of()
    until = time.monotonic() + 1

    def runs(number: int) -> None:
        while time.monotonic() < until:
            assert_close(session.run(None, feeds[number % len(feeds)]), expected[number % len(feeds)])

    def changes() -> None:
        while time.monotonic() < until:
            session.trim()
            session.set_providers(CPU)
            session.memory_report()

    with ThreadPoolExecutor(9) as pool:
        for job in [*(pool.submit(runs, number) for number in range(8)), pool.submit(changes)]:
            job.result()
    assert session.placement.counts().keys() == {NAME}
