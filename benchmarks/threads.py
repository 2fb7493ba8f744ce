"""`python -m benchmarks.threads [--threads N]`: threads while others compute too, and while there is little to do.

Products and convolutions on a quiet machine and with one processor kept busy by another process, against onnxruntime;
then what 10 runs a second cost in processor time beyond their work. Close other programs: they are busy processors too.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.alternating import Comparison, Runtimes
from benchmarks.cpu_role import cpu_role
from benchmarks.operator_cases import Case
from benchmarks.runtime_child import open_session

__all__ = ["main"]

_RNG = np.random.default_rng(0)
_IDLE_SECONDS = 3.0
_RATE = 10
"""Runs a second where there is little to do."""


def _f32(*shape: int) -> np.ndarray:
    return _RNG.uniform(-1, 1, shape).astype(np.float32)


def cases() -> list[Case]:
    """Nodes as transformers and convolutional networks have them."""
    weights = frozenset({1})
    same = {"pads": [1, 1, 1, 1]}
    return [
        Case("MatMul 512 x 512 x 512", "MatMul", (_f32(512, 512), _f32(512, 512)), constants=weights),
        Case("MatMul 128 x 768 x 768", "MatMul", (_f32(128, 768), _f32(768, 768)), constants=weights),
        Case("MatMul 128 x 768 x 3072", "MatMul", (_f32(128, 768), _f32(768, 3072)), constants=weights),
        Case("MatMul 1 x 2048 x 8192", "MatMul", (_f32(1, 2048), _f32(2048, 8192)), constants=weights),
        Case("MatMul of 12 heads, 128 x 64 x 128", "MatMul", (_f32(1, 12, 128, 64), _f32(1, 12, 64, 128))),
        Case("MatMul 96 x 96 x 96", "MatMul", (_f32(96, 96), _f32(96, 96))),
        Case("Conv 3x3, 64 of 56 x 56", "Conv", (_f32(1, 64, 56, 56), _f32(64, 64, 3, 3)), same, weights),
        Case("Conv 1x1, 64 to 256 of 56 x 56", "Conv", (_f32(1, 64, 56, 56), _f32(256, 64, 1, 1)), {}, weights),
        Case("Conv 3x3, 512 of 7 x 7", "Conv", (_f32(1, 512, 7, 7), _f32(512, 512, 3, 3)), same, weights),
    ]


@contextlib.contextmanager
def busy_processor() -> Iterator[None]:
    """Another process computes for as long as the block lasts."""
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as process:
        try:
            yield
        finally:
            process.kill()


def idle_cost(runtime: str, model: str, threads: int) -> dict[str, float]:
    """Processor seconds of a run, and, at `_RATE` runs a second, the part of a processor used beyond them."""
    case = cases()[0]
    session, feeds = open_session(runtime, model, threads), case.feeds()
    for _ in range(5):
        session.run(None, feeds)
    time.sleep(0.5)  # threads that wait for work by computing go to sleep
    works = []
    for _ in range(10):
        start = time.process_time()
        for _ in range(20):
            session.run(None, feeds)
        works.append((time.process_time() - start) / 20)
    work = min(works)
    time.sleep(0.5)
    start, began = time.process_time(), time.perf_counter()
    for number in range(int(_RATE * _IDLE_SECONDS)):
        time.sleep(max(0.0, began + number / _RATE - time.perf_counter()))
        session.run(None, feeds)
    time.sleep(max(0.0, began + _IDLE_SECONDS - time.perf_counter()))
    used = (time.process_time() - start) / (time.perf_counter() - began)
    return {"work": work, "used": used, "beyond": used - work * _RATE}


def main(arguments: list[str]) -> int:
    """Print the two tables."""
    parser = argparse.ArgumentParser(prog="benchmarks.threads", description="Threads of ort-py and of onnxruntime.")
    parser.add_argument("--threads", type=int, default=2, help="threads of both runtimes (2)")
    parser.add_argument("--blocks", type=int, default=4, help="blocks of 0.1 s for each (4)")
    parser.add_argument("--idle", nargs=2, metavar=("RUNTIME", "MODEL"), help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if chosen.idle:
        print(json.dumps(idle_cost(chosen.idle[0], chosen.idle[1], chosen.threads)))
        return 0
    print(cpu_role())
    print(
        f"{'':36} {'quiet: ort-py':>13} {'peer µs':>9} {'ratio':>6}   {'busy: ort-py':>12} {'peer µs':>9} {'ratio':>6}"
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        with Runtimes(chosen.threads) as runtimes:
            for case in cases():
                path.write_bytes(case.model().SerializeToString())
                quiet = runtimes.compare(path, case.feeds(), chosen.blocks, 0.1)
                with busy_processor():
                    busy = runtimes.compare(path, case.feeds(), chosen.blocks, 0.1)
                print(f"{case.label:36} {_columns(quiet, 13)}   {_columns(busy, 12)}", flush=True)
        print(f"\n{_RATE} runs a second of {cases()[0].label}, {chosen.threads} thread(s), % of a processor")
        path.write_bytes(cases()[0].model().SerializeToString())
        for runtime in ("ort_py", "onnxruntime"):
            found = _in_a_process(runtime, path, chosen.threads)
            print(f"  {runtime:12} used {100 * found['used']:6.2f}  beyond the work {100 * found['beyond']:6.2f}")
    return 0


def _columns(found: Comparison, width: int) -> str:
    return f"{found.ours * 1e6:{width}.0f} {found.peer * 1e6:9.0f} {found.ratio:6.2f}"


def _in_a_process(runtime: str, model: Path, threads: int) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.threads", "--threads", str(threads), "--idle", runtime, str(model)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=dict(os.environ))
    found: dict[str, float] = json.loads(done.stdout)
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
