"""Nodes that onnx's inference must not be given: it is C++, and a hostile model can crash it.

Used by `inference`. Found by fuzzing onnx 1.23: nodes whose attributes it indexes with before it looks at them. The
other danger there, its data propagation, is never switched on; `shape_data` stands in for it.
"""

from __future__ import annotations

from ort_py.graph.ir import Node

__all__ = ["UNSAFE", "node_fault"]

UNSAFE = frozenset({"GatherND"})
"""Operators that are never shown to onnx: it indexes with sizes that other nodes computed. See `inference_gaps`."""

_MOST_AXES = 1 << 16
"""No tensor has so many axes; onnx cuts larger numbers to 32 bits without looking."""


def node_fault(node: Node) -> str | None:
    """Why a node contradicts its operator in a way that inference would not survive; None where it does not."""
    if node.domain:
        return None
    axis = node.attributes.get("axis")
    if isinstance(axis, int) and not -_MOST_AXES <= axis <= _MOST_AXES:
        return f"its axis is {axis}"
    count = node.attributes.get("num_outputs") if node.op_type == "Split" else None
    if isinstance(count, int) and count != len(node.outputs):
        return f"it says that it has {count} outputs, and has {len(node.outputs)}"
    return None
