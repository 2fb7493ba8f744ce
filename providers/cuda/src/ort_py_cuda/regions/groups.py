"""The nodes that are worth a region: connected ones that one kernel computes in place of several.

A group is cut where one kernel could not go on: where what follows a reduction has another shape, where a second
reduction is over other rows, where it gets too large. Parts of an order that respects all edges are convex, so cuts
keep groups convex. Comes last; the provider asks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field
from functools import partial

from ort_py.contracts.capability import Claim, ClaimKind
from ort_py.contracts.graph_view import GraphView, NodeSpec, ValueSpec
from ort_py.contracts.region_provider import convex_groups
from ort_py.dtypes import DataType, Shape
from ort_py.lazy_dataclass import dataclass
from ort_py_cuda.regions.operators import RULES, unsupported
from ort_py_cuda.regions.reading import constant_of
from ort_py_cuda.regions.refusals import reduced_axes_of

__all__ = ["MOST_INPUTS", "MOST_NODES", "group_refusal", "groups", "node_groups", "refusal"]

MOST_NODES = 48
MOST_INPUTS = 32
"""Arrays that one kernel reads: its arguments have to fit into what a launch takes."""


def refusal(node: NodeSpec, graph: GraphView) -> str | None:
    """Explain why a node cannot be in a region, or return None."""
    reason = unsupported(node, partial(constant_of, graph, node))
    if reason is None and _is_arithmetic_of_shapes(node):
        return "it computes with sizes, which are used on the host"
    return reason


def _is_arithmetic_of_shapes(node: NodeSpec) -> bool:
    values = [value for value in (*node.inputs, *node.outputs) if value is not None]
    return all(
        value.data_type in (DataType.INT64, DataType.INT32) and value.shape is not None and len(value.shape) < 2
        for value in values
    )


def groups(graph: GraphView, able: Iterable[int]) -> list[Claim]:
    """`node_groups` as claims."""
    return [Claim(group, ClaimKind.COMPILE, f"one kernel for {len(group)} nodes") for group in node_groups(graph, able)]


def group_refusal(nodes: Sequence[NodeSpec], graph: GraphView) -> str | None:
    """Explain why the rest of a claim is not worth a region, or return None."""
    if not _pays(nodes):
        return "a region of one operator is that operator's kernel"
    indices = [node.index for node in nodes]
    if node_groups(graph, indices) != [tuple(sorted(indices))]:
        return "what is left is not one kernel"
    return None


def node_groups(graph: GraphView, able: Iterable[int]) -> list[tuple[int, ...]]:
    """Groups of nodes to claim, each as one compiled region.

    Args:
        graph: The graph.
        able: Nodes to choose from, e.g. all that nothing better runs.

    Returns:
        Sorted indices a group; convex, connected, of two nodes or more that do something.
    """
    possible = [index for index in able if refusal(graph.nodes[index], graph) is None]
    found: list[tuple[int, ...]] = []
    for group in convex_groups(graph, possible):
        for part in _parts(group, graph):
            found += [one for one in convex_groups(graph, part) if _pays([graph.nodes[index] for index in one])]
    return sorted(found)


def _pays(nodes: Sequence[NodeSpec]) -> bool:
    return sum(node.op_type != "Identity" for node in nodes) > 1


@dataclass(slots=True)
class _Part:
    """Nodes that one kernel can compute, and what further ones must fit."""

    graph: GraphView
    nodes: list[int] = field(default_factory=list)
    inputs: set[str] = field(default_factory=set)
    made: set[str] = field(default_factory=set)
    behind: set[str] = field(default_factory=set)  # values behind a reduction
    dropped: set[str] = field(default_factory=set)  # values whose reduced axes are gone
    whole: Shape | None = None  # what is reduced
    axes: int = 0

    def takes(self, node: NodeSpec) -> bool:
        """Return whether a node fits."""
        read = _read(node)
        if self.nodes and (
            len(self.nodes) >= MOST_NODES
            or len(self.inputs | {value.name for value in read} - self.made) > MOST_INPUTS
            or any(value.name in self.dropped for value in read)
        ):
            return False
        if RULES[(node.domain, node.op_type)].reduces:
            axes = reduced_axes_of(node, partial(constant_of, self.graph, node))
            return self.whole is None or (read[0].shape == self.whole and axes == self.axes)
        if not any(value.name in self.behind for value in read):
            return True
        output = node.outputs[0]
        assert self.whole is not None
        assert output is not None
        return output.shape in (self.whole, (*self.whole[: -self.axes], *(1,) * self.axes))

    def add(self, node: NodeSpec) -> None:
        """Take a node that fits."""
        read, output = _read(node), node.outputs[0]
        assert output is not None
        self.nodes.append(node.index)
        self.inputs |= {value.name for value in read} - self.made
        self.made.add(output.name)
        reduces = RULES[(node.domain, node.op_type)].reduces
        if reduces:
            axes = reduced_axes_of(node, partial(constant_of, self.graph, node))
            assert isinstance(axes, int)
            self.whole, self.axes = read[0].shape, axes
            if node.attributes.get("keepdims", 1) != 1:
                self.dropped.add(output.name)
        if reduces or any(value.name in self.behind for value in read):
            self.behind.add(output.name)


def _read(node: NodeSpec) -> list[ValueSpec]:
    """Values whose elements a kernel reads."""
    given = node.inputs[:1] if RULES[(node.domain, node.op_type)].reduces else node.inputs
    return [value for value in given if value is not None]


def _parts(group: Sequence[int], graph: GraphView) -> list[list[int]]:
    parts = [_Part(graph)]
    for index in group:
        node = graph.nodes[index]
        if not parts[-1].takes(node):
            parts.append(_Part(graph))
        parts[-1].add(node)
    return [part.nodes for part in parts]
