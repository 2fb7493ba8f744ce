"""Applying transforms to a model written as text: what tests of rules need, those of plug-ins included."""

from __future__ import annotations

from collections.abc import Sequence

import onnx

from ort_py.contracts import Transform
from ort_py.graph.checking.schema import SchemaRegistry
from ort_py.graph.editing.edit import Editor
from ort_py.graph.ir import Model, walk
from ort_py.transforms.elimination.unused import EliminateDeadCode
from ort_py.transforms.pipeline import run_transforms
from ort_py.transforms.report import OptimisationReport
from ort_py_kit.graphs import ReferenceContext, typed_model


def apply_rules(
    model: str | onnx.ModelProto,
    *transforms: Transform,
    opset: int = 21,
    expand: bool = False,
    schemas: SchemaRegistry | None = None,
) -> tuple[Model, OptimisationReport]:
    """Run transforms of any level until nothing changes, then remove unused nodes, and check the graph throughout.

    Args:
        model: Text of ONNX as in `ort_py_kit.graphs.model_from_text`, or a message.
        *transforms: Transforms in the order in which they run.
        opset: Opset of the default domain, where the text is a graph only.
        expand: Put the functions of fused nodes in their place again, so that `onnx.reference` can run the model.
        schemas: Operators; those of ONNX where None.

    Raises:
        PluginError: A transform broke, or broke the graph.
    """
    loaded = typed_model(model, opset, schemas)
    report = run_transforms(
        loaded, [*transforms, EliminateDeadCode()], 99, ReferenceContext(), schemas=schemas, check=True
    )
    if expand:
        editor = Editor(loaded.graph)
        pending = [node for graph in walk(loaded.graph) for node in graph.nodes]
        while pending:
            node = pending.pop()
            own = editor.state.editors.get(node.graph) or Editor(node.graph, editor.state)
            pending.extend(own.expand(node))
    return loaded, report


def changed_by(report: OptimisationReport, transforms: Sequence[Transform]) -> list[str]:
    """Names of the transforms that changed something."""
    return sorted({one.name for one in transforms} & {one.name for one in report.passes if one.changes})
