"""Arithmetic with sizes stays on the host, where sizes are; everything else does not."""

from __future__ import annotations

from typing import Any

import numpy as np

import ort_py
from ort_py_kit.graphs import model_from_text

from .stand_in.machine import Machine

HEAD = '<ir_version: 10, opset_import: ["" : 21]>'


def session(text: str) -> ort_py.InferenceSession:
    """An unoptimised session with the provider in front."""
    settings = ort_py.SessionOptions()
    settings.cost_model = "always"
    settings.graph_optimization_level = ort_py.GraphOptimizationLevel.ORT_DISABLE_ALL
    settings.pin_cpu = True
    settings.cache_dir = "off"
    providers: list[Any] = ["CUDAExecutionProvider", "CPUExecutionProvider"]
    return ort_py.InferenceSession(model_from_text(text).SerializeToString(), settings, providers, enable_fallback=0)


def runners(made: ort_py.InferenceSession) -> dict[str, str]:
    return {node.op_type: node.provider.removesuffix("ExecutionProvider") for node in made.placement.nodes}


HEADS = f"""{HEAD}
g (float[n,12,m] x, float[n,4,m] y) => (float[n,k,m] z, float[a,b] w)
  <int64[1] zero = {{0}}, int64[1] one = {{1}}, int64 axis = {{1}}>
{{ s = Shape(x)
   rows = Gather(s, zero)
   columns = Gather(s, one)
   half = Div(columns, one)
   shape = Concat<axis: int = 0>(rows, half, zero)
   flat = Slice(shape, zero, one)
   n = Concat<axis: int = 0>(flat, half)
   t = Concat<axis: int = 1>(x, y)
   z = Tanh(t)
   r = ReduceSum<keepdims: int = 0>(x, axis_two)
   w = Reshape(r, n) }}
""".replace("int64 axis = {1}>", "int64[1] axis_two = {2}>")


def test_a_chain_of_sizes_stays_on_the_host(machine: Machine) -> None:
    """From Shape to the Reshape that reads it there; no stream is waited for on the way."""
    with session(HEADS) as made:
        where = runners(made)
        assert {where[name] for name in ("Gather", "Div", "Slice")} == {"CPU"}
        assert {where[name] for name in ("Shape", "Tanh", "Reshape", "ReduceSum")} == {"CUDA"}
        assert "computes with sizes" in str([node for node in made.placement.nodes if node.op_type == "Div"])
        feed = {"x": np.ones((2, 12, 3), np.float32), "y": np.ones((2, 4, 3), np.float32)}
        z, w = made.run(None, feed)
        assert z.shape == (2, 16, 3)
        assert w.tolist() == [[3.0] * 12] * 2
        assert str(made.plan).count("wait") <= 2, "only results are waited for"


def test_arithmetic_with_data_goes_to_the_device(machine: Machine) -> None:
    """Integers that are fed are data, whatever their rank."""
    with session(f"{HEAD} g (int64[n] x, int64[n] y) => (int64[n] z) {{ s = Mul(x, y)  z = Add(s, y) }}") as made:
        assert set(runners(made).values()) == {"CUDA"}


def test_what_is_made_large_goes_to_the_device(machine: Machine) -> None:
    """A size on the host, and a tensor of that size: the tensor is the device's."""
    text = f"{HEAD} g (float[n,m] x) => (float[a,b] z) {{ s = Shape(x)  z = ConstantOfShape(s) }}"
    with session(text) as made:
        assert runners(made)["ConstantOfShape"] == "CUDA"
        assert made.run(None, {"x": np.ones((2, 3), np.float32)})[0].shape == (2, 3)
