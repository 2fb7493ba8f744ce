"""Functions that ONNX defines for operators, in the place of nodes."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from ort_py.graph.checking.schema import SchemaRegistry
from ort_py.graph.checking.validate import check_types, validate
from ort_py.graph.ir import Model
from ort_py.graph.reading.loader import load_model
from ort_py.graph.reading.schema_functions import expand_schema_function
from ort_py.graph.typing.shapes import infer_types
from ort_py.graph.writing.serialize import model_to_proto

pytestmark = pytest.mark.quick


def expanded(text: str) -> Model:
    """A model whose nodes are replaced by the functions that ONNX defines for them."""
    proto = onnx.parser.parse_model(text)
    model = load_model(proto)
    infer_types(model)
    for node in list(model.graph.nodes):
        expand_schema_function(node, SchemaRegistry())
    infer_types(model)
    validate(model, SchemaRegistry())
    check_types(model, SchemaRegistry())
    return model


@pytest.mark.parametrize(
    "node",
    [
        "y = Softmax <axis = 0> (x)",
        "y = LogSoftmax (x)",
        "y = Elu (x)",
        "y = LeakyRelu <alpha = 0.3> (x)",
        "y = MeanVarianceNormalization <axes = [1]> (x)",
        "y = ReduceLogSumExp <keepdims = 1> (x)",
        "y = Softplus (x)",
        "s = HardSwish (x)  y = Mish (s)",
    ],
)
def test_operators_are_replaced_by_their_functions(node: str) -> None:
    """Context-free and context-dependent bodies, with attributes set and defaulted, compute the same."""
    text = f'<ir_version: 8, opset_import: ["": 18]> g (float[2,3] x) => (float[A,B] y) {{ {node} }}'
    model = expanded(text)
    x = np.random.default_rng(3).normal(size=(2, 3)).astype(np.float32)
    (expected,) = ReferenceEvaluator(onnx.parser.parse_model(text)).run(None, {"x": x})
    (found,) = ReferenceEvaluator(model_to_proto(model)).run(None, {"x": x})
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=1e-5, atol=1e-6)
    assert "Softmax" not in {node.op_type for node in model.graph.nodes}
    assert all(node.origin for node in model.graph.nodes)


def test_bodies_stand_where_the_operator_stood() -> None:
    """The nodes before and after keep their places, so the graph stays sorted."""
    model = load_model(
        onnx.parser.parse_model(
            '<ir_version: 8, opset_import: ["": 18]> g (float[3] x) => (float[3] y) '
            "{ a = Neg(x)  b = Elu(a)  y = Abs(b) }"
        )
    )
    nodes = model.graph.nodes
    made = expand_schema_function(nodes[1])
    assert made
    assert model.graph.nodes == [nodes[0], *made, nodes[-1]]
    assert (model.graph.nodes[0].op_type, model.graph.nodes[-1].op_type) == ("Neg", "Abs")


def test_operators_without_a_function_stay() -> None:
    """None says that there is nothing to replace them by."""
    model = load_model(
        onnx.parser.parse_model(
            '<ir_version: 9, opset_import: ["": 18]> g (float[2,2] x) => (float[2,2] y) { y = MatMul(x, x) }'
        )
    )
    assert expand_schema_function(model.graph.nodes[0]) is None
    assert len(model.graph.nodes) == 1


def test_functions_that_depend_on_types_wait_for_them() -> None:
    """Without the type of its input a body cannot be chosen."""
    model = load_model(
        onnx.parser.parse_model(
            '<ir_version: 9, opset_import: ["": 18]> g (float[2] x) => (float[2] y) { y = Softmax(x) }'
        )
    )
    model.graph.inputs[0].type = None
    assert expand_schema_function(model.graph.nodes[0]) is None
