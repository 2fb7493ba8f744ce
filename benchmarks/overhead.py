"""`python -m benchmarks.overhead`: what a run and a session cost besides arithmetic, against onnxruntime.

One node; a chain of 1,000 `Add` with distinct operands on four floats (per node); creating a session of 20,000 nodes.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

from benchmarks.alternating import compare

__all__ = ["main"]


def chain(length: int) -> onnx.ModelProto:
    """`length` nodes ``Add``, each with a constant of its own."""
    nodes = [helper.make_node("Add", [f"v{index}", f"c{index}"], [f"v{index + 1}"]) for index in range(length)]
    constants = [helper.make_tensor(f"c{index}", TensorProto.FLOAT, [4], [index, 1, 2, 3]) for index in range(length)]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in ("v0", f"v{length}"))
    graph = helper.make_graph(nodes, "chain", [x], [y], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def main() -> int:
    """Print one row a measurement."""
    feeds = {"v0": np.ones(4, np.float32)}
    print(f"{'what':34} {'ort-py':>10} {'peer':>10} {'ratio':>7}")
    with tempfile.TemporaryDirectory() as folder:
        for length in (1, 1000, 20_000):
            path = Path(folder) / f"chain{length}.onnx"
            path.write_bytes(chain(length).SerializeToString())
            result = compare(path, feeds, threads=1)
            if length == 20_000:
                ours, peer, what, unit = result.ours_created, result.peer_created, "session of 20,000 nodes", "s"
            else:
                ours, peer = result.ours / length * 1e6, result.peer / length * 1e6
                what, unit = ("run() of one node" if length == 1 else "a node in a chain of 1,000"), "µs"
            print(f"{what:34} {ours:7.2f} {unit:2} {peer:7.2f} {unit:2} {ours / peer:7.2f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
