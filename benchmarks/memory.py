"""`python -m benchmarks.memory [NAME …]`: memory of ort-py against onnxruntime, a process for each measurement.

For each model: what the process holds at its peak while a session is made and run, above what it held after importing
the runtime and running a model of one node; the whole peak stands beside it, and what the process does not share with
others after the runs: peaks count the code of libraries that was read on the way. Then four sessions of one model of
32 MiB, private memory all together, and what a large batch leaves before and after `trim`. Needs the development
requirements and Linux, whose ``/proc`` tells.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import os
import pickle
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cpu_role import cpu_role
from benchmarks.providers import chosen_models
from benchmarks.runtime_child import open_session
from tests.support.process_memory import peak_resident_bytes, private_bytes, resident_bytes

__all__ = ["main"]

_MIB = 1 << 20
_RUNS = 5
_SESSIONS = 4
_DEFAULTS = ("light-resnet50", "light-densenet121", "light-squeezenet", "light-vgg19", "ppocr-v4-det", "bert-base-128")
_LARGE_BATCH, _SMALL_BATCH = 6144, 4
_HEADINGS = "   ".join([f" {'ort-py':>9} {'peer':>9} {'ratio':>6}"] * 3)


def _one_model(runtime: str, threads: int, model: str, feeds: Mapping[str, Any]) -> dict[str, int]:
    before, private = peak_resident_bytes(), _collected_private_bytes()
    session = open_session(runtime, model, threads)
    created = peak_resident_bytes()
    for _ in range(_RUNS):
        session.run(None, feeds)
    return {
        "created": created - before,
        "peak": peak_resident_bytes() - before,
        "total": peak_resident_bytes(),
        "private": _collected_private_bytes() - private,
    }


def _collected_private_bytes() -> int:
    gc.collect()
    return private_bytes()


def _several_sessions(runtime: str, threads: int, model: str, feeds: Mapping[str, Any]) -> dict[str, int]:
    before = _collected_private_bytes()
    sessions = [open_session(runtime, model, threads) for _ in range(_SESSIONS)]
    for session in sessions:
        session.run(None, feeds)
    return {"private": _collected_private_bytes() - before}


def _batches(runtime: str, threads: int, model: str, feeds: Mapping[str, Any]) -> dict[str, int]:
    ((name, value),) = feeds.items()
    session = open_session(runtime, model, threads)

    def resident(rows: int) -> int:
        for _ in range(3):
            session.run(None, {name: np.zeros((rows, *value.shape[1:]), value.dtype)})
        return resident_bytes()

    small = resident(_SMALL_BATCH)
    resident(_LARGE_BATCH)
    left = resident(_SMALL_BATCH)
    if hasattr(session, "trim"):  # onnxruntime's session has nothing of the kind
        session.trim()
    return {"left": left - small, "trimmed": resident_bytes() - small}


_MEASUREMENTS = {"model": _one_model, "sessions": _several_sessions, "batches": _batches}


def _child(what: str, runtime: str, threads: int, model: str, feeds: str, tiny: str) -> int:
    given = pickle.loads(Path(feeds).read_bytes())  # written by our own parent process a moment ago
    # Importing, and what a first session makes once a process, is not what is compared.
    open_session(runtime, tiny, threads).run(None, {"x": np.zeros((2, 8), np.float32)})
    print(json.dumps(_MEASUREMENTS[what](runtime, threads, model, given)))
    return 0


class _Measurements:
    """Runs measurements in processes of their own."""

    def __init__(self, folder: Path, threads: int) -> None:
        self._threads = threads
        self._feeds = folder / "feeds"
        self.tiny = folder / "tiny.onnx"
        self.tiny.write_bytes(_chain(1, 8))

    def measure(self, what: str, runtime: str, model: Path, feeds: Mapping[str, Any]) -> dict[str, int]:
        """Bytes by name, from a process."""
        self._feeds.write_bytes(pickle.dumps(dict(feeds)))
        environment = dict(os.environ) | {"OPENBLAS_NUM_THREADS": str(self._threads), "ORT_PY_CACHE": "off"}
        command = [sys.executable, "-m", "benchmarks.memory", "--child", what, runtime, str(self._threads)]
        command += [str(model), str(self._feeds), str(self.tiny)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment)
        found: dict[str, int] = json.loads(done.stdout)
        return found


def _chain(count: int, size: int) -> bytes:
    """A chain of products with square matrices."""
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array(rng.standard_normal((size, size)).astype(np.float32), f"w{i}") for i in range(count)
    ]
    names = ["x", *(f"y{i}" for i in range(count))]
    nodes = [helper.make_node("MatMul", [names[i], f"w{i}"], [names[i + 1]]) for i in range(count)]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", size]) for name in (names[0], names[-1]))
    graph = helper.make_graph(nodes, "chain", [x], [y], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(model.SerializeToString())


def _models(names: list[str], measurements: _Measurements) -> None:
    print(
        f"peak in MiB, {_RUNS} runs each     {'above import':^21}         {'in all':^21}         {'private, after':^21}"
    )
    print(f"{'model':26}{_HEADINGS}")
    ratios: list[float] = []
    for name, path, feeds in chosen_models(names):
        ours, peer = (measurements.measure("model", runtime, path, feeds) for runtime in ("ort_py", "onnxruntime"))
        ratios.append(ours["peak"] / peer["peak"])
        cells = [
            f"{ours[what] / _MIB:9.1f} {peer[what] / _MIB:9.1f} {ours[what] / peer[what]:6.2f}"
            for what in ("peak", "total", "private")
        ]
        print(f"{name:26} {'   '.join(cells)}", flush=True)
    print(f"{'geometric mean':26} {'':9} {'':9} {math.exp(statistics.fmean(map(math.log, ratios))):6.2f}")


def main(arguments: list[str]) -> int:
    """Print the three tables."""
    if arguments[:1] == ["--child"]:
        what, runtime, threads, *files = arguments[1:]
        return _child(what, runtime, int(threads), *files)
    parser = argparse.ArgumentParser(prog="benchmarks.memory", description="Memory of ort-py and of onnxruntime.")
    parser.add_argument(
        "names", nargs="*", help=f"models of the catalogue, or of `transformer_models` ({', '.join(_DEFAULTS)})"
    )
    parser.add_argument("--threads", type=int, default=1, help="threads of both runtimes (1)")
    chosen = parser.parse_args(arguments)
    print(cpu_role())
    with tempfile.TemporaryDirectory() as folder:
        measurements = _Measurements(Path(folder), chosen.threads)
        _models(chosen.names or list(_DEFAULTS), measurements)
        large = Path(folder) / "large.onnx"
        large.write_bytes(_chain(8, 1024))
        feeds = {"x": np.zeros((2, 1024), np.float32)}
        print(f"\n{_SESSIONS} sessions of one model of 32 MiB, private memory all together, MiB")
        for runtime in ("ort_py", "onnxruntime"):
            print(f"  {runtime:12} {measurements.measure('sessions', runtime, large, feeds)['private'] / _MIB:8.1f}")
        print(f"\nresident memory after a batch of {_LARGE_BATCH}, above that of {_SMALL_BATCH} before it, MiB")
        for runtime in ("ort_py", "onnxruntime"):
            found = measurements.measure("batches", runtime, large, feeds)
            print(f"  {runtime:12} left {found['left'] / _MIB:8.1f}   after trim {found['trimmed'] / _MIB:8.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
