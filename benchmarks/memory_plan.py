"""`python -m benchmarks.memory_plan [MIB …]`: chains of element-wise steps, with and without memory that is used again.

Both sessions are in one process and run in turns, on one thread; the best block of each counts.
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np
from onnx import TensorProto, helper

import ort_py as ort
from benchmarks.cpu_role import cpu_role

__all__ = ["main"]

_STEPS = ("Add", "Sigmoid", "Mul", "Abs", "Neg", "Add")
_COLUMNS = 1024
_BLOCKS = 30


def main(arguments: list[str]) -> int:
    """Print a row for each size."""
    parser = argparse.ArgumentParser(prog="benchmarks.memory_plan", description="Planned runs against plain ones.")
    parser.add_argument("sizes", nargs="*", type=float, default=[0.004, 1, 8, 64], help="MiB of an array")
    print(cpu_role(plain=True))
    print(f"{'MiB':>8} {'plain us':>11} {'planned us':>11} {'ratio':>7} {'kept MiB':>9}")
    for size in parser.parse_args(arguments).sizes:
        plain, planned, kept = _compare(max(1, round(size * (1 << 20) / 4 / _COLUMNS)))
        print(f"{size:8g} {plain * 1e6:11.1f} {planned * 1e6:11.1f} {planned / plain:7.2f} {kept / (1 << 20):9.1f}")
    return 0


def _compare(rows: int) -> tuple[float, float, int]:
    """Best seconds of a run without and with a plan, and the bytes that are kept for it."""
    feed = {"x": np.random.default_rng(0).random((rows, _COLUMNS), np.float32)}
    sessions = [_session(planned=planned) for planned in (False, True)]
    best = [float("inf")] * 2
    for session in sessions:
        for _ in range(3):
            session.run(None, feed)
    for _ in range(_BLOCKS):
        for index, session in enumerate(sessions):
            start = time.perf_counter()
            session.run(None, feed)
            best[index] = min(best[index], time.perf_counter() - start)
    return best[0], best[1], sessions[1].memory_report().workspace


def _session(*, planned: bool) -> ort.InferenceSession:
    nodes, current = [], "x"
    for number in range(12):
        operator = _STEPS[number % len(_STEPS)]
        made = "y" if number == 11 else f"v{number}"
        nodes.append(helper.make_node(operator, [current, "w"] if operator in ("Add", "Mul") else [current], [made]))
        current = made
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["rows", _COLUMNS]) for name in "xy")
    weight = helper.make_tensor("w", TensorProto.FLOAT, [_COLUMNS], np.full(_COLUMNS, 0.5, np.float32))
    graph = helper.make_graph(nodes, "chain", [x], [y], [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.enable_mem_pattern = planned
    options.pin_cpu = True  # a region has one value in the plan, and memory of its own
    options.intra_op_num_threads = 1
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
