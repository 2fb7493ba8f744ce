"""Random nets of pictures compute with the channels last what they compute unoptimised."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import hypothesis
import hypothesis.strategies as st
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import ort_py
from ort_py.discovery import default_catalog
from ort_py_kit.fake_provider import FakeBehaviour, FakeFactory
from ort_py_kit.tolerances import assert_close

NAME = "FakeExecutionProvider"
_SHAPE = (2, 3, 4, 5)
_SPACE = tuple(range(2, 4))


@pytest.fixture(scope="module", autouse=True)
def provider() -> Iterator[None]:
    """A provider that prefers channels last, on a device of its own, for the tests of this module."""
    ort_py.register_provider(FakeFactory(NAME, FakeBehaviour(channels_last=("Conv", "GlobalAveragePool"))))
    yield
    default_catalog().reset()


@st.composite
def nets(draw: Any) -> onnx.ModelProto:
    """Convolutions, sums, Concats, Transposes and poolings of pictures; the last value and another are returned."""
    values: list[tuple[str, tuple[int, ...]]] = [("x", _SHAPE)]
    nodes: list[onnx.NodeProto] = []
    constants: list[onnx.TensorProto] = []

    def add(op_type: str, inputs: list[str], shape: tuple[int, ...], **attributes: Any) -> None:
        values.append((f"v{len(nodes)}", shape))
        nodes.append(helper.make_node(op_type, inputs, [values[-1][0]], **attributes))

    for _ in range(draw(st.integers(2, 9))):
        name, shape = values[-1 - draw(st.integers(0, min(3, len(values) - 1)))]
        kind = draw(
            st.sampled_from(["Conv", "Conv", "Neg", "Add", "Concat", "Transpose", "GlobalAveragePool", "Scale"])
        )
        if kind == "Conv":
            filters = np.random.default_rng(len(nodes)).standard_normal((draw(st.integers(1, 4)), shape[1], 3, 3))
            constants.append(numpy_helper.from_array(filters.astype(np.float32) / 4, f"w{len(nodes)}"))
            add(kind, [name, constants[-1].name], (shape[0], len(filters), *shape[2:]), pads=[1] * 4)
        elif kind == "Scale":
            array = np.full((shape[1], 1, 1), 0.5, np.float32)
            constants.append(numpy_helper.from_array(array, f"s{len(nodes)}"))
            add("Mul", [name, constants[-1].name], shape)
        elif kind == "Transpose":
            order = draw(st.sampled_from([(0, 2, 3, 1), (0, 3, 1, 2)]))
            add(kind, [name], tuple([shape[axis] for axis in order]), perm=order)
        elif kind == "GlobalAveragePool":
            add(kind, [name], (*shape[:2], 1, 1))
        elif kind == "Concat":
            axis = draw(st.integers(0, 3))
            doubled = tuple([size * 2 if place == axis else size for place, size in enumerate(shape)])
            add(kind, [name, name], doubled, axis=axis)
        else:
            add(kind, [name] if kind == "Neg" else [name, name], shape)
    returned = dict([values[draw(st.integers(1, len(values) - 1))], values[-1]])
    inputs, outputs = (
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in some]
        for some in (values[:1], returned.items())
    )
    graph = helper.make_graph(nodes, "net", inputs, outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _results(model: onnx.ModelProto, level: ort_py.GraphOptimizationLevel, providers: list[str]) -> list[Any]:
    options = ort_py.SessionOptions()
    options.graph_optimization_level = level
    options.cache_dir = "off"
    options.cost_model = "always"
    x = np.random.default_rng(1).standard_normal(_SHAPE).astype(np.float32)
    with ort_py.InferenceSession(model.SerializeToString(), options, providers=providers) as session:
        return list(session.run(None, {"x": x}))


@hypothesis.given(nets())
@hypothesis.settings(max_examples=60, deadline=None, derandomize=True, database=None)
def test_layouts_agree(model: onnx.ModelProto) -> None:
    """ORT_ENABLE_LAYOUT with a provider that prefers channels last equals ORT_DISABLE_ALL with the plain one."""
    levels = ort_py.GraphOptimizationLevel
    plain = _results(model, levels.ORT_DISABLE_ALL, ["CPUExecutionProvider"])
    turned = _results(model, levels.ORT_ENABLE_LAYOUT, [NAME, "CPUExecutionProvider"])
    for left, right in zip(turned, plain, strict=True):
        assert_close(left, right)
