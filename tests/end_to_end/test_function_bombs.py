"""Models whose functions explode when inlined end in a result or a LimitError, quickly and in little memory.

Each runs in a child process that is given 5 s and measures its own peak of memory. onnxruntime 1.31 crashes on the
first model and hangs on the second.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import helper

SECONDS = 5.0
MEMORY = 500 * 2**20

CHILD = """
import json, pathlib, re, sys, time
import numpy as np
import ort_py
start = time.perf_counter()
try:
    session = ort_py.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
    (result,) = session.run(None, {"x": np.full(2, -1.0, np.float32)})
    outcome = result.tolist()
except ort_py.LimitError as error:
    outcome = str(error)
seconds = time.perf_counter() - start
# Not getrusage where it can be avoided: its maximum is inherited from the process that started this one.
status = pathlib.Path("/proc/self/status")
if status.exists():
    peak = int(re.search(r"VmHWM:\\s+(\\d+) kB", status.read_text())[1]) * 1024
else:
    import resource
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
print(json.dumps({"outcome": outcome, "seconds": seconds, "peak": peak}))
"""


def model_with(functions: list[onnx.FunctionProto], last: str) -> onnx.ModelProto:
    """A model whose one node calls the last function."""
    value = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2]) for name in "xy"]
    graph = helper.make_graph([helper.make_node(last, ["x"], ["y"], domain="bomb")], "g", value[:1], value[1:])
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("bomb", 1)]
    return helper.make_model(graph, functions=functions, opset_imports=imports, ir_version=10)


def function(number: int, nodes: list[onnx.NodeProto]) -> onnx.FunctionProto:
    """A function from ``x`` to ``y``."""
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("bomb", 1)]
    return helper.make_function("bomb", f"f{number}", ["x"], ["y"], nodes, imports)


def chain(length: int) -> onnx.ModelProto:
    """Functions that call each other, one inside the other."""
    functions = [function(0, [helper.make_node("Neg", ["x"], ["y"])])]
    for number in range(1, length):
        nodes = [helper.make_node(f"f{number - 1}", ["x"], ["t"], domain="bomb"), helper.make_node("Abs", ["t"], ["y"])]
        functions.append(function(number, nodes))
    return model_with(functions, f"f{length - 1}")


def doubling(length: int) -> onnx.ModelProto:
    """Functions that call the one before twice: 2 to the power of `length` nodes."""
    functions = [function(0, [helper.make_node("Neg", ["x"], ["y"])])]
    for number in range(1, length):
        nodes = [
            helper.make_node(f"f{number - 1}", [source], [target], domain="bomb")
            for source, target in (("x", "t"), ("t", "y"))
        ]
        functions.append(function(number, nodes))
    return model_with(functions, f"f{length - 1}")


def run_in_child(model: onnx.ModelProto, folder: Path) -> dict[str, Any]:
    """Load and run a model in a process of its own, which is killed where it takes far too long."""
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(path)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="peak memory is asked of the POSIX module `resource`")


def test_three_thousand_chained_functions(tmp_path: Path) -> None:
    """A deep chain of calls is inlined without recursion, and gives the right result."""
    report = run_in_child(chain(3000), tmp_path)
    assert report["outcome"] == [1.0, 1.0]
    assert report["seconds"] < SECONDS
    assert report["peak"] < MEMORY


def test_doubling_functions(tmp_path: Path) -> None:
    """Four million nodes out of 22 functions are refused before they are made."""
    report = run_in_child(doubling(22), tmp_path)
    assert "nodes" in report["outcome"]
    assert report["seconds"] < SECONDS
    assert report["peak"] < MEMORY


def test_a_few_doublings_are_fine(tmp_path: Path) -> None:
    """Functions that are called twice are not an attack as such."""
    # Seven doublings of one Neg: an even number of signs.
    assert run_in_child(doubling(8), tmp_path)["outcome"] == [-1.0, -1.0]


def test_command_line_refuses_the_bomb(tmp_path: Path) -> None:
    """``ort-py run`` ends with 1 and the LimitError's four parts; standard output stays empty."""
    path = tmp_path / "model.onnx"
    path.write_bytes(doubling(22).SerializeToString())
    done = subprocess.run(
        [sys.executable, "-m", "ort_py.cli", "run", str(path)], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("LimitError: ")
    assert "what to do:" in done.stderr
