"""An operator of a plug-in that holds a graph, in a session: the example of docs/plugin-author."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest

import ort_py
from ort_py.contracts import (
    ALL_FLOATS,
    Array,
    FormalParameter,
    GraphView,
    KernelContext,
    OperatorSchema,
    Subgraph,
    SubgraphCallable,
    kernel,
    kernel_defs,
)
from ort_py.discovery import default_catalog
from ort_py.hooks import KernelContribution, hookimpl

CPU = "CPUExecutionProvider"
UNTIL = OperatorSchema(
    "Until",
    "org.example",
    inputs=(FormalParameter("x", "T"),),
    outputs=(FormalParameter("y", "T"),),
    attributes={"body": GraphView, "times": 100},
    types={"T": ALL_FLOATS},
    infer=lambda node: [node.inputs[0].type if node.inputs[0] is not None else None],
)
MODEL = """<ir_version: 10, opset_import: ["" : 21, "org.example" : 1]>
g (int64 n, float[2] x, float limit) => (float[2] y) <bool go = {1}, float[2] one = {1, 1}> {
  y = Loop (n, go, x) <body = outer (int64 i, bool c, float[2] v) => (bool d, float[2] w) {
    w = org.example.Until <body = inner (float[2] p) => (more, q) {
      two = Add(one, one)
      q = Mul(p, two)
      m = ReduceMax<keepdims = 0>(q)
      more = Less(m, limit)
    }> (v)
    d = Identity(c)
  }>
}"""


@kernel("Until", domain="org.example", subgraphs=(Subgraph("body", host_outputs=frozenset({0})),))
def until(_ctx: KernelContext, x: Array, *, body: SubgraphCallable, times: int = 100) -> Array:
    """org.example.Until-1: apply `body` until its first output, a bool, is false."""
    for _ in range(times):
        go_on, x = body(x)
        if not bool(go_on):
            break
    return x


@pytest.fixture(autouse=True)
def plug_in() -> Iterator[None]:
    """The operator's schema and kernel, contributed as a package would."""
    kernels = kernel_defs(SimpleNamespace(__name__=__name__, until=until))
    plugin = SimpleNamespace(
        ort_py_kernels=hookimpl(lambda: [KernelContribution(CPU, kernels)]),
        ort_py_operator_schemas=hookimpl(lambda: [UNTIL]),
    )
    hooks = default_catalog().hooks
    hooks.register(plugin, "until-plugin")
    yield
    hooks.unregister("until-plugin")


def session(options: ort_py.SessionOptions | None = None) -> ort_py.InferenceSession:
    """The model on the CPU."""
    return ort_py.InferenceSession(onnx.parser.parse_model(MODEL).SerializeToString(), options, [CPU])


def feeds(trips: int, limit: float) -> dict[str, Any]:
    """Inputs."""
    return {"n": np.array(trips), "x": np.array([1, 0.5], np.float32), "limit": np.array(limit, np.float32)}


@pytest.mark.parametrize("level", list(ort_py.GraphOptimizationLevel))
def test_the_example_runs(level: ort_py.GraphOptimizationLevel) -> None:
    """Doubling to the limit, and once more in each further trip, at every level of optimisation."""
    options = ort_py.SessionOptions()
    options.graph_optimization_level = level
    with session(options) as made:
        for trips, limit, wanted in ((0, 9, 1), (1, 9, 16), (3, 9, 64), (1, 0, 2)):
            np.testing.assert_array_equal(made.run(None, feeds(trips, limit))[0], [wanted, wanted / 2])


def test_constants_inside_are_folded_and_nodes_placed() -> None:
    """Transforms and partitioning reach into the graph."""
    with session() as made:
        placed = [(node.op_type, node.provider) for node in made.placement]
    assert ("Mul", CPU) in placed
    assert "Add" not in dict(placed)


def test_steps_inside_are_profiled(tmp_path: Path) -> None:
    """Each run of each node is an event."""
    options = ort_py.SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = str(tmp_path / "profile")
    with session(options) as made:
        made.run(None, feeds(1, 9))
        events = json.loads(Path(made.end_profiling()).read_text(encoding="utf-8"))
    assert len([event for event in events if event.get("args", {}).get("op_name") == "Mul"]) == 4


def test_many_threads_call_one_session() -> None:
    """Each gets what belongs to its own feeds."""
    with session() as made, ThreadPoolExecutor(8) as pool:
        for index, (y,) in enumerate(pool.map(lambda index: made.run(None, feeds(index % 4, 5)), range(64))):
            wanted = 1 if index % 4 == 0 else 8 * 2 ** (index % 4 - 1)
            np.testing.assert_array_equal(y, [wanted, wanted / 2])
