"""A problem of a model: its text, and the class of the exception that reports it.

A leaf of this room. Code that reads, sorts or checks a graph collects problems, and `validate` raises them together.
"""

from __future__ import annotations

from collections.abc import Sequence

from ort_py.errors import InvalidGraph, Location

_MOST_SHOWN = 20

INVALID = "The model is not valid ONNX."
EXPORT_AGAIN = "Export the model again; onnx.checker.check_model shows whether the exporter is at fault."


class Problem(str):
    """A problem for which applications of onnxruntime expect another class than `InvalidGraph`."""

    kind: type[InvalidGraph]

    def __new__(cls, text: str, kind: type[InvalidGraph]) -> Problem:
        problem = super().__new__(cls, text)
        problem.kind = kind
        return problem


def raise_problems(problems: Sequence[str], what: str, source: str, fix: str) -> None:
    """Raise all problems in one message, with the class of the first. Does nothing if there is none."""
    if not problems:
        return
    first, shown = problems[0], list(problems[:_MOST_SHOWN])
    if len(problems) > len(shown):
        shown.append(f"and {len(problems) - len(shown)} more")
    kind = first.kind if isinstance(first, Problem) else InvalidGraph
    raise kind(what, where=Location(file=source), why=[str(text) for text in shown], fix=fix)
