"""Two engines side by side, the second one fed with what the first one computed (teacher forcing).

Every step of `b` that computes a value which `a` has too is compared and then given `a`'s value, so that no error is
carried on: a difference is made where it is seen. Where transforms left no common value, the steps in between are
judged together by what comes out. `a` runs as far as `b` needs it, so that few values of it are alive at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ort_py.engine.engine import Engine
from ort_py.graph.ir import Node, Value
from ort_py.inspection.comparison.common_values import CommonValues
from ort_py.inspection.comparison.deviation import Deviation, ValueSummary
from ort_py.inspection.comparison.measuring import Tolerances, deviation, summary_of
from ort_py.inspection.comparison.randomness import is_random
from ort_py.inspection.comparison.report import ComparedNode, ComparisonReport, Difference
from ort_py.inspection.comparison.stepping import Executed, SteppedRun

__all__ = ["ForcedComparison", "Progress"]

Progress = Callable[[int, int], object]
"""Called with the number of finished steps and of all steps."""

_KEPT = 1000
"""Differences in a report."""

_DESCRIBED = 20
"""Differences whose inputs are described: that reads them, and weights may be large."""

_NEAREST = 5
"""Values within the tolerance in a report."""


class ForcedComparison:
    """Compares two engines of one model.

    Args:
        tolerances: (relative, absolute) by element type.
    """

    def __init__(
        self,
        a: Engine,
        b: Engine,
        written: Collection[str],
        tolerances: Tolerances,
        report: ComparisonReport,
    ) -> None:
        self._a = a
        self._b = b
        self._written = written
        self._tolerances = tolerances
        self._report = report

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
        self,
        number: int,
        sides: CommonValues,
        name: str,
        apart: Deviation,
        nodes: tuple[Node, ...],
        executed: Executed,
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
            number,
            name,
            self._described(self._b, nodes),
            self._described(self._a, sides.cone(sides.a, name)),
            apart,
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
