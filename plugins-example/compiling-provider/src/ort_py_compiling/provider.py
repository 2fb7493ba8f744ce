"""The provider of one session: which nodes it takes, and what becomes of them.

`RegionProvider` groups the nodes that are not refused into regions; ort-py decides which of them pay.
"""

from __future__ import annotations

from collections.abc import Sequence

from ort_py.contracts import CompiledRegion, FunctionRegion, GraphView, NodeSpec, RegionProvider, RegionView
from ort_py_compiling.compiler import compile_region, refusal_of
from ort_py_compiling.plugin import NAME

__all__ = ["CompilingProvider"]


class CompilingProvider(RegionProvider):
    """Compiles chains of element-wise operators.

    Args:
        min_nodes: Shortest chain that is taken.
    """

    def __init__(self, min_nodes: int) -> None:
        self._min_nodes = min_nodes

    @property
    def name(self) -> str:
        """The factory's name."""
        return NAME

    def refusal(self, node: NodeSpec, graph: GraphView) -> str | None:
        """Explain why a node is not compiled, or return None."""
        return refusal_of(node)

    def group_refusal(self, nodes: Sequence[NodeSpec], graph: GraphView) -> str | None:
        """Explain why a chain is not worth a function, or return None."""
        if len(nodes) >= self._min_nodes:
            return None
        return f"a chain of {len(nodes)}; option 'min_nodes' is {self._min_nodes}"

    def compile(self, region: RegionView) -> CompiledRegion:
        """One function: stateless, so every thread may call it."""
        return FunctionRegion(compile_region(region))
