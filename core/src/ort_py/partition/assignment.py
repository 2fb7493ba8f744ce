"""Results of partitioning: plain records, for planning and for reports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import field
from enum import Enum

from ort_py.constraints.gate import Gate
from ort_py.contracts import KernelDef, NodeSpec
from ort_py.graph.ir import Graph, Node
from ort_py.graph.view import Border, SpecCache, SubsetView
from ort_py.lazy_dataclass import dataclass

CORE = "core"
"""Provider of control flow: If, Loop, Scan and SequenceMap are steps of the core, not kernels of a provider."""


class RunnerKind(Enum):
    """The way in which a node runs."""

    KERNEL = "kernel"
    REGION = "region"
    CONTROL_FLOW = "control flow"


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """Nodes of one graph that a provider compiles together.

    Attributes:
        nodes: The nodes, in the order of their graph.
        records: Records of its nodes and values, which all views of the region share.
    """

    provider: str
    nodes: tuple[Node, ...]
    name: str
    records: SpecCache = field(default_factory=SpecCache, init=False, repr=False)
    _border: list[Border] = field(default_factory=list, init=False, repr=False)

    @property
    def graph(self) -> Graph:
        return self.nodes[0].graph

    @property
    def border(self) -> Border:
        """The values that the region reads and computes for others, in the order in which it takes and gives them.

        Found when it is first asked for, which is when the graph has been partitioned and changes no more.
        """
        if not self._border:
            self._border.append(SubsetView(self.graph, self.nodes).border)
        return self._border[0]


@dataclass(frozen=True, slots=True)
class NodeAssignment:
    """The provider of a node, and the reasons why no earlier provider took it.

    Attributes:
        refusals: (provider, reason) of each provider that was asked before.
    """

    provider: str
    runner: RunnerKind
    kernel: KernelDef | None = None
    region: Region | None = None
    reason: str = ""
    refusals: tuple[tuple[str, str], ...] = ()

    def planned_graphs(self, node: Node) -> list[Graph]:
        """The graphs of the node that the core partitions and plans: all of control flow, those that a kernel declares,
        none of a region. The others are the provider's own affair."""
        if self.runner is RunnerKind.CONTROL_FLOW:
            return node.subgraphs
        if self.kernel is None:
            return []
        found = (node.attributes.get(subgraph.name) for subgraph in self.kernel.subgraphs)
        return [graph for graph in found if isinstance(graph, Graph)]


@dataclass(slots=True)
class Assignment:
    """Assignments of every node of a model, nested graphs included, and the regions of each graph.

    Attributes:
        unassigned: Nodes that no provider runs, with all refusals.
        specs: The record of each node that the providers saw; planning binds kernels with the same ones.
        notes: Lines for the load report: placements with their estimates, and operators that separate islands.
    """

    nodes: dict[Node, NodeAssignment] = field(default_factory=dict)
    regions: dict[Graph, list[Region]] = field(default_factory=dict)
    unassigned: dict[Node, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    specs: dict[Node, NodeSpec] = field(default_factory=dict)
    gates: dict[Region, Gate] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def counts(self) -> Counter[str]:
        """Nodes each provider runs."""
        return Counter(assignment.provider for assignment in self.nodes.values())

    def __iter__(self) -> Iterator[tuple[Node, NodeAssignment]]:
        return iter(self.nodes.items())
