"""Rules written as patterns: what to look for, what else must hold, and what stands there instead.

    class FuseGemm(PatternRule):
        name = "MatMulAddFusion"
        patterns = (Op("Add", Op("MatMul", "a", "b"), Const("bias")),)

        def replacement(self, match, context):
            return NodeTemplate("Gemm", (match.name("a"), match.name("b"), match.name("bias")), (match.result,))

The engine explains why a near match stays, from the pattern; `replacement` adds reasons of its own.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from ort_py.contracts.function_body import NodeTemplate
from ort_py.contracts.pattern_match import Match, find_match
from ort_py.contracts.transform import GraphEditor, RewriteRule, TransformContext

if TYPE_CHECKING:
    from ort_py.contracts.graph_view import NodeSpec
    from ort_py.contracts.pattern import Op


class PatternRule(RewriteRule):
    """A local rule that replaces all nodes of a pattern."""

    @property
    @abstractmethod
    def patterns(self) -> Sequence[Op]:
        """Required. What to look for, tried in this order at each node that may be the last of one."""

    @property
    def carries_function(self) -> bool:
        """Optional. True if the new node carries the nodes it replaces as its function, for providers that lack its
        operator: for operators that ONNX does not have. The replacement is one template then.
        """
        return False

    @property
    def op_types(self) -> frozenset[str] | None:
        return frozenset(op_type for pattern in self.patterns for op_type in pattern.op_types)

    def concerns(self, op_type: str, present: Collection[str]) -> bool:
        return any(op_type in pattern.op_types and pattern.possible(present) for pattern in self.patterns)

    def check(self, match: Match) -> str:
        """Optional. Why a match will not do, ``""`` where it will. Where the pattern fits in another way too, that is
        tried next."""
        return ""

    @abstractmethod
    def replacement(self, match: Match, context: TransformContext) -> NodeTemplate | Sequence[NodeTemplate] | str:
        """Required. The new nodes, which together write `match.result` and whatever of the pattern is read outside.

        May add constants to `match.graph`, after it is certain that a replacement is returned; change nothing else.

        Returns:
            The nodes, or a reason why the old ones must stay.
        """

    def rewrite(self, node: NodeSpec, graph: GraphEditor, context: TransformContext) -> bool | str:
        reason = ""
        for pattern in self.patterns:
            found = find_match(pattern, node, graph, self.check)
            if not isinstance(found, Match):
                reason = reason or (found.reason if found.near else "")
                continue
            mixed = _mixed_opset(found.nodes) if self.carries_function else ""
            if mixed:
                reason = reason or mixed
                continue
            made = self.replacement(found, context)
            if isinstance(made, str):
                reason = reason or made
                continue
            templates = [made] if isinstance(made, NodeTemplate) else list(made)
            if self.carries_function and len(templates) == 1:
                graph.fuse(found.nodes, templates[0])
            else:
                graph.replace_nodes(found.nodes, templates)
            return True
        return reason or False


def _mixed_opset(nodes: Sequence[NodeSpec]) -> str:
    """Explain why nodes cannot form one function: a function of the model, with an opset of its own, brought some of
    them.
    """
    opsets: dict[str, int] = {}
    for node in nodes:
        if opsets.setdefault(node.domain, node.opset_version) != node.opset_version:
            return f"'{node.name}' is of opset {node.opset_version}, other nodes of opset {opsets[node.domain]}"
    return ""
