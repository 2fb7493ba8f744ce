"""Two engines of one model compared: their outputs, and step by step every value that both compute."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ort_py.discovery import default_catalog
from ort_py.engine.contributions import schemas_when_needed
from ort_py.engine.engine import Engine
from ort_py.engine.load_report import LoadReport
from ort_py.engine.runs import run
from ort_py.graph.ir import Model
from ort_py.graph.reading.given_model import GivenModel
from ort_py.inspection.comparison.forcing import ForcedComparison, Progress
from ort_py.inspection.comparison.measuring import Tolerances, deviation
from ort_py.inspection.comparison.report import ComparedOutput, ComparisonReport
from ort_py.options import SessionOptions


def as_written(model: Any, options: SessionOptions) -> Model:
    """Read a model: checked and typed, not optimised.

    Raises:
        OrtPyError: The model is wrong.
    """
    from ort_py.engine.loading import load

    schemas = schemas_when_needed(default_catalog().hooks)
    return load(GivenModel.of(model), options, schemas(), LoadReport())


def compare_engines(
    a: Engine,
    b: Engine,
    written: Model,
    feeds: Sequence[Mapping[str, Any]],
    tolerances: Tolerances,
    report: ComparisonReport,
    progress: Progress | None = None,
) -> None:
    """Compare two engines on some feeds.

    Args:
        a: Computes what is expected.
        written: The model as it was written: values are matched by its names.
        tolerances: (relative, absolute) by element type.
        progress: Called with the steps done and the steps there are.

    Raises:
        OrtPyError: A step of either engine failed.
    """
    names = {value.name for node in written.graph.nodes for value in node.outputs if value is not None}
    forced = ForcedComparison(a, b, names, tolerances, report)
    for number, feed in enumerate(feeds):
        report.outputs += _compare_outputs(a, b, feed, tolerances, number)
        forced.run(number, feed, _counting(progress, number, len(feeds)))
        report.runs += 1


def _compare_outputs(
    a: Engine, b: Engine, feed: Mapping[str, Any], tolerances: Tolerances, number: int
) -> list[ComparedOutput]:
    """Run both engines, each by itself, and compare their outputs."""
    names = [output.name for output in a.description.outputs]
    pairs = zip(names, run(a, None, feed), run(b, None, feed), strict=True)
    return [ComparedOutput(number, name, deviation(left, right, tolerances)) for name, left, right in pairs]


def _counting(progress: Progress | None, number: int, runs: int) -> Progress:
    if progress is None:
        return lambda done, steps: None
    return lambda done, steps: progress(number * steps + done, runs * steps)
