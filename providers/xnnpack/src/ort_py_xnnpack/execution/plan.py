"""A region as it is described for all shapes: its nodes, the grids of its integers, and what computes with them."""

from __future__ import annotations

from ort_py.lazy_dataclass import dataclass
from ort_py_xnnpack.graph.flat_graph import FlatGraph
from ort_py_xnnpack.graph.grids import Grids
from ort_py_xnnpack.operators.integers import Integers, planned

__all__ = ["Plan"]


@dataclass(frozen=True, slots=True)
class Plan:
    """A region.

    Attributes:
        graph: Its nodes.
        grids: The grids of its integers.
        integers: Nodes that compute with integers, by the places where they are described.
        gone: Places of nodes that are not described, because those stand for them.
    """

    graph: FlatGraph
    grids: Grids
    integers: dict[int, Integers]
    gone: frozenset[int]

    @classmethod
    def of(cls, graph: FlatGraph) -> Plan:
        """The plan of a graph."""
        grids = Grids(graph)
        return cls(graph, grids, *planned(graph, grids))
