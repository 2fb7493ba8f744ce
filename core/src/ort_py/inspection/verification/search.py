"""The search for the cause of differing outputs: the session runs once more, step by step, beside the NumPy provider's.

Each step receives the values that the NumPy provider computed before it, so that a difference is found where it arises
(`ForcedComparison`). `ties` distinguishes different decisions about values within the tolerance from wrong results.
Comes before `verifier`. Does not depend on threads or policy.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ort_py.engine.engine import Engine
from ort_py.engine.run_callbacks import begin_run, end_run
from ort_py.engine.runner import Runner
from ort_py.errors import OrtPyError
from ort_py.execution.frame import session_closed
from ort_py.inspection.comparison.forcing import ForcedComparison
from ort_py.inspection.comparison.measuring import Tolerances, deviation
from ort_py.inspection.comparison.report import ComparedSide, ComparisonReport, Difference
from ort_py.inspection.verification.inside import first_inside
from ort_py.inspection.verification.outcome import DifferingOutput, Finding, Outcome, Stopped
from ort_py.inspection.verification.ties import decides, excuse

__all__ = ["differing_outputs", "search"]

SEARCH_SECONDS = 300.0
"""Seconds for which the wrong node is looked for."""

_LOOKED_AT = 16
"""Differences that are looked at, until one is found that is not a tie."""


class _OutOfTimeError(Exception):
    """The search took too long."""


def differing_outputs(
    names: Sequence[str], expected: Sequence[Any], found: Sequence[Any], tolerances: Tolerances
) -> tuple[list[DifferingOutput], float]:
    """Find the outputs beyond the tolerance, and the largest deviation of the others as a fraction of it."""
    differing: list[DifferingOutput] = []
    worst = 0.0
    for name, left, right in zip(names, expected, found, strict=True):
        apart = deviation(left, right, tolerances)
        if apart.agrees:
            worst = max(worst, apart.excess)
        else:
            differing.append(DifferingOutput(name, apart))
    return differing, worst


def search(
    reference: Engine,
    engine: Engine,
    feed: Mapping[str, Any],
    found: Mapping[str, Any],
    differing: Sequence[DifferingOutput],
    tolerances: Tolerances,
    stopped: Callable[[], bool],
) -> Finding:
    """Find out why outputs of a run differ.

    Args:
        reference: Computes what is expected.
        feed: Copies of what was fed.
        tolerances: (relative, absolute) by element type.
        stopped: Called after each step; returns whether to stop.

    Raises:
        Stopped: It said so.
    """
    end = time.monotonic() + SEARCH_SECONDS

    def check(*_: object) -> None:
        if stopped():
            raise Stopped
        if time.monotonic() > end:
            raise _OutOfTimeError

    outputs = "; ".join(map(str, differing))
    try:
        report = _step_by_step(reference, engine, feed, tolerances, check)
        excused: list[tuple[Outcome, Difference]] = []
        for difference in report.differences[:_LOOKED_AT]:
            outcome = excuse(reference, feed, difference, tolerances, check)
            if outcome is None:
                return _wrong(reference, engine, feed, difference, check)
            excused.append((outcome, difference))
        if excused:
            outcome, first = min(excused, key=lambda one: one[0] is not Outcome.TIE)
            words = "a tie, decided by" if outcome is Outcome.TIE else "errors within the tolerance accumulate in"
            return _finding(first, outcome, f"{words} {first.title}: {first.deviation}")
        if not _gives_the_same(engine, feed, found, tolerances, {one.name for one in differing}):
            return Finding(
                Outcome.MISMATCH,
                f"{outputs}; the session now returns another result for the same inputs, and none of its nodes is "
                "wrong",
            )
        check()
    except _OutOfTimeError:
        return Finding(Outcome.MISMATCH, f"{outputs}; the wrong node was not found within {SEARCH_SECONDS:.0f} s")
    except OrtPyError as error:
        if stopped():
            raise Stopped from error
        return Finding(
            Outcome.MISMATCH, f"{outputs}; the search for the wrong node failed: {type(error).__name__}: {error}"
        )
    if decides(reference, [one.name for one in differing]):
        return Finding(
            Outcome.TIE, f"{outputs}; no node is wrong: a node that makes a decision amplified a rounding error"
        )
    return Finding(Outcome.DRIFT, f"{outputs}; no node is wrong: errors within the tolerance accumulate")


def _step_by_step(
    reference: Engine,
    engine: Engine,
    feed: Mapping[str, Any],
    tolerances: Tolerances,
    check: Callable[..., None],
) -> ComparisonReport:
    model = reference.model
    if model is None:
        raise session_closed()
    written = {value.name for node in model.graph.nodes if not node.origin for value in node.outputs if value}
    side = ComparedSide("", {})
    report = ComparisonReport(engine.description.title, side, side)
    ForcedComparison(reference, engine, written, tolerances, report).run(0, feed, check)
    return report


def _gives_the_same(
    engine: Engine,
    feed: Mapping[str, Any],
    found: Mapping[str, Any],
    tolerances: Tolerances,
    names: set[str],
) -> bool:
    """Return whether the session's outputs are again what they were."""
    runner = engine.runner
    if runner is None:
        raise session_closed()
    begin_run(engine.providers.in_use)
    try:
        again = Runner.run(runner, sorted(names), feed)  # not picked itself
    finally:
        end_run(engine.providers.in_use)
    return all(
        deviation(found[name], value, tolerances).agrees for name, value in zip(sorted(names), again, strict=True)
    )


def _wrong(
    reference: Engine,
    engine: Engine,
    feed: Mapping[str, Any],
    difference: Difference,
    check: Callable[..., None],
) -> Finding:
    """The finding of a wrong result; where it was computed by several nodes together, the first of them that is."""
    if len(difference.nodes) > 1:
        inner = first_inside(reference, engine, feed, difference, check)
        if inner is not None:
            members = tuple(node.name for node in difference.nodes)
            return _finding(inner, Outcome.MISMATCH, f"{inner.title}: {inner.deviation}", members)
    reason = f"{difference.title}: {difference.deviation}"
    if len(difference.nodes) > 1:
        reason += f"; it is computed together with {len(difference.nodes) - 1} node(s) before it"
    return _finding(difference, Outcome.MISMATCH, reason)


def _finding(difference: Difference, outcome: Outcome, reason: str, region: tuple[str, ...] = ()) -> Finding:
    node = difference.node
    members = tuple(one.name for one in difference.nodes) if node.region else ()
    return Finding(outcome, reason, node.name, difference.value, node.provider, region or members)
