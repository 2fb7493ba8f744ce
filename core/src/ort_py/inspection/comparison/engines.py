"""Engines opened to be examined, and the comparison of two of them: their outputs, and every value step by step.

These engines write no file and use no cache, and none of their providers is replaced.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping, Sequence
from typing import Any

from ort_py.discovery import default_catalog
from ort_py.engine.contributions import schemas_when_needed
from ort_py.engine.engine import Engine
from ort_py.engine.load_report import LoadReport
from ort_py.engine.opening import open_engine
from ort_py.engine.recipe import ProviderArgument
from ort_py.engine.runs import run
from ort_py.graph.ir import Model
from ort_py.graph.reading.given_model import GivenModel
from ort_py.inspection.comparison.forcing import ForcedComparison, Progress
from ort_py.inspection.comparison.measuring import Tolerances, deviation
from ort_py.inspection.comparison.report import ComparedOutput, ComparisonReport
from ort_py.options import SessionOptions


def examining_options(options: SessionOptions | None) -> SessionOptions:
    """Copy options for an engine that is examined: no file, no profile, no cache, no verification.

    Args:
        options: The options; the defaults where None.
    """
    plain = SessionOptions() if options is None else copy.copy(options)
    plain.cache_dir = "off"
    plain.optimized_model_filepath = ""
    plain.enable_profiling = False
    plain.verify = 0.0
    return plain


def open_examined(
    model: str | os.PathLike[str] | bytes | Any,
    options: SessionOptions | None,
    providers: ProviderArgument | None = None,
    provider_options: Sequence[Mapping[str, Any]] | None = None,
) -> Engine:
    """Open an engine to examine it.

    A provider that fails in a run is not replaced by another one, because that provider is being examined.
    """
    engine = open_engine(model, examining_options(options), providers, provider_options)
    engine.policy.enabled = False
    return engine


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
