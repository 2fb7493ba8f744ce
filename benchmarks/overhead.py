"""`python -m benchmarks.overhead`: what a run and a session cost besides arithmetic, against onnxruntime.

One node; a chain of 1,000 `Add` with distinct operands on four floats (per node); creating a session of 20,000 nodes,
also from the cache (`benchmarks.creation` has more of that).
And of ort-py alone, what profiling the chain costs; with `--profiling`, only that.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

import ort_py
from benchmarks.alternating import compare
from benchmarks.cpu_role import cpu_role
from benchmarks.creation import created

__all__ = ["main"]


def chain(length: int) -> onnx.ModelProto:
    """`length` nodes ``Add``, each with a constant of its own."""
    nodes = [helper.make_node("Add", [f"v{index}", f"c{index}"], [f"v{index + 1}"]) for index in range(length)]
    constants = [helper.make_tensor(f"c{index}", TensorProto.FLOAT, [4], [index, 1, 2, 3]) for index in range(length)]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in ("v0", f"v{length}"))
    graph = helper.make_graph(nodes, "chain", [x], [y], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def profiling_cost(length: int = 1000, rounds: int = 100) -> tuple[float, float]:
    """(unprofiled, profiled) seconds of a node in a chain: the best of alternating rounds in this process."""
    content, feeds = chain(length).SerializeToString(), {"v0": np.ones(4, np.float32)}
    with tempfile.TemporaryDirectory() as folder:
        sessions = []
        for profiled in (False, True):
            options = ort_py.SessionOptions()
            options.intra_op_num_threads = 1
            options.graph_optimization_level = ort_py.GraphOptimizationLevel.ORT_DISABLE_ALL  # else one Add is left
            options.enable_profiling = profiled
            options.profile_file_prefix = str(Path(folder) / "profile")
            sessions.append(ort_py.InferenceSession(content, options, providers=["CPUExecutionProvider"]))
        best = [float("inf"), float("inf")]
        for _ in range(rounds):
            for number, session in enumerate(sessions):
                start = time.perf_counter()
                session.run(None, feeds)
                best[number] = min(best[number], time.perf_counter() - start)
        for session in sessions:
            session.close()
    return best[0] / length, best[1] / length


def main() -> int:
    """Print one row a measurement."""
    if "--profiling" not in sys.argv[1:]:
        _against_onnxruntime()
    plain, profiled = profiling_cost()
    print(
        f"{'a node unprofiled, and profiled':34} {plain * 1e6:7.2f} µs {profiled * 1e6:7.2f} µs {profiled / plain:7.2f}"
    )
    return 0


def _against_onnxruntime() -> None:
    feeds = {"v0": np.ones(4, np.float32)}
    print(cpu_role())
    print(f"{'what':34} {'ort-py':>10} {'peer':>10} {'ratio':>7}")
    with tempfile.TemporaryDirectory() as folder:
        for length in (1, 1000, 20_000):
            path = Path(folder) / f"chain{length}.onnx"
            path.write_bytes(chain(length).SerializeToString())
            result = compare(path, feeds, threads=1, optimised=length != 1000)  # optimised, one Add would be left
            if length == 20_000:
                ours, peer, what, unit = result.ours_created, result.peer_created, "session of 20,000 nodes", "s"
            else:
                ours, peer = result.ours / length * 1e6, result.peer / length * 1e6
                what, unit = ("run() of one node" if length == 1 else "a node in a chain of 1,000"), "µs"
            print(f"{what:34} {ours:7.2f} {unit:2} {peer:7.2f} {unit:2} {ours / peer:7.2f}", flush=True)
        _, cached, peer = created(path)
        print(f"{'the same from the cache':34} {cached:7.2f} s  {peer:7.2f} s  {cached / peer:7.2f}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
