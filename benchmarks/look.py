"""`python -m benchmarks.look [NAME …] [--threads N]`: what keeping NaN costs, against runs of `fast_math`.

Blocks of runs of the two sessions alternate, and medians of the blocks' fastest runs are compared: other work on the
machine then meets both. With one thread its processor time is taken, which others hardly change.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import time
from collections.abc import Mapping
from typing import Any

import ort_py
from benchmarks.providers import chosen_models

__all__ = ["main"]

_MODELS = (
    "light-squeezenet",
    "light-shufflenet",
    "light-resnet50",
    "ppocr-v4-det",
    "silero-vad-16k-op15",
    "mtcnn-rnet",
)
_SECONDS = 0.05


def main(arguments: list[str]) -> int:
    """Print a row for each model, and the geometric mean."""
    parser = argparse.ArgumentParser(prog="benchmarks.look", description="Default runs against runs of fast_math.")
    parser.add_argument("names", nargs="*", help="models")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--blocks", type=int, default=30, help="blocks of each session (30)")
    chosen = parser.parse_args(arguments)
    ratios: list[float] = []
    for name, path, feeds in chosen_models(chosen.names or _MODELS):
        sessions = [_session(str(path), chosen.threads, fast=fast) for fast in (False, True)]
        blocks: list[list[float]] = [[], []]
        for number in range(2 * chosen.blocks):
            place = number % 2 if number % 4 < 2 else 1 - number % 2
            blocks[place].append(_block(sessions[place], feeds, alone=chosen.threads == 1))
        times = [statistics.median(one) for one in blocks]
        ratios.append(times[0] / times[1])
        print(f"{name:26} {times[0] * 1e3:9.3f} ms {times[1] * 1e3:9.3f} ms {ratios[-1]:7.3f}", flush=True)
    mean = math.exp(statistics.fmean(map(math.log, ratios)))
    print(f"{'geometric mean':26} {'':12} {'':12} {mean:7.3f}   ({chosen.threads} thread(s))")
    return 0


def _session(path: str, threads: int, *, fast: bool) -> ort_py.InferenceSession:
    options = ort_py.SessionOptions()
    options.intra_op_num_threads = threads
    options.fast_math = fast
    return ort_py.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def _block(session: ort_py.InferenceSession, feeds: Mapping[str, Any], *, alone: bool) -> float:
    """The fastest run of a short while, in seconds."""
    clock = time.thread_time if alone else time.perf_counter
    fastest, until = math.inf, time.perf_counter() + _SECONDS
    while time.perf_counter() < until:
        begun = clock()
        session.run(None, feeds)
        fastest = min(fastest, clock() - begun)
    return fastest


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
