"""Packed weights that a process keeps for the next one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

_PROGRAM = """
import sys
import numpy as np
import ort_py
from ort_py.cache.writing import process_queue
from ort_py_onednn.execution.packed_weights import Weight

made = []
plain = Weight._reordered
Weight._reordered = lambda self, desc, seen: made.append(desc) or plain(self, desc, seen)
options = ort_py.SessionOptions()
options.add_session_config_entry("session.model_cache", "1")  # however quickly it was prepared
session = ort_py.InferenceSession(sys.argv[1], options)
x = np.random.default_rng(3).random((1, 32, 20, 20), np.float32)
np.save(sys.argv[2], session.run(None, {"x": x})[0])
process_queue().wait()
print(len(made))
"""


def _write_model(path: Path) -> None:
    """Two convolutions whose weights are worth packing."""
    random = np.random.default_rng(5)
    weights = [random.standard_normal((64, size, 3, 3)).astype(np.float32) for size in (32, 64)]
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["m"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["m"], ["r"]),
        helper.make_node("Conv", ["r", "w1"], ["y"], pads=[1, 1, 1, 1]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 32, 20, 20])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 64, 20, 20])],
        [numpy_helper.from_array(one, f"w{place}") for place, one in enumerate(weights)],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    os.utime(path, (10**9, 10**9))


def test_a_process_maps_what_an_earlier_one_packed(tmp_path: Path) -> None:
    """The first prepares the model, the second packs its weights, and the third packs none; all answer the same."""
    model, cache = tmp_path / "model.onnx", tmp_path / "cache"
    _write_model(model)
    made = []
    for turn in range(3):
        done = subprocess.run(
            [sys.executable, "-c", _PROGRAM, str(model), str(tmp_path / f"{turn}.npy")],
            env={**os.environ, "ORT_PY_CACHE": str(cache)},
            capture_output=True,
            text=True,
            check=True,
        )
        made.append(int(done.stdout))
    assert made[0] > 0
    assert made[1] > 0
    assert made[2] == 0
    first, *others = (np.load(tmp_path / f"{turn}.npy") for turn in range(3))
    for other in others:
        np.testing.assert_array_equal(other, first)
