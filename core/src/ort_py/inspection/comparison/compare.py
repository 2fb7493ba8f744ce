"""`compare`: one model run in two ways, and the first node that computes something else.

Comes after `session` and `configuration`; `forcing` does the comparing step by step, `bodies` looks into nodes that
hold graphs. It is independent of providers.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from ort_py.api.session import InferenceSession
from ort_py.graph.ir import Model
from ort_py.inspection.comparison.bodies import compare_bodies
from ort_py.inspection.comparison.configuration import (
    ConfigurationLike,
    Feeds,
    SessionConfiguration,
    configuration_of,
    feeds_of,
    tolerances_of,
)
from ort_py.inspection.comparison.engines import as_written, compare_engines
from ort_py.inspection.comparison.forcing import Progress
from ort_py.inspection.comparison.report import ComparedSide, ComparisonReport

ModelLike: TypeAlias = str | os.PathLike[str] | bytes | Any
"""Path of a model, its bytes, or a message."""


def compare(
    model: ModelLike,
    *,
    a: ConfigurationLike,
    b: ConfigurationLike,
    inputs: Feeds = None,
    tolerances: Mapping[str, tuple[float, float]] | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> ComparisonReport:
    """Run a model in two ways and find the first node of `b` that computes something else than `a`.

    `b` runs step by step, and each step is given what `a` computed before, so that a difference is found where it is
    made, whatever later nodes make of it. Both run by themselves too, and their outputs are compared. Values are
    matched by their names in the model; where transforms left none in common, the nodes in between are judged together.

    Args:
        model: Path of a model, its bytes, or an ``onnx.ModelProto``.
        a: The expected side: an optimisation level (``"disable"``, ``"basic"``, ``"extended"``, ``"layout"``,
            ``"all"``, or a `GraphOptimizationLevel`), the name of a provider, a list of providers, `SessionOptions`, or
            a `SessionConfiguration` with both.
        b: The judged side, given in the same way.
        inputs: A feed, a list of feeds, or None for made-up inputs as ``ort-py run`` makes them.
        tolerances: (relative, absolute) by element type, e.g. ``{"float": (1e-3, 1e-4), "uint8": (0, 1)}``, in place of
            those of `ort_py.tolerances`. The absolute one is a part of the largest number of the value in question.
        seed: Seed of made-up inputs.
        progress: Called with the steps done and the steps there are.

    Raises:
        ArgumentTypeError, InvalidArgument: An argument has no permitted form.
        OrtPyError: A session could not be made, or a step of one of them failed.
    """
    first, second = configuration_of(a, "a"), configuration_of(b, "b")
    table = tolerances_of(tolerances)
    written = as_written(model, first.settings())
    with first.open(model) as left, second.open(model) as right:
        report = ComparisonReport(title_of(model), _side(first, left), _side(second, right))
        feeds = feeds_of(inputs, left.get_inputs(), seed)
        compare_engines(left.engine, right.engine, written, feeds, table, report, progress)
    _look_inside(report, written, feeds, first, second, tolerances)
    return report


def _look_inside(
    report: ComparisonReport,
    written: Model,
    feeds: Sequence[Mapping[str, Any]],
    a: SessionConfiguration,
    b: SessionConfiguration,
    tolerances: Mapping[str, tuple[float, float]] | None,
) -> None:
    """Add the cause of the first difference, where its node holds graphs."""
    first = report.first
    if first is None:
        return

    def again(model: bytes, inputs: Sequence[Mapping[str, Any]]) -> ComparisonReport:
        return compare(model, a=a, b=b, inputs=inputs, tolerances=tolerances)

    inside = tuple(compare_bodies(written, first.value, feeds[first.run], a, again))
    if inside:
        report.differences[0] = replace(first, inside=inside)
        if report.nan_origin is first:
            report.nan_origin = report.differences[0]


def _side(configuration: SessionConfiguration, session: InferenceSession) -> ComparedSide:
    fallbacks = tuple(str(record) for record in session.fallback_report)
    return ComparedSide(str(configuration), session.placement.counts(), fallbacks)


def title_of(model: ModelLike) -> str:
    return Path(model).name if isinstance(model, str | os.PathLike) else "model"
