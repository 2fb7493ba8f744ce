"""Types of single nodes: what is said where an operator, or a plug-in that types one, cannot do it."""

from __future__ import annotations

import pytest

from ort_py.contracts import NodeSpec
from ort_py.dtypes import ValueType
from ort_py.errors import InvalidArgument, PluginError
from ort_py.graph.typing.node_types import contributed_types
from ort_py_kit.graphs import typed_model

NODE = typed_model("g (float[2] x) => (float[2] y) { y = Relu(x) }").graph.nodes[0]


def test_a_plugin_whose_type_function_breaks_is_named_by_its_operator() -> None:
    """Its own exception is the cause; the reader is sent to its author."""

    def infer(node: NodeSpec) -> list[ValueType | None]:
        raise KeyError(node.op_type)

    with pytest.raises(PluginError, match="type inference of a contributed operator raised KeyError") as caught:
        contributed_types(NODE, infer)
    assert caught.value.location.op_type == "Relu"
    assert "author of the plug-in" in caught.value.fix
    assert isinstance(caught.value.__cause__, KeyError)


def test_what_a_type_function_refuses_passes_through() -> None:
    """An error of ort-py's own kind is the plug-in's answer, not its failure."""
    refusal = InvalidArgument("two inputs are needed")

    def infer(_node: NodeSpec) -> list[ValueType | None]:
        raise refusal

    with pytest.raises(InvalidArgument) as caught:
        contributed_types(NODE, infer)
    assert caught.value is refusal
