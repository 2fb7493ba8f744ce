"""`python -m benchmarks.creation [MODEL …]`: what making a session costs, prepared and cached, against onnxruntime.

Without arguments two chains of 20,000 nodes: `Add` with a constant each, and five kinds of nodes without constants.
Every session is made in a process of its own, taking turns; the clock runs while it is made, after the imports.
Minima are shown: whatever else the machine does makes a session slower, never faster.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import onnx
from onnx import TensorProto, helper

__all__ = ["created", "main", "plain_chain"]

ROUNDS = 5

_CHILD = """
import sys, time
runtime, model = sys.argv[1:]
if runtime == "onnxruntime":
    import onnxruntime as module
else:
    import ort_py as module
    if runtime == "prepared":
        import ort_py.engine.loading, ort_py.engine.preparation
options = module.SessionOptions()
options.log_severity_level = 3
if runtime == "cached":
    options.add_session_config_entry("session.model_cache", "1")  # also what takes less than 100 ms to prepare
module.InferenceSession
start = time.perf_counter()
session = module.InferenceSession(model, options, providers=["CPUExecutionProvider"])
print(time.perf_counter() - start)
"""


def plain_chain(length: int) -> onnx.ModelProto:
    """`length` nodes of five kinds, one after the other, without constants."""
    kinds = ("Relu", "Neg", "Abs", "Sigmoid", "Tanh")
    nodes = [helper.make_node(kinds[index % len(kinds)], [f"v{index}"], [f"v{index + 1}"]) for index in range(length)]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in ("v0", f"v{length}"))
    graph = helper.make_graph(nodes, "chain", [x], [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def created(model: Path, rounds: int = ROUNDS) -> tuple[float, float, float]:
    """Seconds to make a session: prepared, from the cache, and onnxruntime's."""
    with tempfile.TemporaryDirectory() as folder:
        settings = {"prepared": "off", "cached": folder, "onnxruntime": "off"}
        _make("cached", model, folder)  # fills the cache
        times: dict[str, list[float]] = {name: [] for name in settings}
        for _ in range(rounds):
            for name, cache in settings.items():
                times[name].append(_make(name, model, cache))
    return min(times["prepared"]), min(times["cached"]), min(times["onnxruntime"])


def _make(runtime: str, model: Path, cache: str) -> float:
    command = [sys.executable, "-c", _CHILD, runtime, str(model)]
    environment = {**os.environ, "ORT_PY_CACHE": cache, "OPENBLAS_NUM_THREADS": "1"}
    return float(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)


def main(arguments: Sequence[str]) -> int:
    """Print one row a model."""
    from benchmarks.cpu_role import cpu_role
    from benchmarks.overhead import chain

    print(cpu_role())
    print(f"{'model':28} {'prepared ms':>12} {'cached ms':>10} {'peer ms':>9} {'prepared':>9} {'cached':>7}")
    with tempfile.TemporaryDirectory() as folder:
        models = [Path(name) for name in arguments]
        if not models:
            for name, proto in (("20,000 Add", chain(20_000)), ("20,000 without constants", plain_chain(20_000))):
                models.append(Path(folder) / f"{name}.onnx")
                models[-1].write_bytes(proto.SerializeToString())
        for model in models:
            prepared, cached, peer = created(model)
            print(
                f"{model.stem:28} {prepared * 1e3:12.1f} {cached * 1e3:10.1f} {peer * 1e3:9.1f}"
                f" {prepared / peer:8.2f}x {cached / peer:6.2f}x",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
