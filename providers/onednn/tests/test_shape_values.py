"""Exporters' computations on shapes are resolved while planning: regions are not cut, and each shape has its own
values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from onnx import NodeProto, TensorProto, helper, numpy_helper

import ort_py as ort
from providers.onednn.tests.models import PROVIDER, run_plain

RNG = np.random.default_rng(31)


def _f(*shape: int) -> np.ndarray[Any, Any]:
    return np.asarray(RNG.standard_normal(shape), np.float32)


def _n(op_type: str, inputs: str, outputs: str, **attributes: Any) -> NodeProto:
    return helper.make_node(
        op_type, ["" if one == "-" else one for one in inputs.split()], outputs.split(), **attributes
    )


CONSTANTS = {
    "w": _f(8, 8),
    "zero": np.array(0, np.int64),
    "one": np.array(1, np.int64),
    "axis": np.array([0], np.int64),
    "heads": np.array([2, 4], np.int64),
    "two": np.array([2], np.int64),
    "half": np.array([0.5], np.float32),
    "third": np.array([3], np.int64),
    "end": np.array([4], np.int64),
    "column": np.array([-1], np.int64),
}


def _model(nodes: Sequence[NodeProto], rank: int, outputs: Sequence[tuple[str, int]]) -> bytes:
    used = {name for one in nodes for name in one.input}
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [f"d{axis}" for axis in range(rank - 1)] + [8])]
    results = [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs]
    initializers = [numpy_helper.from_array(array, name) for name, array in CONSTANTS.items() if name in used]
    graph = helper.make_graph(list(nodes), "g", inputs, results, initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9).SerializeToString()


def _session(data: bytes) -> ort.InferenceSession:
    """A session without optimisation, which would compute some of these shapes itself."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort.InferenceSession(
        data,
        options,
        providers=[PROVIDER, "CPUExecutionProvider"],
        provider_options=[{"claim_small": True}, {}],
    )


SIZES = [_n("MatMul", "x w", "m"), _n("Shape", "m", "s")]
PICKED = [_n("Gather", "s zero", "a"), _n("Gather", "s one", "b")]
JOINED = [_n("Unsqueeze", "a axis", "a1"), _n("Unsqueeze", "b axis", "b1"), _n("Concat", "a1 b1 heads", "t", axis=0)]

CASES = {
    "Reshape": [*SIZES, *PICKED, *JOINED, _n("Reshape", "m t", "y")],
    "Expand": [*SIZES, _n("Concat", "two s", "t", axis=0), _n("Expand", "m t", "y")],
    "Slice by half": [
        *SIZES,
        PICKED[1],
        _n("Cast", "b", "c", to=TensorProto.FLOAT),
        _n("Mul", "c half", "d"),
        _n("Floor", "d", "e"),
        _n("Cast", "e", "f", to=TensorProto.INT64),
        _n("Slice", "m axis f one1", "y"),
    ],
    "a filled tensor": [
        *SIZES,
        _n("ConstantOfShape", "s", "z", value=numpy_helper.from_array(np.array([2.5], np.float32))),
        _n("Add", "m z", "y"),
    ],
    "a number of the mean": [
        SIZES[0],
        _n("Size", "m", "c"),
        _n("Cast", "c", "d", to=TensorProto.FLOAT),
        _n("Div", "m d", "y"),
    ],
    "Where of exporters": [
        *SIZES,
        _n("Concat", "two s", "t", axis=0),
        _n("Shape", "t", "l"),
        _n("ConstantOfShape", "l", "ones", value=numpy_helper.from_array(np.array([1], np.int64))),
        _n("Mul", "ones column", "minus"),
        _n("Equal", "t minus", "is"),
        _n("Where", "is ones t", "u"),
        _n("Expand", "m u", "y"),
    ],
}
CONSTANTS["one1"] = np.array([1], np.int64)


@pytest.mark.parametrize("name", sorted(CASES))
def test_one_region_whatever_the_shape(name: str) -> None:
    """Nothing runs outside, and shapes that come and go have the values of their own."""
    data = _model(CASES[name], 3, [("y", TensorProto.FLOAT)])
    with _session(data) as session:
        assert {one.provider for one in session.placement.nodes} == {PROVIDER}
        for rows in (3, 6, 3, 1):
            feeds = {"x": _f(2, rows, 8)}
            np.testing.assert_allclose(session.run(None, feeds)[0], run_plain(data, feeds)[0], rtol=1e-5, atol=1e-5)
        assert not session.fallback_report


def test_shapes_of_inputs_stay_outside() -> None:
    """They cut nothing there; the region is given what they come to, and plans again only where that changes."""
    nodes = [
        _n("Shape", "x", "s"),
        _n("Concat", "s heads", "t", axis=0),
        _n("Gather", "t first", "u"),
        _n("MatMul", "x w", "m"),
        _n("Reshape", "m u", "y"),
    ]
    CONSTANTS["first"] = np.array([0, 1, 3, 4], np.int64)
    data = _model(nodes, 3, [("y", TensorProto.FLOAT)])
    with _session(data) as session:
        where = {one.op_type: one.provider for one in session.placement.nodes}
        assert where["Reshape"] == PROVIDER
        assert where["Shape"] == "CPUExecutionProvider"
        for rows in (3, 5, 3):
            feeds = {"x": _f(2, rows, 8)}
            np.testing.assert_allclose(session.run(None, feeds)[0], run_plain(data, feeds)[0], rtol=1e-5, atol=1e-5)


def test_a_value_that_leaves_the_region_is_given() -> None:
    """Whole numbers that others read too come out as they were found."""
    nodes = [*SIZES, *PICKED, *JOINED, _n("Reshape", "m t", "y")]
    data = _model(nodes, 3, [("y", TensorProto.FLOAT), ("t", TensorProto.INT64)])
    with _session(data) as session:
        for rows in (3, 5):
            found = session.run(None, {"x": _f(2, rows, 8)})
            assert found[1].dtype == np.int64
            assert found[1].tolist() == [2, rows, 2, 4]
            assert not np.shares_memory(found[1], session.run(None, {"x": _f(2, rows, 8)})[1])
