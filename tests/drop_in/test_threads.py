"""Eight threads and one session: every result right, and memory that does not grow.

Four seconds for each number of threads; ``ORT_PY_STRESS_SECONDS=60`` makes it a minute.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import threading
import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

import ort_py
from tests.support.process_memory import resident_bytes

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("cpu_runner")]

SECONDS = float(os.environ.get("ORT_PY_STRESS_SECONDS", "4"))
THREADS = 8

TEXT = """<ir_version: 10, opset_import: ["" : 21]>
g (float[N, C, H, W] x, int64 times, bool deep) => (float[N, C] y, float[M, M] gram) <
    int64[1] minus = {-1}, float half = {0.5}
> {
    picture = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1], group = 1> (x, w)
    rectified = Relu(picture)
    go = Constant <value = bool {1}> ()
    scaled = Loop (times, go, rectified) <body = b (int64 i, bool c, float[N, C, H, W] v)
        => (bool again, float[N, C, H, W] next) { again = Identity(c) next = Mul(v, half) }>
    chosen = If (deep) <
        then_branch = t () => (float[N, C, H, W] r) { r = Neg(scaled) },
        else_branch = e () => (float[N, C, H, W] s) { s = Sqrt(scaled) }
    >
    pooled = GlobalAveragePool(chosen)
    y = Flatten(pooled)
    flat = Reshape(chosen, two)
    turned = Transpose(flat)
    gram = MatMul(flat, turned)
}"""


def session_of(threads: int) -> ort_py.InferenceSession:
    """A session of a model with weights, a loop, a branch and sizes that vary."""
    model = onnx.parser.parse_model(TEXT)
    rng = np.random.default_rng(0)
    weights: dict[str, np.ndarray[Any, Any]] = {
        "w": rng.standard_normal((4, 4, 3, 3)).astype(np.float32),
        "two": np.array([-1, 8], np.int64),
    }
    model.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in weights.items())
    options = ort_py.SessionOptions()
    options.intra_op_num_threads = threads
    return ort_py.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def cases() -> list[dict[str, Any]]:
    """Feeds of many shapes."""
    rng = np.random.default_rng(1)
    return [
        {
            "x": rng.standard_normal((1 + number % 3, 4, 4 + 2 * (number % 4), 8)).astype(np.float32),
            "times": np.array(number % 4),
            "deep": np.array(number % 2 == 0),
        }
        for number in range(24)
    ]


class Stress:
    """Threads that run one session with all cases and compare every result."""

    def __init__(self, session: ort_py.InferenceSession) -> None:
        self.session = session
        self.cases = cases()
        self.expected = [session.run(None, feed) for feed in self.cases]
        self.wrong: list[str] = []
        self.runs = 0
        self._lock = threading.Lock()

    def for_seconds(self, seconds: float) -> None:
        """Run with all threads for a time."""
        until = time.monotonic() + seconds
        with ThreadPoolExecutor(THREADS) as pool:
            for done in [pool.submit(self._work, number, until) for number in range(THREADS)]:
                done.result()
        gc.collect()

    def _work(self, thread: int, until: float) -> None:
        rng = np.random.default_rng(thread)
        done = 0
        while time.monotonic() < until:
            number = int(rng.integers(len(self.cases)))
            found = self.session.run(None, self.cases[number])
            # The same steps on the same numbers: not one bit may differ.
            if any(not np.array_equal(a, b, equal_nan=True) for a, b in zip(found, self.expected[number], strict=True)):
                self.wrong.append(f"thread {thread}, case {number}")
            done += 1
        with self._lock:
            self.runs += done


@pytest.mark.parametrize("threads", [1, 3])
def test_eight_threads_one_session(threads: int) -> None:
    """No wrong result, and after a warm-up neither Python's memory nor the process grows with the number of runs."""
    with session_of(threads) as session:
        stress = Stress(session)
        stress.for_seconds(SECONDS / 4)
        assert session.engine.runner is not None
        frames = len(session.engine.runner.pool._made)
        resident, runs = resident_bytes(), stress.runs
        tracemalloc.start()
        try:
            stress.for_seconds(SECONDS / 4)
            traced = tracemalloc.get_traced_memory()[0]
            stress.for_seconds(SECONDS / 2)
            growth = tracemalloc.get_traced_memory()[0] - traced
        finally:
            tracemalloc.stop()
        assert stress.wrong == []
        assert stress.runs > runs + 100
        assert growth < 200_000
        assert len(session.engine.runner.pool._made) <= max(frames, THREADS)
        # The allocator of the C library keeps pages for each thread: bounded, however long it takes.
        assert resident_bytes() - resident < 64 << 20


def test_awaits_beside_threads() -> None:
    """Runs that are awaited, some of them cancelled, while other threads run the same session."""
    with session_of(2) as session:
        stress = Stress(session)
        runner = threading.Thread(target=stress.for_seconds, args=(SECONDS / 4,))
        runner.start()

        async def main() -> None:
            until = time.monotonic() + SECONDS / 4
            while time.monotonic() < until:
                tasks = [asyncio.create_task(session.run_asyncio(None, feed)) for feed in stress.cases]
                await asyncio.sleep(0.002)
                for task in tasks[::3]:
                    task.cancel()
                found = await asyncio.gather(*tasks, return_exceptions=True)
                for number, results in enumerate(found):
                    if isinstance(results, BaseException):
                        assert isinstance(results, asyncio.CancelledError), results
                    else:
                        np.testing.assert_array_equal(results[1], stress.expected[number][1])

        asyncio.run(main())
        runner.join()
        assert stress.wrong == []
        assert sys.exc_info() == (None, None, None)
