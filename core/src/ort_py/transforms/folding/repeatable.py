"""Nodes that compute the same outputs from the same inputs every time, so that they may be computed once.

Used by `constant_folding` and `duplicates`.
"""

from __future__ import annotations

from functools import cache

from ort_py.contracts import GraphView, NodeSpec
from ort_py.onnx_operators import find


def is_repeatable(node: NodeSpec) -> bool:
    """Return whether ONNX defines the operator as deterministic, and the node holds no nested graph.

    Operators of other domains are never repeatable: nothing says that they are, and a custom operator may well read a
    clock or a file.
    """
    return _deterministic(node.op_type, node.domain, node.since_version) and not holds_graphs(node)


def holds_graphs(node: NodeSpec) -> bool:
    return any(
        isinstance(value, GraphView)
        or (isinstance(value, tuple) and any(isinstance(item, GraphView) for item in value))
        for value in node.attributes.values()
    )


@cache
def _deterministic(op_type: str, domain: str, version: int) -> bool:
    operator = find(op_type, domain, version)
    return operator is not None and operator.deterministic
