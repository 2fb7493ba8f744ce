"""Transposes of transposes: one, with the permutations put together."""

from __future__ import annotations

from ort_py.contracts import GraphEditor, NodeSpec, NodeTemplate, RewriteRule, TransformContext
from ort_py.transforms.chains import chain_of


class MergeTransposes(RewriteRule):
    """Merge ``Transpose(Transpose(x))``. If the two cancel each other, the remaining one is a no-op and is removed
    too.
    """

    name = "TransposeMerging"
    op_types = frozenset({"Transpose"})

    def rewrite(self, node: NodeSpec, graph: GraphEditor, context: TransformContext) -> bool | str:
        chain = chain_of(node, graph, self.op_types)
        if chain is None:
            return False
        first, second = permutation_of(chain.inner), permutation_of(node)
        if first is None or second is None:
            return "a permutation is not known: it is the default one, and the rank is unknown"
        together = tuple([first[axis] for axis in second])
        merged = NodeTemplate("Transpose", (chain.source.name,), (chain.result.name,), {"perm": together})
        graph.replace_nodes(chain.replaced(graph), [merged])
        return True


def permutation_of(node: NodeSpec) -> tuple[int, ...] | None:
    """The permutation of a Transpose, or None if the rank is unknown or it does not order the axes.

    A node of the latter kind is refused when it runs, so no rule may make another one of it.
    """
    permutation, source = node.attributes.get("perm"), node.inputs[0]
    rank = None if source is None or source.shape is None else len(source.shape)
    if permutation is None:
        return None if rank is None else tuple(reversed(range(rank)))
    ordered = sorted(permutation) == list(range(len(permutation) if rank is None else rank))
    return tuple(permutation) if ordered else None
