"""Surgery: consistent after each call, outputs keep name and meaning."""

from __future__ import annotations

import time

import numpy as np
import pytest
from onnx import TensorProto, helper

from ort_py.contracts import NodeSpec, NodeTemplate
from ort_py.dtypes import DataType, TensorType
from ort_py.errors import EngineError, InvalidGraph
from ort_py.graph.checking.verify import verify
from ort_py.graph.editing.edit import Editor
from ort_py.graph.reading.loader import load_model
from ort_py.graph.typing.shapes import infer_types
from ort_py_kit.graphs import model_from_text, reference_run, typed_model

X = np.arange(6, dtype=np.float32).reshape(2, 3) - 2
CHAIN = "g (float[2, 3] x) => (float[2, 3] y) { a = Neg(x) b = Relu(a) y = Abs(b) }"
BRANCHES = """g (float[2, 3] x, bool c) => (float[2, 3] y) {
    a = Neg(x)
    y = If(c) <then_branch = t () => (float[2, 3] p) { p = Relu(a) },
               else_branch = e () => (float[2, 3] q) { k = Exp(a) q = Abs(k) }>
}"""


def editor(text: str) -> Editor:
    """An editor of the model's main graph."""
    return Editor(typed_model(text).graph)


def at(edited: Editor, *positions: int) -> list[NodeSpec]:
    """Records of the nodes at these positions."""
    return [edited.nodes[position] for position in positions]


def run(edited: Editor, **feeds: object) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    """Check the invariants and compute the first output."""
    verify(edited.graph)
    result: np.ndarray[tuple[int, ...], np.dtype[np.float32]] = reference_run(edited.graph.model, {"x": X, **feeds})[0]
    return result


def operators(edited: Editor) -> list[str]:
    """Operators in order."""
    return [node.op_type for node in edited.graph.nodes]


def test_nodes_are_replaced_in_place() -> None:
    """A new node takes over the output of an old one, with name, version, types and origin of its own."""
    edited = editor(CHAIN)
    edited.state.origin = "Rule"
    edited.replace_nodes(
        at(edited, 0, 1), [NodeTemplate("Max", ("x", "x"), ("m",)), NodeTemplate("Elu", ("m",), ("b",), {"alpha": 2.0})]
    )
    assert operators(edited) == ["Max", "Elu", "Abs"]
    elu = edited.graph.nodes[1]
    assert (elu.origin, elu.name, elu.since_version) == ("Rule", "Rule/b", 6)
    assert elu.type_bindings == {"T": "tensor(float)"}
    assert edited.view.nodes[0].outputs[0] is not None
    assert edited.view.nodes[0].outputs[0].shape == (2, 3)
    np.testing.assert_allclose(run(edited), np.abs(np.where(X > 0, X, 2 * (np.exp(X) - 1))), rtol=1e-6)


def test_an_output_of_a_kept_node_can_be_taken_over() -> None:
    """The old writer goes on writing, under another name."""
    edited = editor(CHAIN)
    edited.replace_nodes([], [NodeTemplate("Exp", ("x",), ("b",))])
    np.testing.assert_allclose(run(edited), np.exp(X), rtol=1e-6)
    assert edited.remove_unused() == 2
    assert operators(edited) == ["Exp", "Abs"]


def test_new_nodes_stand_where_order_allows() -> None:
    """A replacement that reads late values goes behind them, before its readers."""
    edited = editor("g (float[2, 3] x) => (float[2, 3] y) { a = Neg(x) b = Exp(x) c = Abs(b) y = Add(a, c) }")
    edited.replace_nodes(at(edited, 0), [NodeTemplate("Mul", ("b", "c"), ("a",))])
    assert operators(edited) == ["Exp", "Abs", "Mul", "Add"]
    np.testing.assert_allclose(run(edited), np.exp(X) ** 2 + np.exp(X), rtol=1e-6)


def test_order_is_restored_where_no_place_will_do() -> None:
    """A pair replaced by one node, with readers of the first before what the second reads."""
    edited = editor(
        "g (float[2, 3] x) => (float[2, 3] y) { a = Neg(x) r = Relu(a) b = Exp(x) c = Abs(b) y = Add(r, c) }"
    )
    edited.replace_nodes(
        at(edited, 0, 3), [NodeTemplate("Mul", ("b", "x"), ("a",)), NodeTemplate("Neg", ("a",), ("c",))]
    )
    np.testing.assert_allclose(run(edited), np.maximum(np.exp(X) * X, 0) - np.exp(X) * X, rtol=1e-6)


def test_templates_may_be_out_of_order() -> None:
    """A template may only read values that exist already."""
    edited = editor(CHAIN)
    with pytest.raises(InvalidGraph, match="reads 'later', which does not exist"):
        edited.replace_nodes(
            at(edited, 1), [NodeTemplate("Abs", ("later",), ("b",)), NodeTemplate("Neg", ("a",), ("later",))]
        )


def test_optional_inputs_and_outputs() -> None:
    """Empty names are absent values; trailing absent inputs are cut."""
    edited = editor("g (float[2, 3] x) => (float[2, 3] y) { y = Relu(x) }")
    low = edited.add_constant("low", np.float32(0))
    edited.replace_nodes(at(edited, 0), [NodeTemplate("Clip", ("x", low, ""), ("y",))])
    assert len(edited.graph.nodes[0].inputs) == 2
    np.testing.assert_array_equal(run(edited), np.maximum(X, 0))


def test_attributes_become_plain() -> None:
    """NumPy scalars, booleans, lists and arrays are kept in the graph's form."""
    edited = editor("g (float[2, 3] x) => (float[2, 3] y) { y = Relu(x) }")
    array = np.zeros(1, np.float32)
    edited.replace_nodes(
        at(edited, 0),
        [
            NodeTemplate("ReduceSum", ("x",), ("n",), {"keepdims": True, "noop_with_empty_axes": np.int64(1)}),
            NodeTemplate("Transpose", ("n",), ("t",), {"perm": [1, 0]}),
            NodeTemplate("Transpose", ("t",), ("y",), {"perm": np.array([1, 0]).tolist()}),
        ],
    )
    assert edited.graph.nodes[0].attributes == {"keepdims": 1, "noop_with_empty_axes": 1}
    assert edited.graph.nodes[1].attributes == {"perm": (1, 0)}
    shape = edited.add_constant("s", np.array([2], np.int64))
    edited.replace_nodes([], [NodeTemplate("ConstantOfShape", (shape,), ("z",), {"value": array})])
    kept = edited.graph.nodes[-1].attributes["value"]
    assert array.flags.writeable
    assert not kept.flags.writeable
    np.testing.assert_array_equal(run(edited), X)


@pytest.mark.parametrize(
    ("nodes", "templates", "text"),
    [
        ([1], [], "Value 'b' would have no producer"),
        ([2], [], "the graph returns it"),
        ([0], [NodeTemplate("Abs", ("a",), ("n",))], "Value 'a' would have no producer"),
        ([0, 1], [NodeTemplate("Abs", ("a",), ("b",))], "removed by the same call"),
        (
            [1],
            [NodeTemplate("Abs", ("a",), ("b",)), NodeTemplate("Abs", ("a",), ("b",))],
            "Two of the new nodes write 'b'",
        ),
        ([], [NodeTemplate("Abs", ("a",), ("x",))], "an input or a constant of the graph"),
        ([0], [NodeTemplate("Abs", ("b",), ("a",))], "form a cycle"),
        ([1], [NodeTemplate("Nothing", ("a",), ("b",))], "Operator Nothing is not defined"),
        ([1], [NodeTemplate("Shape", ("a",), ("b",))], r"is tensor\(float\) and would become tensor\(int64\)"),
        ([1], [NodeTemplate("Transpose", ("a",), ("b",))], "must compute the same shape|would get"),
        ([1], [NodeTemplate("MatMul", ("a", "a"), ("b",))], "contradict its operator"),
    ],
)
def test_impossible_replacements_are_refused(nodes: list[int], templates: list[NodeTemplate], text: str) -> None:
    """Nothing without a producer, no cycle, no unknown operator, no other type."""
    edited = editor(CHAIN)
    removed = at(edited, *nodes)
    with pytest.raises(InvalidGraph, match=text):
        edited.replace_nodes(removed, templates)


def test_nodes_that_are_gone_are_refused() -> None:
    """A record of a node stays good until the node goes; a name that never was is refused too."""
    edited = editor(CHAIN)
    first, second, _ = edited.nodes
    edited.replace_nodes([first], [NodeTemplate("Exp", ("x",), ("a",))])
    edited.replace_nodes([second], [NodeTemplate("Abs", ("a",), ("b",))])
    assert edited.node(first) is None
    with pytest.raises(InvalidGraph, match="it was removed earlier"):
        edited.replace_nodes([first], [])
    with pytest.raises(InvalidGraph, match="has no node 'nothing'"):
        edited.replace_nodes(["nothing"], [])


def test_views_expire() -> None:
    """An old view says that it is old, instead of giving other nodes than it did."""
    edited = editor(CHAIN)
    view = edited.view
    assert edited.view is view
    edited.add_constant("c", np.float32(1))
    assert edited.view is not view
    with pytest.raises(EngineError, match="changed after this view was taken"):
        view.nodes[0]
    assert [node.op_type for node in edited.view.nodes[1:]] == ["Relu", "Abs"]
    assert edited.view.nodes[-1].index == 2


def test_records_follow_changes() -> None:
    """Names and types in later views are those after the change."""
    edited = editor("g (float[2, 3] x) => (float[2, 3] y) { a = Neg(x) y = Identity(a) }")
    assert edited.view.nodes[0].outputs[0] is not None
    edited.replace_uses("y", "a")
    edited.replace_nodes(at(edited, 1), ())
    first = edited.view.nodes[0].outputs[0]
    assert first is not None
    assert first.name == "y"
    assert edited.view.producer("y") == 0
    assert edited.view.producer("a") is None
    np.testing.assert_array_equal(run(edited), -X)


def test_uses_move() -> None:
    """Readers in nested graphs move too, and order is restored where the new value comes later."""
    edited = editor(
        """g (float[2, 3] x, bool c) => (float[2, 3] y, float[2, 3] z) {
            a = Neg(x)
            y = If(c) <then_branch = t () => (float[2, 3] p) { p = Relu(a) },
                       else_branch = e () => (float[2, 3] q) { q = Abs(a) }>
            z = Exp(x)
        }"""
    )
    edited.replace_uses("a", "z")
    assert edited.view.consumers("z") == (2,)
    np.testing.assert_allclose(run(edited, c=np.array(False)), np.exp(X), rtol=1e-6)


@pytest.mark.parametrize(
    ("text", "old", "new", "operators_left"),
    [
        ("g (float[2, 3] x) => (float[2, 3] y) { a = Neg(x) y = Relu(a) }", "y", "a", ["Neg"]),
        ("g (float[2, 3] x) => (float[2, 3] y) { y = Relu(x) }", "y", "x", ["Identity"]),
        ("g (float[2, 3] x) => (float[2, 3] y) { y = Identity(x) }", "y", "x", ["Identity"]),
        (
            "g (float[2, 3] x) => (float[2, 3] y, float[2, 3] z) { z = Neg(x) y = Relu(z) }",
            "y",
            "z",
            ["Neg", "Identity"],
        ),
        ("g (float[2, 3] x) => (float[2, 3] y, float[2, 3] y) { a = Neg(x) y = Relu(a) }", "y", "a", ["Neg"]),
    ],
)
def test_outputs_keep_their_name(text: str, old: str, new: str, operators_left: list[str]) -> None:
    """A rename where that is possible, an Identity where an output would be a second name of something else."""
    edited = editor(text)
    names = [value.name for value in edited.graph.outputs]
    edited.replace_uses(old, new)
    edited.remove_unused()
    assert [value.name for value in edited.graph.outputs] == names
    assert operators(edited) == operators_left
    expected = X if new == "x" else -X
    np.testing.assert_array_equal(run(edited), expected)


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ("nothing", "x", "has no value 'nothing'"),
        ("a", "nothing", "has no value 'nothing'"),
        ("a", "y", "form a cycle"),
    ],
)
def test_impossible_moves_are_refused(old: str, new: str, text: str) -> None:
    """Unknown names, and reads that lead back."""
    with pytest.raises(InvalidGraph, match=text):
        editor(CHAIN).replace_uses(old, new)


def test_a_graph_may_go_on_returning_what_its_readers_left() -> None:
    """`returned=False`: only nodes read the other value, and no copy is made to keep a name."""
    edited = editor("g (float[2, 3] x) => (float[2, 3] a, float[2, 3] y) { a = Neg(x) y = Relu(a) }")
    edited.replace_uses("a", "x", returned=False)
    assert operators(edited) == ["Neg", "Relu"]
    assert [value.name for value in edited.graph.outputs] == ["a", "y"]
    np.testing.assert_array_equal(run(edited), -X)


def test_moving_to_another_type_is_refused() -> None:
    """Element types decide what readers do."""
    edited = editor("g (float[2, 3] x, int64[2, 3] i) => (float[2, 3] y) { y = Neg(x) }")
    with pytest.raises(InvalidGraph, match="would become"):
        edited.replace_uses("x", "i")


def test_outer_values_are_moved_by_their_own_editor() -> None:
    """A nested editor cannot change what other graphs read."""
    (then, _) = editor(BRANCHES).subgraphs()
    with pytest.raises(InvalidGraph, match="belongs to a graph around"):
        then.replace_uses("a", "p")


def test_nested_graphs_are_edited() -> None:
    """Templates in a branch may read outer values; outer records show the change."""
    edited = editor(BRANCHES)
    before = edited.view.nodes[1].attributes["then_branch"].nodes[0]
    (then, _) = edited.subgraphs()
    then.replace_nodes(then.nodes[:1], [NodeTemplate("Mul", ("a", "x"), ("p",))])
    after = edited.view.nodes[1].attributes["then_branch"].nodes[0]
    assert (before.op_type, after.op_type, after.path) == ("Relu", "Mul", ("y",))
    assert edited.view.consumers("x") == (0, 1)
    np.testing.assert_array_equal(run(edited, c=np.array(True)), -X * X)


def test_a_node_with_graphs_is_replaced() -> None:
    """Its graphs move to the new node; of one that is used twice, the second is a copy."""
    edited = editor(BRANCHES)
    node = edited.view.nodes[1]
    then, other = node.attributes["then_branch"], node.attributes["else_branch"]
    c = node.inputs[0]
    assert c is not None
    swapped = {"then_branch": other, "else_branch": then}
    both = {"then_branch": other, "else_branch": other}
    edited.replace_nodes(
        at(edited, 1),
        [
            NodeTemplate("If", (c.name,), ("one",), swapped),
            NodeTemplate("If", (c.name,), ("two",), both),
            NodeTemplate("Add", ("one", "two"), ("y",)),
        ],
    )
    assert len(edited.subgraphs()) == 4
    np.testing.assert_allclose(run(edited, c=np.array(True)), 2 * np.exp(-X), rtol=1e-6)
    np.testing.assert_allclose(run(edited, c=np.array(False)), np.maximum(-X, 0) + np.exp(-X), rtol=1e-6)


def test_nested_nesting_is_copied() -> None:
    """A copy of a branch is one down to the last graph in it."""
    edited = editor(
        """g (float[2, 3] x, bool c) => (float[2, 3] y) {
            y = If(c) <then_branch = t () => (float[2, 3] p) <float w = {2}> {
                           k = Mul(x, w)
                           p = If(c) <then_branch = tt () => (float[2, 3] pp) { pp = Relu(k) },
                                      else_branch = te () => (float[2, 3] pe) { pe = Neg(k) }>
                       },
                       else_branch = e () => (float[2, 3] q) { q = Abs(x) }>
        }"""
    )
    node = edited.view.nodes[0]
    edited.replace_nodes(
        [], [NodeTemplate("If", ("c",), ("z",), node.attributes), NodeTemplate("Neg", ("z",), ("zz",))]
    )
    assert len(edited.subgraphs()) == 4
    np.testing.assert_array_equal(run(edited, c=np.array(True)), np.maximum(2 * X, 0))


def test_constants_get_free_names() -> None:
    """A name that is taken anywhere in the model gets a suffix; the content is a copy."""
    edited = editor(BRANCHES)
    array = np.ones(3, np.float32)
    first, second = edited.add_constant("k", array), edited.add_constant("k", array)
    array[:] = 0
    assert len({first, second, "k"}) == 3
    np.testing.assert_array_equal(edited.view.constant(first), [1, 1, 1])
    known = edited.values[first].type
    assert isinstance(known, TensorType)
    assert known.shape == (3,)
    assert edited.remove_unused() == 2


def test_a_branch_stands_for_its_node() -> None:
    """Only a graph without inputs and with all outputs can."""
    edited = editor(
        """g (float[2, 3] x, int64 n, bool c) => (float[2, 3] y) {
            y = Loop(n, c, x) <body = b (int64 i, bool go, float[2, 3] s) => (bool go2, float[2, 3] t) {
                go2 = Identity(go) t = Neg(s)
            }>
        }"""
    )
    with pytest.raises(InvalidGraph, match="cannot replace its node"):
        edited.inline_subgraph("y", "body")


def test_models_without_an_opset_of_onnx_get_one() -> None:
    """An Identity is an operator of ONNX even in a model of other operators only."""
    model = typed_model(
        """<ir_version: 8, opset_import: ["ai.onnx.ml" : 3]>
        g (float[2, 3] x) => (float[2, 3] y) { a = ai.onnx.ml.Binarizer(x) y = ai.onnx.ml.Binarizer(a) }"""
    )
    edited = Editor(model.graph)
    edited.replace_uses("y", "x")
    edited.remove_unused()
    assert model.opset_imports[""] >= 1
    np.testing.assert_array_equal(run(edited), X)


def test_thousands_of_edits_are_quick() -> None:
    """5,000 removals from 20,000 nodes take well under a second of an idle machine."""
    nodes = [helper.make_node("Identity" if i % 4 == 3 else "Neg", [f"x{i}"], [f"x{i + 1}"]) for i in range(20_000)]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x0", TensorProto.FLOAT, [2])],
        [helper.make_tensor_value_info("x20000", TensorProto.FLOAT, [2])],
    )
    model = load_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]))
    infer_types(model)
    edited = Editor(model.graph)
    start = time.process_time()
    for known in edited.nodes:
        node = edited.node(known)
        if node is not None and node.op_type == "Identity" and node.inputs[0] is not None:
            edited.bypass(node, node.inputs[0])
    assert time.process_time() - start < 4  # 0.4 s when the machine does nothing else
    assert len(model.graph.nodes) == 15_000
    verify(model.graph)


def test_random_edits_keep_the_invariants() -> None:
    """After edits in any order, the graph is consistent and computes the same results."""
    random = np.random.default_rng(5)
    lines = ["v0 = Neg(x)"]
    for index in range(1, 40):
        left, right = random.integers(0, index, 2)
        lines.append(f"v{index} = {random.choice(['Add', 'Sub', 'Max'])}(v{left}, v{right})")
    text = f"g (float[2, 3] x) => (float[2, 3] v39, float[2, 3] v20) {{ {' '.join(lines)} }}"
    edited = editor(text)
    expected = reference_run(model_from_text(text), {"x": X})
    for step in range(60):
        node = edited.nodes[int(random.integers(len(edited.graph.nodes)))]
        result = node.outputs[0]
        assert result is not None
        names = tuple(value.name if value is not None else "" for value in node.inputs)
        if step % 3 == 0:
            edited.replace_nodes([node], [NodeTemplate(node.op_type, names, (result.name,), node.attributes)])
        elif step % 3 == 1:
            edited.replace_nodes(
                [node],
                [
                    NodeTemplate(node.op_type, names, (f"t{step}",), node.attributes),
                    NodeTemplate("Identity", (f"t{step}",), (result.name,)),
                ],
            )
        elif node.op_type == "Identity":
            edited.replace_uses(result.name, names[0])
            edited.remove_unused()
        verify(edited.graph)
    for left, right in zip(reference_run(edited.graph.model, {"x": X}), expected, strict=True):
        np.testing.assert_array_equal(left, right)


def test_who_writes_and_who_reads() -> None:
    """Nodes of this graph by value; a node that holds a reading graph counts as a reader, once."""
    edited = editor(BRANCHES)
    (then, _) = edited.subgraphs()
    writer = edited.producer("a")
    assert writer is not None
    assert (writer.op_type, writer.index) == ("Neg", -1)
    assert edited.producer("x") is None
    assert edited.producer(None) is None
    assert then.producer("a") is None
    assert [node.op_type for node in edited.readers("a")] == ["If"]
    assert [node.op_type for node in then.readers("a")] == ["Relu"]
    assert edited.readers("nothing") == ()
    assert (edited.uses("a"), edited.uses("y"), edited.uses("nothing")) == (2, 1, 0)
    assert edited.is_output("y")
    assert not edited.is_output("a")
    found = then.value("a")
    assert found is not None
    assert found.shape == (2, 3)


def test_a_return_of_an_outer_value_is_a_use() -> None:
    """The holder of the graph reads it, though no node inside does; it follows where the value's readers are moved."""
    edited = editor(
        """g (float[2, 3] x, bool c) => (float[2, 3] y) {
            a = Neg(x) b = Abs(x)
            y = If(c) <then_branch = t () => (float[2, 3] a) { }, else_branch = e () => (float[2, 3] q) { q = Relu(b) }>
        }"""
    )
    assert edited.uses("a") == 1
    assert [node.op_type for node in edited.readers("a")] == ["If"]
    edited.replace_uses("a", "b")
    assert (edited.uses("a"), edited.uses("b")) == (0, 2)
    edited.remove_unused()
    np.testing.assert_array_equal(run(edited, c=np.array(True)), np.abs(X))


def test_bypassing() -> None:
    """Readers read the source, and the node goes; an output is not made a second name of an input."""
    edited = editor(CHAIN)
    _, relu, last = edited.nodes
    assert edited.bypass(relu, "a")
    assert operators(edited) == ["Neg", "Abs"]
    assert not edited.bypass(last, "x")
    assert edited.bypass(last, "a")
    assert operators(edited) == ["Neg"]
    np.testing.assert_array_equal(run(edited), -X)


def test_free_names() -> None:
    """A free name was never used before; asking for it changes nothing."""
    edited = editor(CHAIN)
    before = edited.state.changes
    assert edited.free_name("new") == "new"
    assert edited.free_name("a") == edited.free_name("a") == "a_1"
    assert edited.state.changes == before
    edited.bypass(edited.nodes[1], "a")
    assert edited.free_name("b") == "b_1"


def test_constants_are_known_by_content() -> None:
    """Equal content, equal key; a constant of an outer graph is found, and is not listed."""
    edited = editor(BRANCHES)
    names = [edited.add_constant(name, np.full(3, number)) for name, number in (("k", 1), ("l", 1), ("m", 2))]
    keys = [edited.constant_key(name) for name in names]
    assert keys[0] == keys[1] != keys[2]
    (then, _) = edited.subgraphs()
    np.testing.assert_array_equal(then.constant("m"), [2, 2, 2])
    assert [value.name for value in edited.constants()] == names
    assert then.constants() == ()
    assert edited.constant("x") is None
    assert edited.constant(None) is None
    with pytest.raises(InvalidGraph, match="'x' is not a constant"):
        edited.constant_key("x")


def test_types_are_inferred_again() -> None:
    """After an input became known better."""
    edited = editor("g (float[2, 3] x, int64[N] s) => (float[A, B, C] y) { y = Reshape(x, s) }")
    edited.replace_uses("s", edited.add_constant("shape", np.array([3, 2, 1])))
    node = edited.infer(edited.nodes[0])
    assert node.outputs[0] is not None
    assert node.outputs[0].shape == (3, 2, 1)


def test_new_nodes_know_what_they_stand_for() -> None:
    """The model's own nodes, however many rewrites lie between; what came out of a branch knows its name there."""
    edited = editor(CHAIN)
    (first,) = edited.replace_nodes(["a", "b"], [NodeTemplate("Max", ("x", "x"), ("b",))])
    (second,) = edited.replace_nodes([first, "y"], [NodeTemplate("Min", ("x", "x"), ("y",))])
    assert edited.named[second.name] is edited.graph.nodes[0]
    assert edited.graph.nodes[0].sources == ("a", "b", "y")
    branches = editor(BRANCHES)
    branches.inline_subgraph("y", "else_branch")
    assert {node.sources for node in branches.graph.nodes} == {(), ("k",), ("q",)}


def test_order_is_restored_next_to_the_edit_only() -> None:
    """Nodes that are not between the two ends of the new edge stay where they are."""
    lines = [f"v{index} = Neg(x)" for index in range(30)]
    edited = editor(
        "g (float[2, 3] x) => (float[2, 3] y) {"
        f"{' '.join(lines)} a = Abs(x) b = Relu(a) c = Exp(x) d = Neg(c) y = Add(b, d) }}"
    )
    before = edited.graph.nodes[:30]
    edited.replace_uses("a", "d")
    assert edited.graph.nodes[:30] == before
    assert operators(edited)[30:] == ["Abs", "Exp", "Neg", "Relu", "Add"]
    verify(edited.graph)


@pytest.mark.parametrize(
    ("inputs", "reads", "writes"),
    [
        ("float[2, 3] x", ("x", "v"), (2, 2)),
        ("float[2, 3] x, float[2, 3] o", ("o", "w"), (2, 2)),
        ("float[2, 3] x, float[4, 3] o", ("o", "w"), (4, 2)),
        ("float[2, 3] x", ("x", "u"), (2, 5)),
        ("float[N, 3] x", ("x", "v"), ("N", 2)),
        ("float[N, 3] x, float[M, 3] o", ("o", "v"), ("M", 2)),
    ],
    ids=["other numbers", "another input", "another size", "more columns", "a named size", "another name"],
)
def test_a_product_has_the_type_that_its_operands_decide(
    inputs: str, reads: tuple[str, str], writes: tuple[int | str, ...]
) -> None:
    """Whether it stands for one like it or not."""
    text = f"""g ({inputs}) => (float s)
        <float[3, 2] w = {{1, 2, 3, 4, 5, 6}}, float[3, 2] v = {{6, 5, 4, 3, 2, 1}},
         float[3, 5] u = {{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}}>
        {{ p = MatMul (x, w) s = ReduceSum <keepdims = 0> (p) }}"""
    edited = editor(text)
    edited.replace_nodes(
        edited.nodes,
        [NodeTemplate("MatMul", reads, ("made",)), NodeTemplate("ReduceSum", ("made",), ("s",), {"keepdims": 0})],
    )
    verify(edited.graph)
    made = edited.value("made")
    assert made is not None
    assert made.type == TensorType(DataType.FLOAT, writes)
