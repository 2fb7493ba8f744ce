"""Einsum equations that are none must not reach shape inference, which hangs on some."""

from __future__ import annotations

import onnx
import pytest
from onnx import TensorProto, helper

from ort_py.errors import InvalidGraph
from ort_py.graph.checking.schema import SchemaRegistry
from ort_py.graph.checking.validate import validate
from ort_py.graph.reading.loader import load_model

pytestmark = pytest.mark.quick


def einsum(equation: str | bytes) -> onnx.ModelProto:
    """A model of one Einsum."""
    node = helper.make_node("Einsum", ["x"], ["y"], equation=equation)
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 5, 5])], [])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("equation", ["ijk", "ij,jk->ik", " ... ii -> ... i", "...,->", "bIJ,bJ", "i...j->j...i"])
def test_equations_pass(equation: str) -> None:
    """Letters, one ellipsis a term, blanks anywhere, implicit output."""
    validate(load_model(einsum(equation)), SchemaRegistry())


@pytest.mark.parametrize(
    "equation", ["ijk$", "....ij->ij", "iij-", "iij>", "i.j->i", "......", "1ij->ij", "ij->ij->i", "éé->é", b"\xff"]
)
def test_anything_else_is_told(equation: str | bytes) -> None:
    """The text shows the equation and what one looks like."""
    with pytest.raises(InvalidGraph, match=r"its equation .* is malformed: terms of letters"):
        validate(load_model(einsum(equation)), SchemaRegistry())
