"""Models in float16 and bfloat16: which values become narrow, which nodes stay wide, and that the numbers are right."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto

from ort_py_tensorrt.precision import lowered
from ort_py_tensorrt.region_model import RegionModel, model_of
from providers.tensorrt.tests.asking import region_of
from providers.tensorrt.tests.models import cnn, mlp, vit, with_weights


def _inline(model: RegionModel) -> onnx.ModelProto:
    """Return the model with its weights."""
    made = onnx.ModelProto()
    made.CopyFrom(model.proto)
    for tensor in made.graph.initializer:
        if tensor.name in model.weights:
            del tensor.external_data[:]
            tensor.ClearField("data_location")
            tensor.raw_data = model.weights[tensor.name].tobytes()
    return made


def _run(model: onnx.ModelProto, feeds: Mapping[str, Any]) -> list[Any]:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return list(session.run(None, dict(feeds)))


def _lowered(model: onnx.ModelProto, precision: str, **options: Any) -> onnx.ModelProto:
    made = _inline(lowered(model_of(region_of(model)), precision, **options))
    onnx.checker.check_model(made, full_check=True)
    return made


def _read_by(model: onnx.ModelProto, op_type: str) -> set[int]:
    """Return the types of the floating-point inputs of the nodes of an operator."""
    inferred = onnx.shape_inference.infer_shapes(model)
    types = {one.name: one.type.tensor_type.elem_type for one in (*inferred.graph.value_info, *inferred.graph.input)}
    types |= {one.name: one.data_type for one in inferred.graph.initializer}
    floats = {TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16}
    return {types[name] for node in model.graph.node if node.op_type == op_type for name in node.input} & floats


def test_float32_is_the_model_itself() -> None:
    model = model_of(region_of(mlp()))
    assert lowered(model, "float32") is model


@pytest.mark.parametrize("model", [mlp(), cnn(), vit()], ids=["mlp", "cnn", "vit"])
def test_the_border_stays_float32(model: onnx.ModelProto) -> None:
    made = _lowered(model, "float16")
    kinds = {one.type.tensor_type.elem_type for one in (*made.graph.input, *made.graph.output)}
    assert kinds == {TensorProto.FLOAT}
    assert [one.name for one in made.graph.output] == [one.name for one in model.graph.output]


@pytest.mark.parametrize("model", [mlp(), cnn(), vit()], ids=["mlp", "cnn", "vit"])
def test_float16_differs_from_float32_by_its_rounding(model: onnx.ModelProto) -> None:
    """Errors of some 2^-11 of the largest value, for sums of up to 72 products."""
    shape = [one.dim_value for one in model.graph.input[0].type.tensor_type.shape.dim]
    feeds = {model.graph.input[0].name: np.random.default_rng(3).normal(0, 1, shape).astype(np.float32)}
    (wanted,), (found,) = _run(model, feeds), _run(_lowered(model, "float16"), feeds)
    error = np.abs(wanted - found).max() / np.abs(wanted).max()
    assert 0 < error < 8 * 2.0**-11


def test_products_become_narrow_and_sensitive_operators_do_not() -> None:
    made = _lowered(vit(), "float16")
    assert _read_by(made, "MatMul") == {TensorProto.FLOAT16}
    assert _read_by(made, "Conv") == {TensorProto.FLOAT16}
    for name in ("Softmax", "LayerNormalization", "ReduceMean"):
        assert _read_by(made, name) == {TensorProto.FLOAT}, name


def test_normalisations_become_narrow_where_asked() -> None:
    made = _lowered(vit(), "float16", normalisations_in_float32=False)
    assert _read_by(made, "LayerNormalization") == {TensorProto.FLOAT16}
    assert _read_by(made, "Softmax") == {TensorProto.FLOAT}


def test_a_weight_that_float16_does_not_hold_keeps_its_node_wide() -> None:
    """bfloat16 has the range of float32."""
    model = with_weights(
        "g (float[2, 4] x) => (float[2, 4] y) { a = MatMul(x, w) y = Mul(a, s) }",
        {"w": (4, 4)},
        s=np.array(1e6, np.float32),
    )
    assert _read_by(_lowered(model, "float16"), "Mul") == {TensorProto.FLOAT}
    assert _read_by(_lowered(model, "bfloat16"), "Mul") == {TensorProto.BFLOAT16}


def test_weights_are_rounded_once_to_the_nearest() -> None:
    model = model_of(region_of(mlp()))
    made = lowered(model, "bfloat16")
    for name, array in model.weights.items():
        narrow = made.weights[f"{name}_narrow"]
        assert narrow.dtype == ml_dtypes.bfloat16
        np.testing.assert_array_equal(narrow.astype(np.float32), array.astype(ml_dtypes.bfloat16).astype(np.float32))
    assert made.weights.keys() == {f"{name}_narrow" for name in model.weights}


def test_a_value_that_two_nodes_read_is_converted_once() -> None:
    model = with_weights(
        "g (float[2, 4] x) => (float[2, 4] y) { a = MatMul(x, w) b = MatMul(x, v) y = Add(a, b) }",
        {"w": (4, 4), "v": (4, 4)},
    )
    made = _lowered(model, "float16")
    assert [node.op_type for node in made.graph.node] == ["Cast", "MatMul", "MatMul", "Add", "Cast"]


def test_an_output_that_a_node_reads_stays_float32_outside_and_narrow_inside() -> None:
    model = with_weights(
        "g (float[2, 4] x) => (float[2, 4] a, float[2, 4] y) { a = MatMul(x, w) y = MatMul(a, v) }",
        {"w": (4, 4), "v": (4, 4)},
    )
    made = _lowered(model, "float16")
    assert _read_by(made, "MatMul") == {TensorProto.FLOAT16}
    assert [node.op_type for node in made.graph.node] == ["Cast", "MatMul", "Cast", "MatMul", "Cast"]


def test_integers_are_left_alone() -> None:
    text = "g (int64[3] x) => (int64[3] y) { y = Add(x, x) }"
    assert [
        node.op_type
        for node in _lowered(
            onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 21]> {text}'), "float16"
        ).graph.node
    ] == ["Add"]
