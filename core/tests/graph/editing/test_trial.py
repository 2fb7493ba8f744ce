"""New nodes that are typed before they are put into a graph."""

from __future__ import annotations

import numpy as np
import pytest

from ort_py.contracts import NodeTemplate
from ort_py.graph.checking.verify import verify
from ort_py.graph.editing.edit import Editor
from ort_py_kit.graphs import typed_model

CHAIN = "g (float[2, 3] x) => (float[2, 3] y) { a = Neg(x) y = Abs(a) }"
TO = {"to": np.array([3, 2])}


@pytest.mark.parametrize(
    ("templates", "reason"),
    [
        ([NodeTemplate("Relu", ("x",), ("a",))], ""),
        ([NodeTemplate("Reshape", ("x", "to"), ("m",)), NodeTemplate("MatMul", ("x", "m"), ("n",))], ""),
        ([NodeTemplate("Reshape", ("x", "to"), ("m",)), NodeTemplate("Add", ("x", "m"), ("n",))], "cannot be typed"),
        ([NodeTemplate("Reshape", ("x", "to"), ("a",))], "'a' is"),
        ([NodeTemplate("Cast", ("x",), ("a",), {"to": 7})], "'a' is"),
    ],
)
def test_contradictions_are_found_beforehand(templates: list[NodeTemplate], reason: str) -> None:
    """Against operators, and against the values that new nodes take over."""
    edited = Editor(typed_model(CHAIN).graph)
    before = edited.state.changes, edited.uses("x")
    found = edited.contradiction(templates, TO)
    assert (reason in found) if reason else not found
    assert (edited.state.changes, edited.uses("x")) == before
    assert edited.value("m") is None
    verify(edited.graph)
