"""A graph's claims: what can run, cut into convex groups, and of these the ones whose work pays for a call.

A group without a product pays where `cost` says that it is faster than what it replaces: for a few numbers NumPy is
faster than a region's call. It does not depend on how a region is compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ort_py.contracts import Capability, Claim, ClaimKind, GraphView, NodeSpec, Refusal, convex_groups
from ort_py.dtypes import DataType
from ort_py_onednn.graph.cost import numpy_us, pays, region_us
from ort_py_onednn.graph.shape_values import broken, follow_from_shapes, worth_claiming
from ort_py_onednn.graph.support import is_heavy, refusal
from ort_py_onednn.graph.support.rule import FLOATING

__all__ = ["capability", "group_refusal"]


_BETWEEN = (
    "it is next to a product of weights of few bits, which this CPU has no exact instructions for: whoever computes "
    "that does both in one call"
)
_ROUNDED_ROWS = 4
"""Accuracy level from which others compute such products in integers."""

_BIAS = (
    "it makes what is added to scores of a past whose size changes from run to run: a plan with it would serve one run"
)
_NO_CODE = "it has a past, for which there is no code here: it needs AVX2 and float32, and memory that can be executed"

_ATTENTION = ("Attention", "GroupQueryAttention", "MultiHeadAttention")

_OUTSIDE = "it follows from shapes: a region that reads it receives the value"


def capability(
    graph: GraphView,
    *,
    small: bool = False,
    computed: frozenset[DataType] = FLOATING,
    converted: Callable[[], frozenset[DataType]] = lambda: FLOATING,
    grows: Callable[[], bool] = lambda: False,
) -> Capability:
    """The provider's answer.

    Args:
        graph: The graph.
        small: Take groups too that do not pay.
        computed: Floating types that this CPU computes in.
        converted: Floating types that it converts; asked for where a graph converts.
        grows: Whether it computes attention to a past; likewise.
    """
    refusals: list[Refusal] = []
    able: set[int] = set()
    following = follow_from_shapes(graph)
    reasons: dict[int, str] = {}
    every = graph.nodes[:]
    for node in every:
        reason = refusal(node, graph, following) or _unfit(node, converted() if node.op_type == "Cast" else computed)
        if reason is None:
            able.add(node.index)
        else:
            reasons[node.index] = reason
    refused, lengths = _with_past(graph, able, grows=grows)
    able -= set(refused)
    following = {name: index for name, index in following.items() if index not in lengths}
    reasons |= refused
    reasons |= dict.fromkeys(set(following.values()) & set(reasons), _OUTSIDE)
    inside = worth_claiming(graph, able, following, able)
    groups = convex_groups(graph, able | inside)
    if inside and not any(broken(graph, group, following) for group in groups):
        able |= inside
    elif inside:
        groups = convex_groups(graph, able)
    refusals += [Refusal(index, reason) for index, reason in reasons.items() if index not in able]
    claims: list[Claim] = []
    left = _values_of_few_bits(graph, able)
    for group in groups:
        nodes = [every[index] for index in group]
        reason = None if small else _between(nodes, left) or group_refusal(nodes, graph)
        if reason is None:
            claims.append(Claim(group, ClaimKind.COMPILE, f"one of {len(group)} oneDNN operations"))
        else:
            refusals += [Refusal(index, reason) for index in group]
    return Capability(tuple(claims), tuple(refusals))


def _with_past(graph: GraphView, able: set[int], *, grows: Callable[[], bool]) -> tuple[dict[int, str], set[int]]:
    """Why attention to a past stays outside, and what makes the bias of its scores, by node; and the nodes that its
    numbers of keys follow from: a region that made these itself would have a plan for each."""
    refused: dict[int, str] = {}
    lengths: set[int] = set()
    known: tuple[str, ...] = ()
    for index in sorted(able):
        node = graph.nodes[index]
        if node.op_type not in _ATTENTION:
            continue
        from ort_py_onednn.graph.support.attention import bias_of, has_present, lengths_of  # few models have it

        if not has_present(node):
            continue
        if not grows():
            refused[index] = _NO_CODE
            continue
        counted = lengths_of(node)
        known = known or counted
        if counted and counted != known:
            refused[index] = "it has a past whose number of keys is another one than that of attention before it"
            continue
        for name in counted:
            lengths |= _makers(graph, name)
        makers = _makers(graph, bias_of(node))
        if any(maker in able and is_heavy(graph.nodes[maker]) for maker in makers):
            refused[index] = "its past changes from run to run, and what is added to its scores has a product"
        else:
            refused |= dict.fromkeys(makers & able, _BIAS)
    return refused, lengths


def _makers(graph: GraphView, name: str) -> set[int]:
    """The nodes that a value follows from."""
    found: set[int] = set()
    pending = [name]
    while pending:
        maker = graph.producer(pending.pop())
        if maker is not None and maker not in found:
            found.add(maker)
            pending += [value.name for value in graph.nodes[maker].inputs if value is not None]
    return found


def group_refusal(nodes: Sequence[NodeSpec], graph: GraphView) -> str | None:
    """Explain why a group is not worth a call, or return None if it is."""
    if any(is_heavy(node) for node in nodes) or pays(graph, nodes):
        return None
    return (
        f"too little work for a call to oneDNN: no product, and its group of {len(nodes)} takes about "
        f"{numpy_us(nodes):.1f} µs elsewhere, {region_us(graph, nodes):.1f} µs here"
    )


def _values_of_few_bits(graph: GraphView, able: set[int]) -> set[str]:
    """Values that products of weights of few bits read and write which are left to others."""
    return {
        value.name
        for node in graph.nodes
        if node.op_type == "MatMulNBits" and node.index not in able
        if int(node.attributes.get("accuracy_level", 0)) >= _ROUNDED_ROWS
        for value in (node.inputs[0], *node.outputs)
        if value is not None
    }


def _between(nodes: Sequence[NodeSpec], left: set[str]) -> str | None:
    """Explain why a group without a product belongs to those that others compute, or return None."""
    if not left or any(is_heavy(node) for node in nodes):
        return None
    names = {value.name for node in nodes for value in (*node.inputs, *node.outputs) if value is not None}
    return None if left.isdisjoint(names) else _BETWEEN


def _unfit(node: NodeSpec, types: frozenset[DataType]) -> str | None:
    missing = FLOATING - types
    for value in (*node.inputs, *node.outputs):
        if value is not None and value.data_type in missing:
            return f"'{value.name}' is {value.data_type.onnx_name}, for which this CPU has no instructions"
    return None
