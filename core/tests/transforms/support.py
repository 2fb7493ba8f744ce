"""Optimises models written as text, and compares what they compute before and after."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from ort_py.contracts import Transform
from ort_py.graph.ir import Model, walk
from ort_py.transforms.elimination.unused import EliminateDeadCode
from ort_py.transforms.pipeline import run_transforms
from ort_py.transforms.report import OptimisationReport
from ort_py_kit.graphs import ReferenceContext, model_from_text, reference_run, typed_model
from ort_py_kit.tolerances import assert_close

__all__ = ["notes", "operators", "optimise"]


def optimise(
    text: str, *transforms: Transform, feeds: Mapping[str, Any] | None = None, opset: int = 21
) -> tuple[Model, OptimisationReport]:
    """Run transforms and remove what is dead then; with `feeds`, check that outputs have names and values as before."""
    model = typed_model(text, opset)
    names = [value.name for value in model.graph.outputs]
    report = run_transforms(model, [*transforms, EliminateDeadCode()], 99, ReferenceContext(), check=True)
    assert [value.name for value in model.graph.outputs] == names
    if feeds is not None:
        expected = reference_run(model_from_text(text, opset), feeds)
        for name, left, right in zip(names, reference_run(model, feeds), expected, strict=True):
            assert_close(left, right, context=name)
    return model, report


def operators(model: Model) -> Counter[str]:
    """Number of nodes of each operator, nested graphs included."""
    return Counter(node.op_type for graph in walk(model.graph) for node in graph.nodes)


def notes(report: OptimisationReport) -> str:
    """All notes in one text."""
    return "\n".join(str(line) for one in report.passes for line in (*one.refusals, *one.notes))
