"""The first wrong node among several that a region computed together.

The region's nodes are made a model whose outputs are all they compute, and that model is compared as any other. If all
its results are right, because a region may be wrong only while its inner values are not read, nothing is found. Used by
`search`. Does not depend on threads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any

import onnx

from ort_py.discovery import CPU_ROLE
from ort_py.engine.engine import Engine
from ort_py.errors import OrtPyError
from ort_py.graph.view import SubsetView
from ort_py.graph.writing.protos import value_info
from ort_py.inspection.comparison.engines import as_written, compare_engines
from ort_py.inspection.comparison.examining import open_examined
from ort_py.inspection.comparison.report import ComparedSide, ComparisonReport, Difference
from ort_py.inspection.comparison.stepping import SteppedRun
from ort_py.inspection.verification.reference import reference_options
from ort_py.logs import lazy_logger
from ort_py.tolerances import TOLERANCES

__all__ = ["first_inside"]

_logger = lazy_logger("ort_py.verification")


def first_inside(
    reference: Engine,
    engine: Engine,
    feed: Mapping[str, Any],
    difference: Difference,
    check: Callable[..., None],
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
