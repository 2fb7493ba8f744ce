"""The table of constraints against the kernels: it takes what the specification allows, and knows what comes out.

The oracle is ONNX's backend suite: its nodes are valid, and it has the shapes of their results. Nodes that were made
invalid are run by the NumPy kernels, which check by themselves: what they refuse, the constraints must not let pass.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest

import ort_py as ort
from ort_py.constraints import Gate, check_elements
from ort_py.constraints.table import constraint_of
from ort_py.devices import HOST
from ort_py.errors import OrtPyError
from ort_py.graph.view import SubsetView
from ort_py_kit.backend_cases import SuiteCase, suite_cases
from ort_py_kit.graphs import typed_model

pytestmark = pytest.mark.slow  # two thousand models are read

_PIECES = 8
"""Parts of the suite, so that two processes share it."""

_EXTREMES = (0, -1, 1, 2, 3, 5, 7, -2, -3, 100, 2**31, 2**63 - 1, -(2**63))

_STRICTER = {
    "Attention",
    "ConvInteger",
    "ConvTranspose",
    "DequantizeLinear",
    "DynamicQuantizeLinear",
    "QuantizeLinear",
    "Transpose",
}
"""Operators whose kernels take more than the constraints: regions leave such runs to them."""

_VALUES = {"Dropout"}
"""Operators whose kernels refuse the value of an attribute that has nothing to do with shapes."""


def _cases() -> list[SuiteCase]:
    return list(suite_cases())


def _gate(model: onnx.ModelProto) -> tuple[Gate, list[str], list[str]]:
    """The gate of a region of all nodes, with the names of its inputs and outputs."""
    graph = typed_model(model).graph
    view = SubsetView(graph, list(graph.nodes))
    return Gate(view), [value.name for value in view.inputs], [value.name for value in view.outputs]


@pytest.mark.parametrize("piece", range(_PIECES))
def test_the_suite_passes_the_gate(piece: int) -> None:
    """No case of the suite is refused, and foretold shapes and types are those of the expected results."""
    known = 0
    for case in _cases()[piece::_PIECES]:
        try:
            gate, names, made = _gate(case.model)
        except OrtPyError:
            continue  # cases for old operators whose opset sessions refuse, too
        assert gate.violations == (), case.name
        outputs = [value.name for value in case.model.graph.output]
        for feeds, expected in case.data_sets():
            arrays = [feeds.get(name) for name in names]
            if not gate.answers_on(HOST) or not all(isinstance(array, np.ndarray) for array in arrays):
                break
            for name, kind in zip(made, gate.output_dtypes, strict=True):
                if name in outputs and kind is not None:
                    assert kind == expected[outputs.index(name)].dtype, case.name
            for admission in (gate.admit(arrays), gate._admit_numbers(arrays)):
                check_elements(gate, admission, arrays)
                for name, shape in zip(made, admission.outputs, strict=True):
                    if name in outputs and shape is not None:
                        assert shape == np.shape(expected[outputs.index(name)]), case.name
                        known += 1
    assert known > 150


@pytest.mark.parametrize("size", range(4))
@pytest.mark.parametrize(
    "attributes", ["ceil_mode = 1, kernel_shape = [1], strides = [2]", "kernel_shape = [2], strides = [2]"]
)
def test_pools_of_next_to_nothing_pass_the_gate(attributes: str, size: int) -> None:
    """The oracle is onnxruntime, which takes no columns of no pictures: of one window the start is behind the end."""
    text = f"g (float[B,3,N] x) => (float[B,3,M] y) {{ y = MaxPool <{attributes}> (x) }}"
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 14]> {text}')
    x = np.zeros((0, 3, size), np.float32)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    assert _gate(model)[0].admit([x]).outputs == (session.run(None, {"x": x})[0].shape,)


def _mutated(case: SuiteCase, rng: np.random.Generator) -> tuple[onnx.ModelProto, dict[str, Any]]:
    """The case with an attribute, a size or a number of an input changed."""
    model, feeds = copy.deepcopy(case.model), dict(next(iter(case.data_sets()))[0])
    node = model.graph.node[0]
    for _ in range(int(rng.integers(1, 3))):
        extreme = int(rng.choice(np.array(_EXTREMES, object)))
        if node.attribute and rng.random() < 0.4:
            attribute = node.attribute[int(rng.integers(len(node.attribute)))]
            if attribute.type == onnx.AttributeProto.INT:
                attribute.i = extreme
            elif attribute.type == onnx.AttributeProto.INTS and attribute.ints:
                attribute.ints[int(rng.integers(len(attribute.ints)))] = extreme
            continue
        name = str(rng.choice(sorted(feeds)))
        array = feeds[name]
        if not isinstance(array, np.ndarray) or not array.ndim:
            continue
        if array.dtype.kind == "i" and array.ndim == 1 and array.size:
            array = array.copy()
            array[int(rng.integers(array.size))] = np.array(extreme, object).astype(np.int64).astype(array.dtype)
            feeds[name] = array
        elif array.size:
            axis = int(rng.integers(array.ndim))
            shape = (*array.shape[:axis], int(rng.integers(0, 5)), *array.shape[axis + 1 :])
            feeds[name] = np.resize(array, shape).astype(array.dtype)
    for value in model.graph.input:
        array = feeds.get(value.name)
        if isinstance(array, np.ndarray) and value.type.HasField("tensor_type"):
            value.type.tensor_type.shape.Clear()
            value.type.tensor_type.shape.SetInParent()
            for axis in range(array.ndim):
                value.type.tensor_type.shape.dim.add().dim_param = f"{value.name}_{axis}"
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")
    return model, feeds


@pytest.mark.redundant(one_in=2)
@pytest.mark.parametrize("seed", range(4))
def test_what_kernels_refuse_does_not_pass(seed: int) -> None:
    """For randomly changed nodes, the gate admits none into a region that its kernel refuses to run."""
    rng = np.random.default_rng(seed)
    known = [
        case
        for case in _cases()
        if case.kind == "node"
        and len(case.model.graph.node) == 1
        and constraint_of(case.model.graph.node[0].domain, case.model.graph.node[0].op_type) is not None
    ]
    options = ort.SessionOptions()
    options.pin_cpu = True
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.limits = ort.Limits(single_allocation_bytes=1 << 28)
    refused = 0
    for _ in range(500):
        case = known[int(rng.integers(len(known)))]
        model, feeds = _mutated(case, rng)
        operator = model.graph.node[0].op_type
        try:
            gate, names, _ = _gate(model)
            session = ort.InferenceSession(model.SerializeToString(), options)
        except OrtPyError:
            continue  # wrong whatever is fed
        arrays = [feeds.get(name) for name in names]
        if gate.unchecked or not all(isinstance(array, np.ndarray) for array in arrays):
            continue
        passed = not gate.violations
        if passed:
            try:
                admission = gate.admit(arrays)
                check_elements(gate, admission, arrays)
                passed = admission.largest[0] <= 1 << 28
            except OrtPyError:
                passed = False
        try:
            session.run(None, feeds)
            runs = True
        except Exception:  # kernels that miss a case are another test's affair
            runs = False
        refused += not runs
        if runs != passed:
            assert operator in (_STRICTER if runs else _VALUES), (operator, feeds, model.graph.node[0])
    assert refused > 20
