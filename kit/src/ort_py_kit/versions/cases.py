"""All cases of single operators at one version: ONNX's, those drawn for it, and others rewritten for it.

A few that differ in their attributes, inputs and types say nearly as much as all, and are what an everyday run takes.
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from ort_py_kit.backend_cases import SuiteCase, suite_cases
from ort_py_kit.versions.draft import CannotRewrite, Draft, node_of
from ort_py_kit.versions.drawn import drawn_cases
from ort_py_kit.versions.drawn_ml import drawn_ml_cases
from ort_py_kit.versions.history import OperatorVersion
from ort_py_kit.versions.rewriting import at_version


@cache
def cases_of_operators() -> Mapping[tuple[str, str], Sequence[SuiteCase]]:
    """The cases of one node, as they are written, by (domain, operator)."""
    found: dict[tuple[str, str], list[SuiteCase]] = defaultdict(list)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # making the suite's cases is onnx's code
        nodes = [case for case in suite_cases() if case.kind == "node"]
    for case in (*nodes, *drawn_cases(), *drawn_ml_cases()):
        known = node_of(case.model)
        if known is not None:
            found[known[1].domain, known[1].op_type].append(case)
    return found


@cache
def cases_at(operator: OperatorVersion) -> Sequence[SuiteCase]:
    """The operator's cases that can be written for this version."""
    found = []
    for case in cases_of_operators().get((operator.domain, operator.op_type), ()):
        try:
            found.append(at_version(case, operator))
        except CannotRewrite:
            continue
    return tuple(found)


def thinned(cases: Iterable[SuiteCase]) -> list[SuiteCase]:
    """Cases of one operator such that each attribute's values, each set of inputs and each type is in one of them."""
    seen: set[Hashable] = set()
    kept = []
    for case in cases:
        features = _features(case)
        if not features <= seen:
            seen |= features
            kept.append(case)
    return kept


def _features(case: SuiteCase) -> set[Hashable]:
    draft = Draft.of(case)
    values = [draft.value(place) for place in range(len(draft.inputs))]
    found: set[Hashable] = {("inputs", tuple(value is not None for value in values)), ("outputs", len(draft.expected))}
    found |= {(name, _text(value)) for name, value in draft.attributes.items()}
    for place, value in enumerate((*values[:1], *draft.expected[:1])):
        if isinstance(value, np.ndarray):
            found |= {("type", place, str(value.dtype)), ("rank", place, value.ndim)}
    return found


def _text(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 40 else "long"
