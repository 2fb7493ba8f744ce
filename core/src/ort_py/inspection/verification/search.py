"""The search for the cause of differing outputs: the session runs once more, step by step, beside the NumPy provider's.

Each step receives the values that the NumPy provider computed before it, so that a difference is found where it arises
(`ForcedComparison`). `ties` distinguishes different decisions about values within the tolerance from wrong results. The
nodes of a region are made a model whose outputs are all they compute, and that model is compared as any other. If all
its results are right, because a region may be wrong only while its inner values are not read, nothing is found there.
Comes before `verifier`. Does not depend on threads or policy.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import Any

import onnx

from ort_py.discovery import CPU_ROLE
from ort_py.engine.engine import Engine
from ort_py.engine.run_callbacks import begin_run, end_run
from ort_py.engine.runner import Runner
from ort_py.errors import OrtPyError
from ort_py.execution.frame import session_closed
from ort_py.graph.view import SubsetView
from ort_py.graph.writing.protos import value_info
from ort_py.inspection.comparison.engines import as_written, compare_engines, open_examined
from ort_py.inspection.comparison.forcing import ForcedComparison
from ort_py.inspection.comparison.measuring import Tolerances, deviation
from ort_py.inspection.comparison.report import ComparedSide, ComparisonReport, Difference
from ort_py.inspection.comparison.stepping import SteppedRun
from ort_py.inspection.verification.outcome import DifferingOutput, Finding, Outcome, Stopped
from ort_py.inspection.verification.reference import reference_options
from ort_py.inspection.verification.ties import decides, excuse
from ort_py.logs import lazy_logger
from ort_py.tolerances import TOLERANCES

_logger = lazy_logger("ort_py.verification")


def first_inside(
    reference: Engine, engine: Engine, feed: Mapping[str, Any], difference: Difference, check: Callable[..., None]
) -> Difference | None:
    """The first node that computes something wrong, among those that computed a value together; None if none does.

    Args:
        check: Called between steps; an error that it raises ends the search.
    """
    model = reference.model
    names = {node.name for node in difference.reference_nodes}
    nodes = [] if model is None else [node for node in model.graph.nodes if node.name in names]
    if model is None or len(nodes) < 2:
        return None
    view = SubsetView(model.graph, nodes)
    wanted = {value.name for value in view.border[0]}
    try:
        known = _values(reference, feed, wanted, check)
        proto = onnx.load_model_from_string(view.to_model())
        shown = {output.name for output in proto.graph.output}
        for node in nodes:
            for value in node.outputs:
                if value is not None and value.name not in shown and value.type is not None:
                    value_info(proto.graph.output.add(), value.name, value.type)
        report = _compared(proto.SerializeToString(), engine, known, check)
    except OrtPyError as error:
        _logger.debug("examining the inside of a region failed: %s: %s", type(error).__name__, error)
        return None
    return report.first


def _values(reference: Engine, feed: Mapping[str, Any], wanted: set[str], check: Callable[..., None]) -> dict[str, Any]:
    """Values of the model by name: inputs, and what its nodes compute."""
    known = {name: value for name, value in feed.items() if name in wanted}
    with SteppedRun(reference, feed) as run:
        while len(known) < len(wanted) and not run.done:
            executed = run.step()
            known |= {
                value.name: run.read(slot, executed.step)
                for slot, value in run.outputs(executed)
                if value.name in wanted
            }
            check()
    return known


def _compared(model: bytes, engine: Engine, feed: Mapping[str, Any], check: Callable[..., None]) -> ComparisonReport:
    """Compare the NumPy provider with the engine's own providers on a model."""
    plain, recipe, side = reference_options(engine.options), engine.recipe, ComparedSide("", {})
    report = ComparisonReport("model", side, side)
    with (
        closing(open_examined(model, plain, [CPU_ROLE])) as a,
        closing(open_examined(model, recipe.options, recipe.providers, recipe.provider_options)) as b,
    ):
        compare_engines(a, b, as_written(model, plain), [feed], TOLERANCES, report, check)
    return report


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
    reference: Engine, engine: Engine, feed: Mapping[str, Any], tolerances: Tolerances, check: Callable[..., None]
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
    engine: Engine, feed: Mapping[str, Any], found: Mapping[str, Any], tolerances: Tolerances, names: set[str]
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
    reference: Engine, engine: Engine, feed: Mapping[str, Any], difference: Difference, check: Callable[..., None]
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
