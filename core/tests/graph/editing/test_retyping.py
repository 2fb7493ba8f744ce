"""Types carried on behind an edit, to whatever reads what is known better now."""

from __future__ import annotations

from ort_py.contracts import FunctionBody, NodeTemplate
from ort_py.dtypes import Shape, TensorType
from ort_py.graph.checking.verify import verify
from ort_py.graph.editing.edit import Editor
from ort_py.graph.editing.retyping import retype_readers
from ort_py_kit.graphs import typed_model

_UNKNOWN = "t = Reshape(x, s)"
"""A value of rank 2 whose sizes nothing tells before it is replaced."""


def _editor(rest: str, result: str) -> Editor:
    """An editor of a graph whose value ``t`` has just been found to be of shape N × 3."""
    model = typed_model(f"g (float[N, 3] x, int64[2] s) => ({result} y) {{ {_UNKNOWN} {rest} }}")
    editor = Editor(model.graph)
    assert _shape(editor, "t") != ("N", 3)
    editor.replace_nodes([editor.nodes[0]], [NodeTemplate("Relu", ("x",), ("t",))])
    return editor


def _shape(editor: Editor, name: str) -> Shape | None:
    value = editor.value(name)
    assert value is not None
    assert isinstance(value.type, TensorType)
    return value.type.shape


def test_readers_and_their_readers_are_typed() -> None:
    """A chain behind the edit, into a graph inside a node."""
    rest = """a = Exp(t) b = Neg(a) c = IsNaN(b) n = ReduceMax<keepdims = 0>(b) k = Cast<to = 9>(n)
        y = If(k) <then_branch = p () => (float[P, Q] u) { v = Abs(b) u = Sqrt(v) },
                   else_branch = q () => (float[P, Q] w) { w = Identity(b) }>"""
    editor = _editor(rest, "float[P, Q]")
    assert retype_readers(editor.state) > 2
    assert _shape(editor, "c") == ("N", 3)
    branch = next(node for node in editor.graph.nodes if node.op_type == "If").attributes["then_branch"]
    assert branch.nodes[0].outputs[0].type.shape == ("N", 3)
    verify(editor.graph)


def test_numbers_made_of_shapes_are_followed() -> None:
    """A Reshape to the sizes of a value that is known better now."""
    rest = """z = Shape(t) first = Gather(z, zero) one = Unsqueeze(first, axes) target = Concat<axis = 0>(one, last)
        y = Reshape(t, target)"""
    model = typed_model(
        f"""g (float[N, 3] x, int64[2] s) => (y)
        <int64 zero = {{0}}, int64[1] axes = {{0}}, int64[2] last = {{1, 3}}> {{ {_UNKNOWN} {rest} }}"""
    )
    editor = Editor(model.graph)
    editor.replace_nodes([editor.nodes[0]], [NodeTemplate("Relu", ("x",), ("t",))])
    retype_readers(editor.state)
    assert _shape(editor, "y") == ("N", 1, 3)


def test_fused_nodes_are_typed_through_their_function() -> None:
    """No schema knows the operator; what it stands for tells."""
    editor = _editor("a = Exp(t) y = Neg(a)", "float[P, Q]")
    retyped = Editor(
        typed_model(f"g (float[N, 3] x, int64[2] s) => (float[P, Q] y) {{ {_UNKNOWN} a = Exp(t) y = Neg(a) }}").graph
    )
    body = FunctionBody(("i",), ("o",), (NodeTemplate("Exp", ("i",), ("o",)),))
    node = next(one for one in retyped.nodes if one.op_type == "Exp")
    retyped.replace_nodes([node], [NodeTemplate("Strange", ("t",), ("a",), domain="org.example", body=body)])
    retyped.replace_nodes([retyped.nodes[0]], [NodeTemplate("Relu", ("x",), ("t",))])
    for one in (editor, retyped):
        retype_readers(one.state)
        assert _shape(one, "a") == ("N", 3)


def test_without_an_edit_there_is_nothing_to_do() -> None:
    """Nothing is typed again that was typed already."""
    editor = Editor(typed_model("g (float[N, 3] x) => (y) { a = Exp(x) y = Neg(a) }").graph)
    assert retype_readers(editor.state) == 0
