"""`python -m benchmarks.optimiser [--largest N] [--models NAME …] [--speed [NAME …]]`: what optimising costs and gains.

First table: seconds of optimising a graph of 300 to 50,000 nodes, against onnxruntime's session creation, and the cost
of a node, which should not grow. The graph is a chain of small blocks with something to do for many rules; onnxruntime
is not measured beyond 10,000 nodes, where its own cost grows with the square. Second table: for each model of the
catalogue, nodes of the model, and steps that a run executes at ORT_ENABLE_ALL and that onnxruntime's run does, as the
profile of each tells: those of bodies each time, those of branches where they are taken. Ours are those of the plain
provider, whose steps are nodes. A Transpose or Slice is a view here, and moves nothing; where its reader needs its
elements in order, a copy follows, which is what onnxruntime's Transpose does inside. So copies are counted by
themselves, and the ratio is that of the other steps. Third table: the same for the transformers exported by PyTorch.

With ``--speed`` one table only: milliseconds of a run of each model with the plain CPU provider and with whoever stands
in for it, at ORT_DISABLE_ALL and at ORT_ENABLE_ALL, and of onnxruntime at its highest level; one thread, one process
each, alternating blocks. Shown is the least processor time of a run: what others do on the machine does not add to it.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import ort_py
from benchmarks.alternating import VARIANT, Refused, Runtimes, Timing
from benchmarks.cpu_role import cpu_role
from examples.model_zoo import CATALOGUE, ZooModel, by_name, fetch
from ort_py.planning.plan import ContiguousStep
from tests.support.exported_models import EXPORTED, feeds_of
from tests.support.model_inputs import cases_of

__all__ = ["blocks", "main"]

SIZES = (300, 1000, 3000, 10_000, 50_000)
_PEER_UP_TO = 10_000
_CPU = ["CPUExecutionProvider"]
_COPY = ContiguousStep(array_module=np).title


def blocks(nodes: int) -> onnx.ModelProto:
    """A model of at least so many nodes, ten a block: products, reshapes and transposes, some without effect."""
    made: list[onnx.NodeProto] = []
    value = "x"
    while len(made) < nodes:
        name = f"b{len(made) // 10}"
        made += [
            helper.make_node("MatMul", [value, "weight"], [f"{name}.product"]),
            helper.make_node("Add", [f"{name}.product", "one"], [f"{name}.sum"]),
            helper.make_node("Identity", [f"{name}.sum"], [f"{name}.same"]),
            helper.make_node("Reshape", [f"{name}.same", "shape"], [f"{name}.shaped"]),
            helper.make_node("Relu", [f"{name}.shaped"], [f"{name}.positive"]),
            helper.make_node("Shape", [f"{name}.positive"], [f"{name}.size"]),
            helper.make_node("Reshape", [f"{name}.product", f"{name}.size"], [f"{name}.again"]),
            helper.make_node("Transpose", [f"{name}.again"], [f"{name}.turned"], perm=[1, 0]),
            helper.make_node("Transpose", [f"{name}.turned"], [f"{name}.back"], perm=[1, 0]),
            helper.make_node("Add", [f"{name}.back", f"{name}.positive"], [f"{name}.out"]),
        ]
        value = f"{name}.out"
    constants = [
        numpy_helper.from_array(np.array(1, np.float32), "one"),
        numpy_helper.from_array(np.array([0, -1], np.int64), "shape"),
        numpy_helper.from_array(np.eye(8, dtype=np.float32) / 2, "weight"),
    ]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", 8]) for name in ("x", value))
    graph = helper.make_graph(made, "blocks", [x], [y], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def optimising(source: bytes | Path) -> tuple[float, ort_py.InferenceSession]:
    """Seconds of the optimiser, and the session, which is not from the cache."""
    options = ort_py.SessionOptions()
    options.cache_dir = "off"
    session = ort_py.InferenceSession(source, options, providers=_CPU)
    return sum(stage.seconds for stage in session.load_report.stages if stage.stage == "optimise"), session


def peer_session(source: bytes | Path, written: Path | None = None) -> float:
    """Seconds onnxruntime takes to make a session of one thread, which may write its optimised model."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    if written is not None:
        options.optimized_model_filepath = str(written)
    start = time.perf_counter()
    onnxruntime.InferenceSession(source if isinstance(source, bytes) else str(source), options, providers=_CPU)
    return time.perf_counter() - start


def _costs(largest: int, repeats: int = 3) -> None:
    print(f"{'nodes':>7} {'optimising':>11} {'a node':>9} {'peer session':>13} {'ratio':>6}  left")
    for size in SIZES:
        if size > largest:
            break
        content = blocks(size).SerializeToString()
        ours = peer = float("inf")
        left = 0
        for _ in range(repeats if size <= _PEER_UP_TO else 1):
            seconds, session = optimising(content)
            left = session.load_report.optimisation.nodes_after
            session.close()
            ours = min(ours, seconds)
            if size <= 3000 or (size <= _PEER_UP_TO and peer == float("inf")):
                peer = min(peer, peer_session(content))
        shown = f"{peer:11.3f} s {ours / peer:6.2f}" if peer < float("inf") else f"{'-':>13} {'-':>6}"
        print(f"{size:7} {ours:9.3f} s {ours / size * 1e6:6.1f} µs {shown}  {left}", flush=True)


def _executed(runtime: ModuleType, path: Path, feeds: Mapping[str, Any], folder: str) -> Counter[str]:
    """Operators that one run executes, from its profile."""
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    options.enable_profiling = True
    options.profile_file_prefix = f"{folder}/{runtime.__name__}"
    if runtime is ort_py:
        options.pin_cpu = True
    session = runtime.InferenceSession(str(path), options, providers=_CPU)
    session.run(None, dict(feeds))
    events = json.loads(Path(session.end_profiling()).read_text(encoding="utf-8"))
    return Counter(
        event["args"].get("op_name", "")
        for event in events
        if event.get("cat") == "Node" and event["name"].endswith("_kernel_time")
    )


def _steps(models: Iterable[tuple[str, Path, Mapping[str, Any]]]) -> None:
    print(f"\n{'model':34} {'nodes':>6} {'steps':>6} {'copies':>6} {'peer':>6} {'ratio':>6}")
    with tempfile.TemporaryDirectory() as folder:
        for name, path, feeds in models:
            nodes = len(onnx.load(path, load_external_data=False).graph.node)
            ours = _executed(ort_py, path, feeds, folder)
            copies = ours.pop(_COPY, 0)
            steps, peer = ours.total(), _executed(onnxruntime, path, feeds, folder).total()
            print(f"{name:34} {nodes:6} {steps:6} {copies:6} {peer:6} {steps / max(peer, 1):6.2f}", flush=True)


_WAYS: dict[str, dict[str, object]] = {
    f"ort_py{VARIANT}plain off": {"optimised": False, "pin_cpu": True},
    f"ort_py{VARIANT}plain": {"pin_cpu": True},
    f"ort_py{VARIANT}off": {"optimised": False},
    f"ort_py{VARIANT}": {},
}
"""Plain NumPy and the CPU role, each without and with optimisation."""


def _speed(models: Sequence[ZooModel], blocks: int) -> None:
    print(
        f"{'':26} {'plain CPU provider':^26} {'CPU role':^26} {'peer':>9} {'ratio':>6}\n"
        f"{'model':26} {'off ms':>9} {'on ms':>9} {'gain':>6} {'off ms':>9} {'on ms':>9} {'gain':>6} {'ms':>9}"
    )
    gains: tuple[list[float], list[float], list[float]] = ([], [], [])
    peer = "onnxruntime"
    with Runtimes(1, names=(*_WAYS, peer), variants=_WAYS) as runtimes:
        for model in models:
            found = runtimes.measure(fetch(model), cases_of(model)[0].runs[0], blocks)
            refused = [str(one) for one in found.values() if isinstance(one, Refused)]
            times = [one.worked * 1e3 for name in (*_WAYS, peer) if isinstance(one := found[name], Timing)]
            if refused:
                print(f"{model.name:26} {refused[0]}", flush=True)
                continue
            plain_off, plain, off, on, theirs = times
            row = (plain_off / plain, off / on, on / theirs)
            for column, number in zip(gains, row, strict=True):
                column.append(number)
            print(
                f"{model.name:26} {plain_off:9.3f} {plain:9.3f} {row[0]:6.2f} {off:9.3f} {on:9.3f} {row[1]:6.2f}"
                f" {theirs:9.3f} {row[2]:6.2f}",
                flush=True,
            )
    means = [math.exp(statistics.fmean(map(math.log, column))) for column in gains if column]
    if means:
        print(f"{'geometric mean':26} {'':19} {means[0]:6.2f} {'':19} {means[1]:6.2f} {'':9} {means[2]:6.2f}")


def main(arguments: list[str]) -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="benchmarks.optimiser", description="What optimising costs and leaves.")
    parser.add_argument("--largest", type=int, default=SIZES[-1], help="nodes of the largest graph (50,000)")
    parser.add_argument("--models", nargs="*", default=None, help="models of the catalogue; none: the first table only")
    parser.add_argument("--speed", nargs="*", default=None, help="time runs of models instead; none: all of them")
    parser.add_argument("--blocks", type=int, default=3, help="blocks of 0.3 s for each way of --speed (3)")
    chosen = parser.parse_args(arguments)
    print(cpu_role())
    if chosen.speed is not None:
        _speed([by_name(name) for name in chosen.speed] or list(CATALOGUE), chosen.blocks)
        return 0
    _costs(chosen.largest)
    models: Sequence[ZooModel] = CATALOGUE if chosen.models is None else [by_name(name) for name in chosen.models]
    _steps((model.name, fetch(model), cases_of(model)[0].runs[0]) for model in models)
    _steps((path.stem, path, feeds_of(path)) for path in EXPORTED)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
