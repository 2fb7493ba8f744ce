"""Transposes of transposes: one, with the permutations put together."""

from __future__ import annotations

from ort_py.contracts import GraphEditor, NodeSpec, NodeTemplate, RewriteRule, TransformContext

__all__ = ["MergeTransposes", "permutation_of"]


class MergeTransposes(RewriteRule):
    """``Transpose(Transpose(x))``; where the two undo each other, the one that is left does nothing and goes too."""

    name = "TransposeMerging"
    op_types = frozenset({"Transpose"})

    def rewrite(self, node: NodeSpec, graph: GraphEditor, context: TransformContext) -> bool | str:
        inner = graph.producer(node.inputs[0])
        if node.domain or inner is None or inner.op_type != "Transpose" or inner.domain:
            return False
        source, between, result = inner.inputs[0], node.inputs[0], node.outputs[0]
        first, second = permutation_of(inner), permutation_of(node)
        if source is None or between is None or result is None:
            return False
        if first is None or second is None:
            return "a permutation is not known: it is the default one, and the rank is unknown"
        together = tuple([first[axis] for axis in second])
        nodes = [inner, node] if graph.uses(between) == 1 else [node]
        graph.replace_nodes(nodes, [NodeTemplate("Transpose", (source.name,), (result.name,), {"perm": together})])
        return True


def permutation_of(node: NodeSpec) -> tuple[int, ...] | None:
    """The permutation of a Transpose; None where it is the default one and the rank is unknown."""
    permutation = node.attributes.get("perm")
    if permutation is not None:
        return tuple(permutation)
    source = node.inputs[0]
    return None if source is None or source.shape is None else tuple(reversed(range(len(source.shape))))
