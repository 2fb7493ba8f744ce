"""Nodes that onnx's inference must not be given: it is C++, and a hostile model can crash it.

Used by `inference` and `node_types`. Found by fuzzing onnx 1.23: nodes whose attributes it indexes with before it looks
at them, and shapes of more axes than there is time for. Numbers beyond 32 bits are kept from it whatever they are: no
attribute that types follow from needs them, and other versions of onnx compute with them in other places. Another
danger there, its data propagation, is never switched on; `shape_data` stands in for it. What shows only while it infers
is left to another process.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from ort_py.dtypes import TensorType, ValueType
from ort_py.graph.ir import Node
from ort_py.graph.typing.misread import windows
from ort_py.onnx_operators import find

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


_WINDOWS = frozenset({"AveragePool", "Conv", "ConvInteger", "ConvTranspose", "LpPool", "MaxPool", "QLinearConv"})

_GIVEN_SIZES = frozenset({"CenterCropPad", "Expand", "Pad", "Resize", "RoiAlign", "Split", "TopK", "Upsample"})
"""Operators that may be given a negative size, or pads that leave one."""

_SIZES = ("output_height", "output_width", "pads", "scales", "split")

_UNBOUNDED = frozenset({"MaxUnpool", "STFT"})


@cache
def can_infer(op_type: str, domain: str, opset: int) -> bool:
    """Return whether ONNX can infer the types of the operator's outputs."""
    operator = find(op_type, domain, opset)
    if operator is None or (op_type in UNSAFE and not domain):
        return False
    # The body of MeanVarianceNormalization has a Constant that onnx's own inference calls malformed.
    return operator.has_inference or (operator.has_function and op_type != "MeanVarianceNormalization")


def may_be_negative(node: Node, known: ValueType | None = None) -> bool:
    """Return whether onnx may infer a negative size, which no valid run has. A Slice behind it ends the process.

    Args:
        known: Type of its input, where it is known. Of a size without a number, onnx infers none.
    """
    if node.domain or node.op_type in _UNBOUNDED:
        return not node.domain
    if node.op_type in _GIVEN_SIZES:
        given = [node.attributes[name] for name in _SIZES if name in node.attributes]
        weights = [value.weight for value in node.inputs[1:] if value is not None and value.weight is not None]
        given += [one.array() for one in weights if len(one.shape) < 2 and sum(one.shape) <= 2 * MOST_AXES]
        return any(bool(np.any(np.less(one, 0))) for one in given)
    # A text that is not UTF-8 is kept as bytes, and refused where windows are checked.
    if node.op_type not in _WINDOWS or str(node.attributes.get("auto_pad", "NOTSET")).startswith("SAME"):
        return False
    found = windows(node)
    if found is None or not found[0]:
        return True
    reach, strides, pads = found
    room = [begin + end - size for size, begin, end in zip(reach, pads, pads[len(reach) :], strict=False)]
    if node.op_type == "ConvTranspose":
        more = node.attributes.get("output_padding") or [0] * len(reach)
        return any(one - space < stride for one, space, stride in zip(more, room, strides, strict=False))
    sizes = known.shape[2:] if isinstance(known, TensorType) and known.shape is not None else ()
    sizes = sizes if len(sizes) == len(room) else (0,) * len(room)
    axes = zip(sizes, room, strides, strict=True)
    return any(isinstance(size, int) and size + space <= -2 * stride for size, space, stride in axes)


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
