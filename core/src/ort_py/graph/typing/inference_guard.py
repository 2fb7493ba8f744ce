"""Nodes that onnx's inference must not be given: it is C++, and a hostile model can crash it.

Used by `inference` and `node_types`. Found by fuzzing onnx 1.23: nodes whose attributes it indexes with before it looks
at them, and shapes of more axes than there is time for. Numbers beyond 32 bits are kept from it whatever they are: no
attribute that types follow from needs them, and other versions of onnx compute with them in other places. The other
danger there, its data propagation, is never switched on; `shape_data` stands in for it.
"""

from __future__ import annotations

from ort_py.dtypes import TensorType
from ort_py.graph.ir import Node

UNSAFE = frozenset({"GatherND"})
"""Operators that are never shown to onnx: it indexes with sizes that other nodes computed. See `inference_gaps`."""

_MOST_AXES = 1 << 16
"""No tensor has so many axes; onnx cuts larger numbers to 32 bits without looking."""

MOST_AXES = 64
"""Axes that arrays can have."""

BOUNDED_EXPAND = 13
"""Opset from which onnx bounds the axes of an Expand; before, it makes as many as the second input has elements."""

_LARGEST = 2**31 - 1

_ANY_NUMBER = frozenset({"end", "ends", "start", "starts", "value_int", "value_ints"})
"""Attributes that may be any number: bounds of Shape and Slice are cut to what there is, the others are data."""


def node_fault(node: Node) -> str | None:
    """Explain why a node contradicts its operator in a way that would crash inference, or return None."""
    if node.domain:
        return None
    axis = node.attributes.get("axis")
    if isinstance(axis, int) and not -_MOST_AXES <= axis <= _MOST_AXES:
        return f"its axis is {axis}"
    count = node.attributes.get("num_outputs") if node.op_type == "Split" else None
    if isinstance(count, int) and count != len(node.outputs):
        return f"its attribute gives {count} outputs, but it has {len(node.outputs)}"
    return None


def is_hidden(node: Node) -> bool:
    """Return whether an attribute of an ONNX operator is a number that inference must not compute with."""
    if node.domain:
        return False
    for name, value in node.attributes.items():
        numbers = value if isinstance(value, tuple) else (value,)
        if name not in _ANY_NUMBER and any(isinstance(one, int) and abs(one) > _LARGEST for one in numbers):
            return True
    return False


def has_long_target(node: Node) -> bool:
    """Return whether a node is an Expand whose target is known to have more elements than arrays can have axes."""
    target = node.inputs[1] if node.op_type == "Expand" and not node.domain and len(node.inputs) > 1 else None
    known = target.type if target is not None else None
    if not isinstance(known, TensorType) or known.shape is None or len(known.shape) != 1:
        return False
    return isinstance(known.shape[0], int) and known.shape[0] > MOST_AXES
