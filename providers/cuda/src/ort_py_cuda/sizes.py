"""Arithmetic with sizes, which is left to the host: what is made of shapes there, and read there again.

A shape is known on the host before any kernel has run. Were a chain like Shape, Gather, Mul, Concat computed on the
device, the host would wait for all work queued before, only to read four numbers for a Reshape. Comes before
`provider`; knows operators and declarations, no device.
"""

from __future__ import annotations

from collections.abc import Collection

from ort_py.contracts import GraphView, KernelLookup, NodeSpec, ValueSpec

__all__ = ["REASON", "on_the_host"]

REASON = "it computes with sizes, which are on the host: computed there, nothing waits for the device"

_OPERATORS = frozenset(
    """
    Abs Add And Cast CastLike Ceil Concat Div Equal Flatten Floor Gather Greater GreaterOrEqual Identity Less
    LessOrEqual Max Min Mod Mul Neg Not Or Pow ReduceMax ReduceMin ReduceProd ReduceSum Reshape Round Sign Slice
    Split Sqrt Squeeze Sub Sum Unsqueeze Where
    """.split()  # noqa: SIM905 - a wall of quotes would hide the names
)
"""What exporters make sizes with. All take numbers of any type; none makes more elements than it is given."""

_MOST_AXES = 1


def on_the_host(graph: GraphView, able: Collection[int], kernels: KernelLookup) -> set[int]:
    """Nodes that read nothing but what is made on the host, and make a few numbers of it.

    Args:
        graph: The graph.
        able: Nodes that could run on the device.
        kernels: Their kernels, which say what they make on the host.

    Returns:
        Indices to be left to the host. Nodes of constants alone are not among them: they are folded, or their readers
        decide.
    """
    hosted: set[str] = set()
    left: set[int] = set()
    wanted = set(able)
    for node in graph.nodes:
        if node.index not in wanted:
            continue
        if _is_arithmetic(node, hosted, graph):
            left.add(node.index)
            hosted.update(value.name for value in node.outputs if value is not None)
            continue
        definition = kernels.find(node).kernel
        for position in definition.host_outputs if definition is not None else ():
            value = node.outputs[position] if position < len(node.outputs) else None
            if value is not None:
                hosted.add(value.name)
    return left


def _is_arithmetic(node: NodeSpec, hosted: Collection[str], graph: GraphView) -> bool:
    if node.domain or node.op_type not in _OPERATORS:
        return False
    given = [value for value in node.inputs if value is not None]
    if not any(value.name in hosted for value in given):
        return False
    known = all(value.name in hosted or graph.constant(value.name) is not None for value in given)
    return known and all(value is None or _is_small(value) for value in (*given, *node.outputs))


def _is_small(value: ValueSpec) -> bool:
    return value.shape is not None and len(value.shape) <= _MOST_AXES
