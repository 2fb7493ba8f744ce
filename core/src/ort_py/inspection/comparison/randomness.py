"""Nodes that draw their results at random, and the values of a graph that depend on them. It is independent of
sessions.
"""

from __future__ import annotations

from ort_py.graph.ir import Graph, Node, walk

_RANDOM = frozenset(
    {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
)


def is_random(node: Node) -> bool:
    """Return whether two runs draw different results. What the bodies of a node do is not looked at."""
    drops = node.op_type == "Dropout" and len(node.inputs) > 2  # the third input requests it
    return not node.domain and (node.op_type in _RANDOM or drops)


def drawn_values(graph: Graph) -> set[str]:
    """Names of the values that depend on a random node, here or in the body of a node."""
    found: set[str] = set()
    for node in graph.nodes:
        inside = any(is_random(inner) for nested in node.subgraphs for body in walk(nested) for inner in body.nodes)
        if inside or is_random(node) or any(value.name in found for value in node.reads()):
            found.update(value.name for value in node.outputs if value is not None)
    return found
