"""The work-list: what is looked at again, what rules must keep to, and how it ends."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from core.tests.transforms.support import notes
from ort_py.contracts import GraphEditor, NodeSpec, NodeTemplate, Op, PatternRule, RewriteRule, TransformContext
from ort_py.contracts.pattern_match import Match
from ort_py.errors import LimitError, PluginError
from ort_py.graph.ir import Model
from ort_py.transforms.pipeline import run_transforms
from ort_py.transforms.report import OptimisationReport
from ort_py_kit.graphs import ReferenceContext, typed_model

Act = Callable[[NodeSpec, GraphEditor], "bool | str"]


class Rule(RewriteRule):
    """Does what a function says."""

    name = ""

    def __init__(self, name: str, op_types: set[str] | None, act: Act) -> None:
        self.name, self._op_types, self._act = name, op_types, act

    @property
    def op_types(self) -> frozenset[str] | None:
        return None if self._op_types is None else frozenset(self._op_types)

    def rewrite(self, node: NodeSpec, graph: GraphEditor, context: TransformContext) -> bool | str:
        return self._act(node, graph)


def become(op_type: str) -> Act:
    """An act that gives a node another operator."""

    def act(node: NodeSpec, graph: GraphEditor) -> bool | str:
        inputs = tuple([value.name for value in node.inputs if value is not None])
        outputs = tuple([value.name for value in node.outputs if value is not None])
        graph.replace_nodes([node], [NodeTemplate(op_type, inputs, outputs)])
        return True

    return act


def run(text: str, *rules: RewriteRule) -> tuple[Model, OptimisationReport]:
    """Run rules over a model with all checks."""
    model = typed_model(text)
    return model, run_transforms(model, rules, 1, ReferenceContext(), check=True)


CHAIN = "g (float[2] x) => (float[2] y) { a = Neg(x) b = Relu(a) y = Abs(b) }"


def test_nodes_go_in_order() -> None:
    """Producers before readers; a rule for all operators sees each node once where nothing changes."""
    seen: list[str] = []

    def look(node: NodeSpec, graph: GraphEditor) -> bool:
        seen.append(node.op_type)
        return False

    run(CHAIN, Rule("Look", None, look))
    assert seen == ["Neg", "Relu", "Abs"]


def test_new_nodes_are_looked_at() -> None:
    """Rules that feed each other end in one sweep; the second one only says that nothing is left."""
    model, report = run(CHAIN, Rule("One", {"Neg"}, become("Exp")), Rule("Two", {"Exp"}, become("Sqrt")))
    assert model.graph.nodes[0].op_type == "Sqrt"
    assert report.rounds == 2


def test_what_lost_a_reader_is_looked_at_again() -> None:
    """A value that had two readers has one: its producer and the other reader may match now."""
    seen: list[str] = []

    def drop(node: NodeSpec, graph: GraphEditor) -> bool | str:
        seen.append(node.op_type)
        if node.op_type == "Sqrt" and node.inputs[0] is not None:
            return graph.bypass(node, node.inputs[0])
        return False

    run("g (float[2] x) => (float[2] y) { a = Neg(x) b = Relu(a) c = Sqrt(a) y = Add(b, c) }", Rule("Drop", None, drop))
    assert seen[:4] == ["Neg", "Relu", "Sqrt", "Neg"]
    assert sorted(seen[4:6]) == ["Add", "Relu"]


def test_nested_graphs_are_visited() -> None:
    """A graph's nodes come after those of the graph around it."""
    model, report = run(
        """g (float[2] x, bool c) => (float[2] y) {
            y = If(c) <then_branch = t () => (float[2] p) { p = Neg(x) },
                       else_branch = e () => (float[2] q) { q = Abs(x) }>
        }""",
        Rule("One", {"Neg"}, become("Exp")),
    )
    (node,) = model.graph.nodes
    assert [graph.nodes[0].op_type for graph in node.subgraphs] == ["Exp", "Abs"]
    assert str(report.passes[0].rewrites[0]) == "p -> One/p"


def test_rules_that_undo_each_other_end() -> None:
    """A node remembers how often it was rewritten, and by whom; the report names it."""
    _, report = run(CHAIN, Rule("There", {"Neg"}, become("Exp")), Rule("Back", {"Exp"}, become("Neg")))
    (line,) = report.exhausted
    assert "after 64 rewrites by There, Back" in line
    assert "given up: " in str(report)


def test_rules_that_grow_the_model_end() -> None:
    """Two nodes for one, forever: the number of rewrites is bounded by the size of the model."""

    def split(node: NodeSpec, graph: GraphEditor) -> bool:
        source, result = node.inputs[0], node.outputs[0]
        assert source is not None
        assert result is not None
        middle = graph.free_name(f"{result.name}+")
        templates = [NodeTemplate("Neg", (source.name,), (middle,)), NodeTemplate("Neg", (middle,), (result.name,))]
        graph.replace_nodes([node], templates)
        return True

    model = typed_model(CHAIN)
    report = run_transforms(model, [Rule("Split", {"Neg"}, split)], 1, ReferenceContext())
    assert report.passes[0].changes == 20 * 3 + 1000
    assert "rewritten too often" in str(report)


def test_reasons_are_those_that_hold_in_the_end() -> None:
    """A near match that was rewritten later is not reported."""
    waiting = ["not yet"]

    def act(node: NodeSpec, graph: GraphEditor) -> bool | str:
        if node.op_type == "Abs":
            return "never"
        if waiting:
            return waiting.pop()
        return become("Exp")(node, graph)

    model, report = run(CHAIN, Rule("Late", {"Relu", "Abs"}, act), Rule("Other", {"Neg"}, become("Sqrt")))
    assert [node.op_type for node in model.graph.nodes] == ["Sqrt", "Exp", "Abs"]
    assert notes(report) == "y: never"
    assert report.passes[0].refused == 1


@pytest.mark.parametrize(
    ("act", "text"),
    [
        (lambda node, graph: None, r"rewrite\(\) returned NoneType, not a bool or a str"),
        (lambda node, graph: True, "it did not change the graph and returned True"),
        (lambda node, graph: bool(graph.add_constant("c", [1.0])) and "why", "it changed the graph and returned 'why'"),
        (lambda node, graph: graph.nodes[7], "IndexError"),
        (become("Shape"), "would become"),
    ],
)
def test_rules_that_break_their_word_are_named(act: Act, text: str) -> None:
    """With the node at which they did."""
    with pytest.raises(PluginError, match=text) as caught:
        run(CHAIN, Rule("Broken", {"Relu"}, act))
    assert "The graph transform 'Broken' failed." in str(caught.value)
    assert "at node 'b'" in str(caught.value)


def test_limits_pass_through() -> None:
    """A rule that meets the session's limits did not break."""

    def fail(node: NodeSpec, graph: GraphEditor) -> bool:
        raise LimitError("too much")

    with pytest.raises(LimitError, match="too much"):
        run(CHAIN, Rule("Big", {"Relu"}, fail))


class Swap(PatternRule):
    """Abs of Relu becomes Max with itself, or what the test wants."""

    name = "Swap"
    patterns = (Op("Abs", Op("Relu", "x")), Op("Abs", Op("Neg", "x")))

    def __init__(self, refuse: str = "", *, function: bool = False, answer: str = "") -> None:
        self._refuse, self._function, self._answer = refuse, function, answer

    @property
    def carries_function(self) -> bool:
        return self._function

    def check(self, match: Match) -> str:
        return self._refuse

    def replacement(self, match: Match, context: TransformContext) -> NodeTemplate | list[NodeTemplate] | str:
        if self._answer:
            return self._answer
        if self._function:
            return NodeTemplate("Swapped", (match.name("x"),), (match.result,), domain="org.example")
        return [NodeTemplate("Max", (match.name("x"), match.name("x")), (match.result,))]


def test_a_pattern_rule_replaces_its_nodes() -> None:
    """Any of its patterns, at the operators their last nodes have."""
    assert Swap().op_types == frozenset({"Abs"})
    for text in (CHAIN, CHAIN.replace("Relu", "Neg")):
        model, _ = run(text, Swap())
        assert [node.op_type for node in model.graph.nodes] == ["Neg", "Max"]


def test_a_pattern_rule_may_leave_its_nodes_as_a_function() -> None:
    """A node of an operator that no other provider has carries the nodes it replaced."""
    model, report = run(CHAIN, Swap(function=True))
    node = model.graph.nodes[-1]
    assert (node.op_type, node.domain, node.sources) == ("Swapped", "org.example", ("b", "y"))
    assert node.body is not None
    assert [inner.op_type for inner in node.body.nodes] == ["Relu", "Abs"]
    assert (report.nodes_before, report.nodes_after) == (3, 2)


@pytest.mark.parametrize("rule", [Swap(refuse="not today"), Swap(answer="not today")])
def test_a_pattern_rule_gives_reasons(rule: Swap) -> None:
    """From its check, and from where the replacement is made."""
    model, report = run(CHAIN, rule)
    assert notes(report) == "y: not today"
    assert len(model.graph.nodes) == 3


def test_a_pattern_rule_says_what_nearly_matched() -> None:
    """From the pattern, without a word of the author's."""
    _, report = run(CHAIN.replace("(float[2] y)", "(float[2] y, float[2] b)"), Swap())
    assert notes(report) == "y: the graph returns 'b', which Relu 'b' writes"


def test_a_rule_is_not_asked_in_a_model_that_lacks_its_operators() -> None:
    """A pattern of three operators costs nothing where one of them is missing."""

    class Three(PatternRule):
        name = "Three"
        patterns = (Op("Abs", Op("Relu", Op("Neg", "x"))),)

        def replacement(self, match: Match, context: TransformContext) -> NodeTemplate:
            return NodeTemplate("Exp", (match.name("x"),), (match.result,))

    rule = Three()
    assert rule.concerns("Abs", {"Abs", "Neg", "Relu"})
    assert not rule.concerns("Abs", {"Abs", "Relu"})
    assert not rule.concerns("Relu", {"Abs", "Neg", "Relu"})


def test_an_operator_that_comes_wakes_the_rules_that_need_it() -> None:
    """The anchor was not shown to the rule when it came first, since its operator was the only one there."""

    class Pair(PatternRule):
        name = "Pair"
        patterns = (Op("Abs", Op("Relu", Op("Exp", "x"))),)

        def replacement(self, match: Match, context: TransformContext) -> NodeTemplate:
            return NodeTemplate("Sqrt", (match.name("x"),), (match.result,))

    model, _ = run(CHAIN, Pair(), Rule("One", {"Neg"}, become("Exp")))
    assert [node.op_type for node in model.graph.nodes] == ["Sqrt"]
