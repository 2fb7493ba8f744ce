"""Element-wise regions, with reductions over the last axes, as one kernel each; and products with what follows them.

Reading order: `program` (what a region computes, free of names and shapes), `operators` (what each operator adds to
one), `reading` (a region's nodes to a program), `layout` (shapes and strides to what a kernel's loops need),
`generate` (a program to CUDA C++), `region` (launching: a `CompiledRegion`), `groups` (which nodes to claim); `linear`
has the products, which are asked first.

float16 and bfloat16 are computed in float32 from where they are read to where they are written or cast: what lies
between nodes of a region is not rounded. Otherwise each node has the result that it would have by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ort_py.contracts.capability import Claim
from ort_py.contracts.compiled import CompiledRegion
from ort_py.contracts.graph_view import GraphView, NodeSpec, RegionView
from ort_py_cuda.modules import cupy
from ort_py_cuda.regions import linear
from ort_py_cuda.regions.groups import group_refusal as _elementwise_refusal
from ort_py_cuda.regions.groups import groups as _elementwise_groups
from ort_py_cuda.regions.groups import refusal
from ort_py_cuda.regions.region import RegionContext, compile_region

__all__ = ["RegionContext", "compile", "compile_region", "group_refusal", "groups", "refusal"]


def groups(graph: GraphView, able: Iterable[int]) -> list[Claim]:
    """Claims that this room compiles: products with the operations after them, and element-wise operations.

    Args:
        graph: The graph.
        able: Nodes to choose from.
    """
    left = set(able)
    layers = linear.groups(graph, left)
    left.difference_update(*(claim.nodes for claim in layers))
    return [*layers, *_elementwise_groups(graph, sorted(left))]


def group_refusal(nodes: Sequence[NodeSpec], graph: GraphView) -> str | None:
    """Explain why the rest of a claim is not worth a region, or return None."""
    return linear.group_refusal(nodes, graph) if linear.owns(nodes) else _elementwise_refusal(nodes, graph)


def compile(region: RegionView) -> CompiledRegion:  # noqa: A001 - the word of the contract
    """A region that `groups` claimed; memory is that of the stream it runs on."""
    xp = cupy()
    if linear.owns(region.nodes):
        return linear.compile_region(region, xp)
    return compile_region(region, RegionContext(xp, xp.empty))
