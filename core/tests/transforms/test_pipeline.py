"""Order, levels, fixed point, errors and the report."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from ort_py.contracts import (
    GraphEditor,
    GraphTransform,
    Level,
    NodeSpec,
    NodeTemplate,
    RewriteRule,
    TransformContext,
    TransformResult,
)
from ort_py.errors import LimitError, PluginError
from ort_py.graph.editing.edit import Editor
from ort_py.transforms.builtin import builtin_transforms
from ort_py.transforms.pipeline import run_transforms
from ort_py_kit.graphs import ReferenceContext, typed_model

TEXT = "g (float[2] x) => (float[2] y) { a = Neg(x) y = Relu(a) }"


class Probe(GraphTransform):
    """Does what a function says."""

    def __init__(self, name: str, act: Callable[[GraphEditor], object], level: Level = Level.BASIC) -> None:
        self._name, self._act, self._level = name, act, level

    @property
    def name(self) -> str:
        return self._name

    @property
    def level(self) -> Level:
        return self._level

    def run(self, graph: GraphEditor, context: TransformContext) -> TransformResult:
        result = self._act(graph)
        return result if isinstance(result, TransformResult) else TransformResult()


class ReluToAbs(RewriteRule):
    """A rule with a template."""

    name = "ReluToAbs"
    op_types = frozenset({"Relu"})

    def rewrite(self, node: NodeSpec, graph: GraphEditor, context: TransformContext) -> bool | str:
        if node.inputs[0] is None or node.outputs[0] is None:
            return False
        graph.replace_nodes([node], [NodeTemplate("Abs", (node.inputs[0].name,), (node.outputs[0].name,))])
        return True


def _note(ran: list[str], name: str, graph: GraphEditor) -> None:
    ran.append(name)


def test_levels_and_names_decide_who_runs() -> None:
    """Levels upwards, the given order inside one; above the level or switched off, not at all."""
    ran: list[str] = []
    levels = {"late": Level.EXTENDED, "first": Level.BASIC, "off": Level.BASIC, "far": Level.LAYOUT}
    probes = [Probe(name, partial(_note, ran, name), level) for name, level in levels.items()]
    run_transforms(typed_model(TEXT), probes, Level.EXTENDED, ReferenceContext(), disabled=["off"])
    assert ran == ["first", "late"]


def test_runs_until_nothing_changes() -> None:
    """A transform runs again after a change of its own or of another, and not when nothing happened since."""
    calls: list[int] = []

    def twice(graph: GraphEditor) -> TransformResult:
        calls.append(len(graph.view.nodes))
        if len(calls) > 2:
            return TransformResult(0, ("settled",))
        graph.add_constant("c", [1.0])
        return TransformResult(1)

    report = run_transforms(typed_model(TEXT), [Probe("twice", twice)], 1, ReferenceContext())
    assert (len(calls), report.rounds, report.settled, report.changes) == (3, 3, True, 2)
    assert report.passes[0].notes == ("settled",)


def test_what_cleans_runs_first_in_each_round_as_well() -> None:
    """The other transforms of a round do not see what the last one left behind."""

    class Cleaning(Probe):
        cleans = True

    order: list[str] = []

    def act(name: str, changes: int, graph: GraphEditor) -> TransformResult:
        order.append(name)
        return TransformResult(changes)

    def rename(graph: GraphEditor) -> TransformResult:
        order.append("rename")
        relu = next((node for node in graph.nodes if node.op_type == "Relu"), None)
        if relu is None or relu.inputs[0] is None or relu.outputs[0] is None:
            return TransformResult()
        graph.replace_nodes([relu], [NodeTemplate("Abs", (relu.inputs[0].name,), (relu.outputs[0].name,))])
        return TransformResult(1)

    transforms = [
        Probe("look", partial(act, "look", 0)),
        Cleaning("clean", partial(act, "clean", 0)),
        Probe("rename", rename),
    ]
    run_transforms(typed_model(TEXT), transforms, 99, ReferenceContext())
    assert order == ["clean", "look", "clean", "rename", "clean", "look", "clean", "rename"]


def test_endless_change_is_bounded() -> None:
    """Two transforms that undo each other stop, and the report says so."""

    def always(graph: GraphEditor) -> TransformResult:
        graph.add_constant("c", [1.0])
        return TransformResult(1)

    report = run_transforms(typed_model(TEXT), [Probe("always", always)], 1, ReferenceContext())
    assert not report.settled
    assert "stopped after 10 rounds" in str(report)


def test_new_nodes_carry_the_name() -> None:
    """A node that a rule makes says which rule made it."""
    model = typed_model(TEXT)
    report = run_transforms(model, [ReluToAbs()], 1, ReferenceContext(), check=True)
    node = model.graph.nodes[-1]
    assert (node.op_type, node.origin, node.name, node.since_version) == ("Abs", "ReluToAbs", "ReluToAbs/y", 13)
    assert "ReluToAbs: 1 changes, 2 -> 2 nodes" in str(report)


def test_rules_without_their_operators_are_passed_over() -> None:
    """A rule none of whose operators occur does not run."""

    class Never(ReluToAbs):
        op_types = frozenset({"Conv"})

        def run(self, graph: GraphEditor, context: TransformContext) -> TransformResult:
            raise AssertionError

    assert run_transforms(typed_model(TEXT), [Never()], 1, ReferenceContext()).changes == 0


def test_an_exception_names_the_transform() -> None:
    """A transform that raises fails the session, by name, with its own exception as cause."""

    def fail(graph: GraphEditor) -> None:
        raise KeyError("lost")

    with pytest.raises(PluginError) as caught:
        run_transforms(typed_model(TEXT), [Probe("Broken", fail)], 1, ReferenceContext())
    assert "The graph transform 'Broken' failed." in str(caught.value)
    assert "KeyError: 'lost'" in str(caught.value)
    assert "disabled_transforms = ['Broken']" in str(caught.value)
    assert isinstance(caught.value.__cause__, KeyError)


def test_limits_pass_through() -> None:
    """A transform that meets the session's limits did not break."""

    def fail(graph: GraphEditor) -> None:
        raise LimitError("too much")

    with pytest.raises(LimitError, match="too much"):
        run_transforms(typed_model(TEXT), [Probe("Big", fail)], 1, ReferenceContext())


def test_a_wrong_result_is_reported() -> None:
    """Forgetting to return a result is an error of the transform."""

    class Forgetful(Probe):
        def run(self, graph: GraphEditor, context: TransformContext) -> TransformResult:
            return None  # type: ignore[return-value]  # the mistake that is tested

    with pytest.raises(PluginError, match="returned NoneType instead of a TransformResult"):
        run_transforms(typed_model(TEXT), [Forgetful("Forgetful", print)], 1, ReferenceContext())


def test_checking_finds_what_a_transform_broke() -> None:
    """With checks on, a graph that was made inconsistent is found at once."""

    def spoil(graph: GraphEditor) -> TransformResult:
        assert isinstance(graph, Editor)
        graph.graph.nodes.reverse()
        return TransformResult(1)

    with pytest.raises(PluginError, match="which is not defined there"):
        run_transforms(typed_model(TEXT), [Probe("Spoiler", spoil)], 1, ReferenceContext(), check=True)


def test_builtin_names_are_unique() -> None:
    """Users switch transforms off by name."""
    names = [transform.name for transform in builtin_transforms()]
    assert len(set(names)) == len(names)
