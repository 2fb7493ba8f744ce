"""Optimises models written as text by fusions, and compares what the functions of the fused nodes compute."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import onnx

from core.tests.transforms.support import notes, operators
from ort_py.contracts import Transform
from ort_py.graph.editing.edit import Editor
from ort_py.graph.editing.edit_state import EditState
from ort_py.graph.ir import Model, walk
from ort_py.transforms.pipeline import run_transforms
from ort_py_kit.graphs import ReferenceContext, model_from_text, reference_run, typed_model
from ort_py_kit.tolerances import assert_close

__all__ = ["expand_all", "fuse"]


def fuse(
    text: str,
    *transforms: Transform,
    feeds: Mapping[str, Any] | None = None,
    opset: int = 17,
    weights: Mapping[str, Any] | None = None,
) -> tuple[Counter[str], Model, str]:
    """Run transforms on a graph, and with `feeds` check that fused nodes carry functions that compute the same.

    Returns:
        The operators after the transforms, the model as it is then (functions put back where there were feeds), and
        the report's reasons and notes.
    """
    proto = model_from_text(text, opset)
    for name, array in (weights or {}).items():
        proto.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    model = typed_model(proto)
    names = [value.name for value in model.graph.outputs]
    report = run_transforms(model, list(transforms), 99, ReferenceContext(), check=True)
    found = operators(model)
    assert [value.name for value in model.graph.outputs] == names
    if feeds is not None:
        expected = reference_run(proto, feeds)
        expand_all(model)
        for name, left, right in zip(names, reference_run(model, feeds), expected, strict=True):
            assert_close(left, right, context=name)
    return found, model, notes(report)


def expand_all(model: Model) -> None:
    """Put the functions that nodes carry in their places."""
    state = EditState(model, None)
    carriers = True
    while carriers:
        carriers = False
        for graph in walk(model.graph):
            editor = state.editors.get(graph) or Editor(graph, state)
            for node in [one for one in graph.nodes if one.body is not None]:
                editor.expand(node)
                carriers = True
