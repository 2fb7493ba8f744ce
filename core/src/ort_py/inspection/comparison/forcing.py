"""Two engines side by side, the second one fed with what the first one computed (teacher forcing).

Every step of `b` that computes a value which `a` has too is compared and then given `a`'s value, so that no error is
carried on: a difference is made where it is seen. Where transforms left no common value, the steps in between are
judged together by what comes out. `a` runs as far as `b` needs it, so that few values of it are alive at a time.

A value of the model as it was written means the same on both sides. One that a transform made has a name that may be
something else on the other side: it is a common one where the same node computes it from common ones.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ort_py.engine.engine import Engine
from ort_py.graph.ir import Graph, Node, Value, walk
from ort_py.inspection.comparison.deviation import Deviation, ValueSummary
from ort_py.inspection.comparison.measuring import Tolerances, deviation, summary_of
from ort_py.inspection.comparison.report import ComparedNode, ComparisonReport, Difference
from ort_py.inspection.comparison.stepping import Executed, SteppedRun
from ort_py.lazy_dataclass import dataclass


class CommonValues:
    """Both runs, and which values they have in common."""

    def __init__(self, a: SteppedRun, b: SteppedRun, written: Collection[str]) -> None:
        self.a, self.b = a, b
        self._values = {id(side): _computed(side) for side in (a, b)}
        same = _same_values(a.graph, b.graph, written)
        self.names = {name for name in self._values[id(b)] if name in self._values[id(a)] and name in same}
        self._order: dict[int, dict[Node, int]] = {}

    def cone(self, side: SteppedRun, value: str) -> tuple[Node, ...]:
        """The nodes that compute a value from common ones, in order."""
        end = self._values[id(side)][value]
        assert end.producer is not None  # it is computed
        found = {end.producer: None}
        pending = [end.producer]
        while pending:
            for read in pending.pop().reads():
                producer = read.producer
                inner = producer is not None and producer.graph is side.graph and read.name not in self.names
                if producer is not None and inner and producer not in found:
                    found[producer] = None
                    pending.append(producer)
        return tuple(sorted(found, key=self._positions(side.graph).__getitem__))

    def _positions(self, graph: Graph) -> dict[Node, int]:
        if id(graph) not in self._order:
            self._order[id(graph)] = {node: index for index, node in enumerate(graph.nodes)}
        return self._order[id(graph)]


def _computed(side: SteppedRun) -> dict[str, Value]:
    return {value.name: value for planned in side.steps for value in planned.outputs if value is not None}


def _same_values(a: Graph, b: Graph, written: Collection[str]) -> set[str]:
    """Names that mean the same in both graphs."""
    nodes = {node.name: node for node in a.nodes}
    same = set(written) | {value.name for value in a.inputs}
    same |= {name for name, value in b.initializers.items() if _same_constant(value, a.initializers.get(name))}
    for node in b.nodes:
        other = nodes.get(node.name)
        if other is not None and all(read.name in same for read in node.reads()) and _alike(node, other):
            same.update(value.name for value in node.outputs if value is not None)
    return same


def _same_constant(one: Value, other: Value | None) -> bool:
    if other is None or one.weight is None or other.weight is None:
        return False
    return one.weight.key == other.weight.key


def _alike(one: Node, other: Node) -> bool:
    """Return whether two nodes compute the same of values of the same names; those with graphs count as different."""
    if one.subgraphs or other.subgraphs:
        return False
    names = [
        [(side.op_type, side.domain), *(value and value.name for value in (*side.inputs, *side.outputs))]
        for side in (one, other)
    ]
    return (
        names[0] == names[1]
        and one.attributes.keys() == other.attributes.keys()
        and all(_same_attribute(value, other.attributes[name]) for name, value in one.attributes.items())
    )


def _same_attribute(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return bool(np.array_equal(one, other))
    return type(one) is type(other) and bool(one == other)


Progress = Callable[[int, int], object]
"""Called with the number of finished steps and of all steps."""

_KEPT = 1000
"""Differences in a report."""

_DESCRIBED = 20
"""Differences whose inputs are described: that reads them, and weights may be large."""

_NEAREST = 5
"""Values within the tolerance in a report."""


@dataclass(frozen=True, slots=True, eq=False)
class ForcedComparison:
    """Compares two engines of one model.

    Attributes:
        _tolerances: (relative, absolute) by element type.
    """

    _a: Engine
    _b: Engine
    _written: Collection[str]
    _tolerances: Tolerances
    _report: ComparisonReport

    def run(self, number: int, feed: Mapping[str, Any], progress: Progress) -> None:
        """Compare one run.

        Args:
            progress: Called for each step of `b`.

        Raises:
            OrtPyError: A step of either engine failed.
        """
        report = self._report
        with SteppedRun(self._a, feed) as a, SteppedRun(self._b, feed) as b:
            sides = CommonValues(a, b, self._written)
            reference = _Reference(a, sides.names)
            report.steps = max(report.steps, sum(bool(planned.nodes) for planned in b.steps))
            unmatched = 0
            while not b.done:
                executed = b.step()
                matched = False
                for slot, value in b.outputs(executed):
                    if value.name in sides.names:
                        matched = True
                        self._judge(number, sides, executed, slot, value, reference.take(value.name))
                unmatched += bool(executed.planned.nodes) and not matched
                progress(b.position, len(b.steps))
            report.unmatched = max(report.unmatched, unmatched)

    def _judge(
        self, number: int, sides: CommonValues, executed: Executed, slot: int, value: Value, expected: Any
    ) -> None:
        step = executed.step
        nodes = sides.cone(sides.b, value.name)
        found = sides.b.read(slot, step)
        if any(is_random(node) for node in nodes):
            self._report.random += 1
        else:
            self._report.compared += 1
            apart = deviation(expected, found, self._tolerances)
            self._note(number, sides, value.name, apart, nodes, executed)
            if apart.reason in ("type", "kind"):
                return  # its readers could not take the other one
        sides.b.replace(slot, _as_kernels_take_it(expected), step)

    def _note(
        self, number: int, sides: CommonValues, name: str, apart: Deviation, nodes: tuple[Node, ...], executed: Executed
    ) -> None:
        report = self._report
        if apart.agrees:
            if apart.excess > (report.nearest[-1].deviation.excess if len(report.nearest) == _NEAREST else 0.0):
                near = Difference(number, name, self._described(self._b, nodes), (), apart)
                report.nearest = sorted([*report.nearest, near], key=lambda one: -one.deviation.excess)[:_NEAREST]
            return
        report.differing += 1
        one_sided = bool(apart.nan_only_a or apart.nan_only_b)
        if len(report.differences) >= _KEPT and (report.nan_origin is not None or not one_sided):
            return
        difference = Difference(
            number, name, self._described(self._b, nodes), self._described(self._a, sides.cone(sides.a, name)), apart
        )
        if len(report.differences) < _DESCRIBED or one_sided:
            difference = replace(difference, inputs=tuple(_inputs(sides.b, executed)))
        if len(report.differences) < _KEPT:
            report.differences.append(difference)
        if one_sided and report.nan_origin is None:
            report.nan_origin = difference

    def _described(self, engine: Engine, nodes: tuple[Node, ...]) -> tuple[ComparedNode, ...]:
        assembled = engine.program()
        found: list[ComparedNode] = []
        for node in nodes:
            assigned = assembled.assignment.nodes[node]
            region = assigned.region.name if assigned.region is not None else ""
            found.append(
                ComparedNode(
                    node.name, node.op_type, node.domain, assigned.provider, region, node.origin, tuple(node.sources)
                )
            )
        return tuple(found)


class _Reference:
    """The values of `a`: its run continues until a requested value is available."""

    def __init__(self, run: SteppedRun, wanted: Collection[str]) -> None:
        self._run = run
        self._wanted = wanted
        self._waiting: dict[str, Any] = {}

    def take(self, name: str) -> Any:
        """The value of a name. Only the caller keeps it."""
        while name not in self._waiting:
            executed = self._run.step()
            for slot, value in self._run.outputs(executed):
                if value.name in self._wanted:
                    self._waiting[value.name] = self._run.read(slot, executed.step)
        return self._waiting.pop(name)


def _inputs(run: SteppedRun, executed: Executed) -> Iterator[ValueSummary]:
    """Inputs of a step; none for steps that hold graphs, which read more than their node's inputs."""
    step = executed.step
    for value, read in zip(executed.planned.inputs, executed.inputs, strict=False):
        if value is not None:
            # In place of a packed constant, a step reads something without its content.
            constant = value.weight.array() if value.constant and value.weight is not None else None
            yield summary_of(value.name, run.on_host(read, step) if constant is None else constant)


def _as_kernels_take_it(value: Any) -> Any:
    """An array as the plan promises it: of C's order, and no scalar of NumPy."""
    if isinstance(value, list):
        return [_as_kernels_take_it(item) for item in value]
    if isinstance(value, np.generic):
        return np.asarray(value)
    return np.ascontiguousarray(value) if isinstance(value, np.ndarray) and value.ndim else value


_RANDOM = frozenset(
    {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
)


def is_random(node: Node) -> bool:
    """Return whether two runs draw different results. What the bodies of a node do is not looked at."""
    drops = node.op_type == "Dropout" and len(node.inputs) > 2  # the third input requests it
    return not node.domain and (node.op_type in _RANDOM or drops)


def drawn_values(graph: Graph) -> set[str]:
    """Return the names of the values that depend on a random node, in this graph or in the body of a node."""
    drawn: set[str] = set()
    for node in graph.nodes:
        inside = any(is_random(inner) for nested in node.subgraphs for body in walk(nested) for inner in body.nodes)
        if inside or is_random(node) or any(value.name in drawn for value in node.reads()):
            drawn.update(value.name for value in node.outputs if value is not None)
    return drawn
