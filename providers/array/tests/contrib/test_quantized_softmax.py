"""QLinearSoftmax: against float64 and, where onnxruntime keeps to its own definition, onnxruntime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

from ort_py.dtypes import data_type_of
from ort_py.errors import InvalidArgument
from ort_py_array.contrib.quantized_softmax import qlinear_softmax
from ort_py_kit.kernel_runner import LocalKernelContext, make_node_spec

from ..standin import array_module, to_device, to_host
from .near_ties import DOMAIN, assert_quantized, number, random_eight


def run_softmax(
    inputs: Sequence[Any], axis: int, opset: int, constants: Sequence[int] = (), xp: Any = np, convert: Any = np.asarray
) -> Any:
    """The kernel on one node. Its attribute is called as an argument of the usual helper, which cannot pass it on."""
    node = make_node_spec("QLinearSoftmax", inputs, domain=DOMAIN, opset=1, attributes={"axis": axis, "opset": opset})
    given_inputs = [None if x is None else convert(x) for x in inputs]
    return qlinear_softmax(LocalKernelContext(node, xp, {i: inputs[i] for i in constants}))(*given_inputs)


def runtime_softmax(inputs: Sequence[Any], axis: int, opset: int) -> Any:
    """onnxruntime's result, for the same reason."""
    names = ["" if x is None else f"x{i}" for i, x in enumerate(inputs)]
    node = helper.make_node("QLinearSoftmax", names, ["y"], domain=DOMAIN, axis=axis, opset=opset)
    feeds = {name: x for name, x in zip(names, inputs, strict=True) if name}
    values = [helper.make_tensor_value_info(n, int(data_type_of(x.dtype)), x.shape) for n, x in feeds.items()]
    graph = helper.make_graph([node], "g", values, [helper.make_empty_tensor_value_info("y")])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 1)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=10)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, feeds)[0]


def exact(x: Any, x_scale: float, y_scale: float, y_zero: int, axis: int, opset: int) -> Any:
    """The formula in float64, before it is rounded."""
    real = x.astype(np.float64) * np.float32(x_scale)
    axis = axis % x.ndim
    flat = real if opset >= 13 else real.reshape(*x.shape[:axis], -1)
    powers = np.exp(flat - flat.max(axis=axis, keepdims=True))
    return (powers / powers.sum(axis=axis, keepdims=True)).reshape(x.shape) / np.float32(y_scale) + y_zero


@pytest.mark.parametrize("constants", [(), (1,)], ids=["fed", "constant"])
@pytest.mark.parametrize("opset", [11, 13])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_equals_onnxruntime(axis: int, opset: int, constants: tuple[int, ...]) -> None:
    """Along an axis, or over all from there on."""
    x = random_eight((3, 5, 7), np.uint8)
    inputs = [x, number(0.05), number(3, np.uint8), number(1 / 256), number(0, np.uint8)]
    wanted = exact(x, 0.05, 1 / 256, 0, axis, opset)
    assert_quantized(runtime_softmax(inputs, axis, opset), wanted, np.uint8)
    assert_quantized(run_softmax(inputs, axis, opset, constants), wanted, np.uint8)


@pytest.mark.parametrize("divisor", [1, 8])
def test_signed_values_equal_onnxruntime(divisor: int) -> None:
    """Probabilities from 0 to 1, and none near 1."""
    x = random_eight((4, 40), np.int8) // divisor
    inputs = [x, number(0.05), None, number(1 / 256), number(-128, np.int8)]
    wanted = exact(x, 0.05, 1 / 256, -128, -1, 13)
    assert_quantized(runtime_softmax(inputs, -1, 13), wanted, np.int8)
    assert_quantized(run_softmax(inputs, -1, 13), wanted, np.int8)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    dtype=st.sampled_from([np.uint8, np.int8]),
    shape=st.lists(st.integers(1, 5), min_size=1, max_size=4),
    scales=st.tuples(st.floats(2.0**-14, 50.0, width=32), st.floats(2.0**-10, 0.125, width=32)),
    zero=st.integers(-128, 127),
    opset=st.sampled_from([12, 13]),
    data=st.data(),
)
def test_any_parameters(dtype: Any, shape: list[int], scales: Any, zero: int, opset: int, data: Any) -> None:
    """Any scale of the output, where onnxruntime rounds its reciprocal down, and saturation at both ends."""
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    x, y_zero = random_eight(shape, dtype), zero if dtype is np.int8 else abs(zero)
    inputs = [x, number(scales[0]), number(3, dtype), number(scales[1]), number(y_zero, dtype)]
    assert_quantized(run_softmax(inputs, axis, opset), exact(x, scales[0], scales[1], y_zero, axis, opset), dtype)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0)])
def test_nothing(shape: tuple[int, ...]) -> None:
    inputs = [np.zeros(shape, np.uint8), number(0.1), None, number(0.1), number(0, np.uint8)]
    assert run_softmax(inputs, -1, 13).shape == shape


def test_large_tensors_are_computed_in_blocks() -> None:
    """More than one block, the last not full."""
    x = random_eight((77, 1000), np.uint8)
    inputs = [x, number(0.05), None, number(1 / 256), number(0, np.uint8)]
    assert_quantized(run_softmax(inputs, -1, 13), exact(x, 0.05, 1 / 256, 0, -1, 13), np.uint8)


def test_on_another_array_module() -> None:
    """Nothing of NumPy's own is used."""
    inputs = [random_eight((3, 4), np.int8), number(0.1), None, number(1 / 256), number(-128, np.int8)]
    actual = run_softmax(inputs, 0, 13, xp=array_module, convert=to_device)
    np.testing.assert_array_equal(to_host(actual), run_softmax(inputs, 0, 13))


def test_an_axis_that_does_not_exist_is_refused() -> None:
    inputs = [np.zeros((2, 2), np.uint8), number(0.1), None, number(0.1), number(0, np.uint8)]
    with pytest.raises(InvalidArgument, match="Axis 2 is out of range for rank 2"):
        run_softmax(inputs, 2, 13)
