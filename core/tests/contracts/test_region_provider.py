"""RegionProvider: groups that no path leaves and enters again, a claim for each, a reason for every other node."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from ort_py.contracts import (
    Capability,
    ClaimKind,
    CompiledRegion,
    FunctionRegion,
    GraphView,
    KernelLookup,
    KernelMatch,
    NodeSpec,
    RegionProvider,
    RegionView,
    convex_groups,
)
from ort_py.graph.view import ModelGraphView
from ort_py_kit.graphs import typed_model


class _NoKernels(KernelLookup):
    def find(self, node: NodeSpec) -> KernelMatch:
        return KernelMatch(None, ("no kernels",))


class Taker(RegionProvider):
    """Takes given operators, in groups of a least size."""

    def __init__(self, operators: Sequence[str], least: int = 1) -> None:
        self._operators = operators
        self._least = least

    @property
    def name(self) -> str:
        return "TakerExecutionProvider"

    def refusal(self, node: NodeSpec, graph: GraphView) -> str | None:
        return None if node.op_type in self._operators else f"no {node.op_type} here"

    def group_refusal(self, nodes: Sequence[NodeSpec], graph: GraphView) -> str | None:
        return None if len(nodes) >= self._least else f"a group of {len(nodes)} is too small"

    def compile(self, region: RegionView) -> CompiledRegion:
        return FunctionRegion(lambda *inputs: [np.zeros(1, np.float32)])


def view(text: str) -> ModelGraphView:
    """A graph of float vectors ``x`` to ``y``."""
    return ModelGraphView(typed_model(f"g (float[4] x) => (float[4] y) {{ {text} }}").graph)


def groups(text: str, *operators: str) -> list[list[str]]:
    """The groups of some operators, by the nodes' first outputs."""
    graph = view(text)
    able = [node.index for node in graph.nodes if node.op_type in operators]
    return [
        [str(value.name) for i in group if (value := graph.nodes[i].outputs[0])] for group in convex_groups(graph, able)
    ]


def asked(text: str, provider: RegionProvider) -> Capability:
    """The provider's answer for a graph."""
    return provider.get_capability(view(text), _NoKernels())


def test_a_chain_is_one_group() -> None:
    assert groups("a = Relu(x)\n b = Tanh(a)\n y = Relu(b)", "Relu", "Tanh") == [["a", "b", "y"]]


def test_a_path_that_leaves_and_comes_back_cuts() -> None:
    """The value that comes back from outside opens another group, also where a path inside joins both ends."""
    assert groups("a = Relu(x)\n b = Exp(a)\n y = Add(a, b)", "Relu", "Add") == [["a"], ["y"]]


def test_what_lies_beside_a_foreign_node_stays_together() -> None:
    """A foreign node whose value comes in, and to which none goes, does not cut."""
    assert groups("a = Relu(x)\n b = Exp(x)\n c = Tanh(a)\n y = Add(c, b)", "Relu", "Tanh", "Add") == [["a", "c", "y"]]


def test_unconnected_nodes_are_groups_of_their_own() -> None:
    assert groups("a = Relu(x)\n b = Tanh(x)\n c = Exp(a)\n d = Exp(b)\n y = Add(c, d)", "Relu", "Tanh") == [
        ["a"],
        ["b"],
    ]


def test_readers_of_one_value_may_be_joined() -> None:
    """A provider can ask for that; constants do not join."""
    graph = view("a = Relu(x)\n b = Tanh(x)\n c = Exp(a)\n d = Relu(c)\n y = Add(b, d)")
    able = [node.index for node in graph.nodes if node.op_type in {"Relu", "Tanh"}]
    assert convex_groups(graph, able, joins_readers=True) == [(0, 1), (3,)]
    text = "k = Constant<value = float[4] {1, 2, 3, 4}>()\n a = Mul(x, k)\n b = Exp(x)\n c = Mul(b, k)\n y = Exp(c)"
    graph = view(text)
    able = [node.index for node in graph.nodes if node.op_type == "Mul"]
    assert len(convex_groups(graph, able, joins_readers=True)) == 2


def test_what_is_made_of_constants_goes_with_its_reader() -> None:
    """It depends on nothing, so it is as late as the group that reads it."""
    text = "k = Constant<value = float[4] {1, 2, 3, 4}>()\n c = Neg(k)\n a = Relu(x)\n b = Exp(a)\n y = Add(b, c)"
    assert groups(text, "Neg", "Relu", "Add") == [["c", "y"], ["a"]]


def test_no_node_is_no_group() -> None:
    assert groups("y = Exp(x)", "Relu") == []


def test_each_group_is_a_claim_to_compile() -> None:
    answer = asked("a = Relu(x)\n b = Tanh(a)\n c = Exp(b)\n y = Relu(c)", Taker(("Relu", "Tanh")))
    assert [(claim.nodes, claim.kind) for claim in answer.claims] == [
        ((0, 1), ClaimKind.COMPILE),
        ((3,), ClaimKind.COMPILE),
    ]
    assert all(claim.reason for claim in answer.claims)


def test_refusals_have_the_nodes_reason() -> None:
    answer = asked("a = Relu(x)\n y = Exp(a)", Taker(("Relu",)))
    assert [(refusal.node, refusal.reason) for refusal in answer.refusals] == [(1, "no Exp here")]


def test_a_group_that_does_not_pay_is_refused_whole() -> None:
    """Each of its nodes with the group's reason."""
    answer = asked("a = Relu(x)\n b = Tanh(a)\n c = Exp(b)\n y = Relu(c)", Taker(("Relu", "Tanh"), least=2))
    assert [claim.nodes for claim in answer.claims] == [(0, 1)]
    assert {refusal.node: refusal.reason for refusal in answer.refusals} == {
        2: "no Exp here",
        3: "a group of 1 is too small",
    }


@pytest.mark.parametrize("seed", range(20))
def test_groups_are_convex_in_random_graphs(seed: int) -> None:
    """No path from a group to itself leads over a node outside it."""
    generator = np.random.default_rng(seed)
    names, lines = ["x"], []
    for index in range(25):
        op_type = str(generator.choice(["Add", "Mul"]))
        left, right = (names[int(generator.integers(max(0, len(names) - 6), len(names)))] for _ in range(2))
        names.append(f"v{index}")
        lines.append(f"{names[-1]} = {op_type}({left}, {right})")
    graph = view("\n ".join([*lines, f"y = Identity({names[-1]})"]))
    for group in convex_groups(graph, [node.index for node in graph.nodes if node.op_type == "Add"]):
        behind: set[int] = set()
        for node in graph.nodes:
            before = {graph.producer(value.name) for value in node.inputs if value is not None}
            if node.index not in group and before & (set(group) | behind):
                behind.add(node.index)
            assert not (node.index in group and before & behind)


def test_groups_are_found_without_reading_constants(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether a value is constant is asked, not what it is: weights stay in their file."""
    text = "g (float[4] x) => (float[4] y) <float[4] w = {1, 2, 3, 4}> { a = Neg (w) b = Mul (x, w) y = Add (a, b) }"
    graph = ModelGraphView(typed_model(text).graph)
    monkeypatch.setattr(ModelGraphView, "constant", lambda *_: pytest.fail("an array was asked for"))
    assert convex_groups(graph, [0, 1, 2], joins_readers=True) == [(0, 1, 2)]
