"""`python -m benchmarks.executors`: branches at the same time, a stream of inputs, and what little work costs.

Parallel sessions against sequential ones on two balanced branches of kernels that use one thread; `run_stream` against
a loop of `run` where loading an input takes as long as a run; the processor time of 10 runs a second beyond their work.
All kinds in turn, the fastest of many: other programs take processors away, and a minimum shows what was left. The
first line says what two plain threads gain at the same time: no executor gains more.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnx.parser

import ort_py
from benchmarks.cpu_role import cpu_role

__all__ = ["main"]

_HEADER = '<ir_version: 10, opset_import: ["" : 21]>\n'


def _branches(operator: str, size: int, length: int) -> bytes:
    """Two chains of one operator over a square matrix, and their sum."""
    second = ", w" if operator == "MatMul" else ""
    nodes = []
    for branch in "ab":
        before = "x"
        for number in range(length):
            nodes.append(f"{branch}{number} = {operator}({before}{second})")
            before = f"{branch}{number}"
    matrix = f"float[{size},{size}]"
    nodes.append(f"y = Add(a{length - 1}, b{length - 1})")
    text = f"g ({matrix} x, {matrix} w) => ({matrix} y) {{ {' '.join(nodes)} }}"
    return bytes(onnx.parser.parse_model(_HEADER + text).SerializeToString())


def _session(model: bytes, threads: int, *, parallel: bool = False) -> ort_py.InferenceSession:
    options = ort_py.SessionOptions()
    options.intra_op_num_threads = threads
    options.graph_optimization_level = ort_py.GraphOptimizationLevel.ORT_DISABLE_ALL  # equal branches stay two
    options.pin_cpu = True
    if parallel:
        options.execution_mode = ort_py.ExecutionMode.ORT_PARALLEL
    return ort_py.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def _feeds(size: int) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    return {name: rng.uniform(-1, 1, (size, size)).astype(np.float32) / size for name in "xw"}


def _in_turn(calls: list[Callable[[], object]], seconds: float) -> list[float]:
    """The fastest of each, made one after another until the time is over."""
    best = [float("inf")] * len(calls)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for index, call in enumerate(calls):
            start = time.perf_counter()
            call()
            best[index] = min(best[index], time.perf_counter() - start)
    return best


def _plain_threads(seconds: float) -> float:
    """The gain of two threads over one, each with its own arrays."""
    arrays = [np.full((170, 170), 0.5, np.float32) for _ in range(4)]

    def work(source: np.ndarray, target: np.ndarray) -> None:
        for _ in range(200):
            np.exp(source, out=target)

    def one() -> None:
        work(arrays[0], arrays[1])
        work(arrays[2], arrays[3])

    def two() -> None:
        other = threading.Thread(target=work, args=(arrays[0], arrays[1]))
        other.start()
        work(arrays[2], arrays[3])
        other.join()

    alone, together = _in_turn([one, two], seconds)
    return alone / together


def _parallel(operator: str, size: int, length: int, threads: int, seconds: float) -> str:
    model, feeds = _branches(operator, size, length), _feeds(size)
    sequential, parallel = _session(model, threads), _session(model, threads, parallel=True)
    same = all(
        np.array_equal(sequential.run(None, feeds)[0], parallel.run(None, feeds)[0], equal_nan=True) for _ in range(20)
    )
    one, many = _in_turn([lambda: sequential.run(None, feeds), lambda: parallel.run(None, feeds)], seconds)
    label = f"two branches of {length} {operator}, {size} x {size}"
    return (
        f"{label:44} {one * 1e6:9.0f} {many * 1e6:9.0f} {one / many:6.2f}  "
        f"{'same bits' if same else 'DIFFERENT'}; {parallel.threads.executor}"
    )


def _stream(threads: int, seconds: float) -> str:
    """Inputs that take as long to load as to run, as from a disk: the loader waits."""
    session, feeds, count = _session(_branches("MatMul", 128, 20), threads), _feeds(128), 20
    (taken,) = _in_turn([lambda: session.run(None, feeds)], seconds / 4)

    def loaded() -> Iterator[dict[str, Any]]:
        for _ in range(count):
            time.sleep(taken)
            yield feeds

    def loop() -> None:
        for feed in loaded():
            session.run(None, feed)

    def stream() -> None:
        for _ in session.run_stream(loaded()):
            pass

    one, many = _in_turn([loop, stream], seconds)
    label = f"run_stream, loading takes {taken * 1e3:.1f} ms as a run does"
    return f"{label:44} {one / count * 1e6:9.0f} {many / count * 1e6:9.0f} {one / many:6.2f}"


def _little_work(threads: int, seconds: float, *, parallel: bool) -> str:
    """Processor time of ten runs a second, less that of as many runs in a row."""
    model, feeds, rate = _branches("MatMul", 128, 4), _feeds(128), 10
    session = _session(model, threads, parallel=parallel)
    for _ in range(20):
        session.run(None, feeds)

    def in_a_row() -> float:
        start = time.process_time()
        for _ in range(50):
            session.run(None, feeds)
        return (time.process_time() - start) / 50

    work = min(in_a_row() for _ in range(10))
    time.sleep(0.2)
    start, began = time.process_time(), time.perf_counter()
    count = int(seconds * rate)
    for number in range(count):
        time.sleep(max(0.0, began + number / rate - time.perf_counter()))
        session.run(None, feeds)
    time.sleep(max(0.0, began + count / rate - time.perf_counter()))
    used = (time.process_time() - start) / (time.perf_counter() - began)
    kind = "parallel" if parallel else "sequential"
    return (
        f"{rate} runs a second of {work * 1e6:.0f} µs, {kind}: {100 * used:.2f} % of a processor, "
        f"{100 * (used - work * rate):.2f} % beyond the work"
    )


def main(arguments: list[str]) -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.executors", description="Executors of ort-py, against each other."
    )
    parser.add_argument("--threads", type=int, default=2, help="threads of a run (2)")
    parser.add_argument("--seconds", type=float, default=5.0, help="time for each figure (5)")
    chosen = parser.parse_args(arguments)
    print(cpu_role(plain=True))
    print(f"two plain threads gain {_plain_threads(chosen.seconds):.2f}x here and now\n")
    print(f"{'':44} {'one µs':>9} {'many µs':>9} {'ratio':>6}")
    for operator, size, length in (("MatMul", 160, 40), ("Exp", 170, 100), ("Tanh", 64, 20)):
        print(_parallel(operator, size, length, chosen.threads, chosen.seconds), flush=True)
    print(_stream(chosen.threads, chosen.seconds), flush=True)
    print()
    for parallel in (False, True):
        print(_little_work(chosen.threads, chosen.seconds, parallel=parallel), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
