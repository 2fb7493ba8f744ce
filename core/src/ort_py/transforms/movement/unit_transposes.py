"""Transposes that move axes of one element only, before or behind a Reshape: the Reshape alone does it.

Such a Transpose leaves all elements where they are. It is left alone where no Reshape is near, since other rules know
how to push and merge Transposes. Around pictures of one pixel these are what changes of the layout leave behind.
"""

from __future__ import annotations

import numpy as np

from ort_py.contracts import Array, GraphEditor, NodeSpec, NodeTemplate, RewriteRule, TransformContext, ValueSpec
from ort_py.transforms.movement.transposes import permutation_of


class MergeUnitTransposes(RewriteRule):
    """``Reshape(Transpose(x))``, ``Flatten(Transpose(x))`` and ``Transpose(Reshape(x))``."""

    name = "UnitTransposeMerging"
    op_types = frozenset({"Flatten", "Reshape", "Transpose"})

    def rewrite(self, node: NodeSpec, graph: GraphEditor, context: TransformContext) -> bool | str:
        inner = graph.producer(node.inputs[0])
        if node.domain or inner is None or inner.domain or node.opset_version < 5:
            return False
        if node.op_type == "Transpose":
            return inner.op_type in ("Flatten", "Reshape") and _keeps_order(node) and _behind(node, inner, graph)
        if inner.op_type != "Transpose" or not _keeps_order(inner):
            return False
        return _flattened(node, inner, graph) if node.op_type == "Flatten" else _reshaped(node, inner, graph)


def _keeps_order(transpose: NodeSpec) -> bool:
    """Return whether the axes that may have more than one element keep their order."""
    source, permutation = transpose.inputs[0], permutation_of(transpose)
    if source is None or source.shape is None or permutation is None:
        return False
    longer = [axis for axis in permutation if source.shape[axis] != 1]
    return longer == sorted(longer)


def _behind(transpose: NodeSpec, reshape: NodeSpec, graph: GraphEditor) -> bool | str:
    source, result = reshape.inputs[0], transpose.outputs[0]
    if source is None or result is None or result.shape is None:
        return False
    target = [size if isinstance(size, int) else -1 for size in result.shape]
    if 0 in target or target.count(-1) > 1:
        return "more than one size is not known, or one is 0"
    return _replace(transpose, reshape, source, np.array(target, np.int64), graph)


def _reshaped(reshape: NodeSpec, transpose: NodeSpec, graph: GraphEditor) -> bool | str:
    source, permutation = transpose.inputs[0], permutation_of(transpose)
    target = graph.constant(reshape.inputs[1]) if len(reshape.inputs) > 1 else None
    if source is None or source.shape is None or permutation is None or target is None:
        return False
    sizes = [int(size) for size in target]
    for place, size in enumerate(sizes):
        if size != 0 or reshape.attributes.get("allowzero", 0) or permutation[place] == place:
            continue  # 0 copies the size of this very axis
        copied = source.shape[permutation[place]]
        if not isinstance(copied, int) or copied == 0:
            return "it copies a size that is not known from an axis that is moved"
        sizes[place] = copied
    return _replace(reshape, transpose, source, np.array(sizes, np.int64), graph)


def _flattened(flatten: NodeSpec, transpose: NodeSpec, graph: GraphEditor) -> bool:
    source, result, permutation = transpose.inputs[0], flatten.outputs[0], permutation_of(transpose)
    if source is None or source.shape is None or result is None or permutation is None:
        return False
    split = flatten.attributes.get("axis", 1) % (len(permutation) + 1)
    before = [axis for axis in permutation[:split] if source.shape[axis] != 1]
    if before != [axis for axis in range(split) if source.shape[axis] != 1]:
        return False
    template = NodeTemplate("Flatten", (source.name,), (result.name,), flatten.attributes)
    graph.replace_nodes(_gone(flatten, transpose, graph), [template])
    return True


def _replace(node: NodeSpec, inner: NodeSpec, source: ValueSpec, target: Array, graph: GraphEditor) -> bool:
    result = node.outputs[0]
    assert result is not None
    gone = _gone(node, inner, graph)
    shape = graph.add_constant(f"{result.name}/shape", target)
    attributes = {name: value for name, value in node.attributes.items() if name == "allowzero"}
    graph.replace_nodes(gone, [NodeTemplate("Reshape", (source.name, shape), (result.name,), attributes)])
    return True


def _gone(node: NodeSpec, inner: NodeSpec, graph: GraphEditor) -> list[NodeSpec]:
    between = inner.outputs[0]
    return [inner, node] if between is not None and graph.uses(between) == 1 else [node]
