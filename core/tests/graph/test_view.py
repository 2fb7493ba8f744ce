"""A plug-in's view of a graph."""

from __future__ import annotations

import numpy as np
import pytest

from ort_py.contracts import GraphView
from ort_py.dtypes import DataType, TensorType
from ort_py.errors import InvalidArgument
from ort_py.graph.view import ModelGraphView, node_spec
from ort_py_kit.graphs import typed_model

TEXT = """g (float[N, 3] x, bool c, float d) => (float[N, 3] y) <float[3] w = {1, 2, 3}, float d = {1}> {
    a = Mul(x, w)
    b = Clip(a, , d)
    y = If(c) <then_branch = t () => (float[N, 3] p) <float[3] v = {4, 5, 6}> { k = Add(a, v) p = Mul(k, w) },
               else_branch = e () => (float[N, 3] q) { q = Neg(b) }>
}"""


@pytest.fixture
def view() -> ModelGraphView:
    """A view of the model above."""
    return ModelGraphView(typed_model(TEXT).graph)


def test_nodes(view: ModelGraphView) -> None:
    """Records are complete: index, versions, types, absent inputs."""
    assert [node.index for node in view.nodes] == [0, 1, 2]
    clip = view.nodes[1]
    assert (clip.op_type, clip.since_version, clip.opset_version, clip.name) == ("Clip", 13, 21, "b")
    assert [value.name if value else None for value in clip.inputs] == ["a", None, "d"]
    assert clip.type_bindings == {"T": "tensor(float)"}
    assert view.nodes[0].outputs[0] is clip.inputs[0]
    assert clip.inputs[0] is not None
    assert clip.inputs[0].type == TensorType(DataType.FLOAT, ("N", 3))


def test_inputs_outputs_and_constants(view: ModelGraphView) -> None:
    """Overridable initializers come last among the inputs and are not constants."""
    assert [value.name for value in view.inputs] == ["x", "c", "d"]
    assert [value.name for value in view.outputs] == ["y"]
    np.testing.assert_array_equal(view.constant("w"), [1, 2, 3])
    assert view.constant("d") is None
    assert view.constant("x") is None
    assert view.constant("nothing") is None


def test_producers_and_consumers(view: ModelGraphView) -> None:
    """Readers inside nested graphs count as the node that holds them."""
    assert view.producer("a") == 0
    assert view.producer("x") is None
    assert view.consumers("a") == (1, 2)
    assert view.consumers("w") == (0, 2)
    assert view.consumers("y") == ()
    assert view.consumers("nothing") == ()


def test_nested_views(view: ModelGraphView) -> None:
    """An attribute that is a graph is a view; outer values are seen from inside, but have no producer there."""
    branch = view.nodes[2].attributes["then_branch"]
    assert isinstance(branch, GraphView)
    assert [node.path for node in branch.nodes] == [("y",), ("y",)]
    assert branch.producer("a") is None
    assert branch.consumers("a") == (0,)
    assert branch.consumers("w") == (1,)
    np.testing.assert_array_equal(branch.constant("w"), [1, 2, 3])
    np.testing.assert_array_equal(branch.constant("v"), [4, 5, 6])
    assert branch.nodes[1].location.path == ("y",)


def test_regions(view: ModelGraphView) -> None:
    """A region has its own numbers for its nodes, and has its border as inputs, outputs and initializers."""
    region = view.region([2, 0])
    assert [node.op_type for node in region.nodes] == ["Mul", "If"]
    assert [node.index for node in region.nodes] == [0, 1]
    assert [value.name for value in region.inputs] == ["x", "c", "b"]
    assert [value.name for value in region.outputs] == ["a", "y"]
    assert [value.name for value in region.initializers] == ["w"]
    assert region.consumers("a") == (1,)
    assert region.producer("b") is None
    assert [node.op_type for node in region.region([1]).nodes] == ["If"]


@pytest.mark.parametrize(("index", "text"), [(3, "has no node 3"), (-1, "has no node -1")])
def test_regions_of_other_nodes_are_refused(view: ModelGraphView, index: int, text: str) -> None:
    """Indices are those of the view."""
    with pytest.raises(InvalidArgument, match=text):
        view.region([index])


def test_returned_captures_are_reads() -> None:
    """A branch that returns an outer value reads it, though no node does."""
    model = typed_model(TEXT)
    branch = model.graph.nodes[2].attributes["else_branch"]
    b = model.graph.nodes[1].outputs[0]
    (neg,) = branch.nodes
    from ort_py.graph.ir import disconnect

    disconnect(neg)
    branch.nodes.clear()
    branch.outputs = [b]
    view = ModelGraphView(model.graph)
    assert view.consumers("b") == (2,)
    assert [value.name for value in view.region([1]).outputs] == ["b"]


def test_single_records() -> None:
    """A node's record can be had without a view, as plans do."""
    model = typed_model(TEXT)
    assert node_spec(model.graph.nodes[1]) == ModelGraphView(model.graph).region([1]).nodes[0]
    assert node_spec(model.graph.nodes[1], 5).index == 5
