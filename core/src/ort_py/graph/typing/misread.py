"""Nodes whose shapes ONNX infers wrongly, and the shapes that they have.

Used by `inference`, which leaves such nodes out, and by `inference_gaps`, which types them. A node that contradicts its
operator gets no shape: it is refused when it runs.
"""

from __future__ import annotations

from dataclasses import replace

from ort_py.dtypes import TensorType, ValueType
from ort_py.graph.ir import Node

_POOLS = frozenset({"AveragePool", "LpPool", "MaxPool"})
_FIRST_RIGHT_POOL = 22
"""Operator set from which on ONNX leaves out windows that begin behind the input."""

_SLICE_THAT_KEEPS_NAMES = 10
"""Operator set whose Slice ONNX infers names for that are wrong."""

_LISTS = frozenset({"Expand", "Pad", "Reshape", "Slice", "Tile"})
"""Operators of which ONNX infers shapes from lists of sizes or positions, the inputs behind the first."""


def is_misread(node: Node) -> bool:
    """Return whether ONNX infers a wrong shape.

    A Squeeze without axes drops each axis that has one element in the run; ONNX takes sizes that it does not know for
    larger ones. Version 1 of Squeeze takes its axes to be sorted, and it and Unsqueeze count none from the end. Pools
    that round up get windows that begin behind the input, which the specification leaves out. A ConvTranspose that
    pads for a size by itself gets the output padding on top, which only takes part in the computation of the pads, and
    lacks what a stride leaves out beyond the kernel.
    An STFT without `onesided` is given all frequencies; the default is half of them.
    Lists of sizes with two axes, which every runtime refuses, are read as if they were flat.
    """
    if node.domain:
        return False
    if _has_a_table(node) or (node.op_type == "STFT" and "onesided" not in node.attributes):
        return True
    if node.op_type == "ConvTranspose":
        same = node.attributes.get("auto_pad", "NOTSET") in {"SAME_UPPER", "SAME_LOWER"}
        return same and "output_shape" not in node.attributes
    if node.op_type in _POOLS:
        return node.opset_version < _FIRST_RIGHT_POOL and _reaches_beyond(node)
    if node.op_type not in {"Squeeze", "Unsqueeze"}:
        return False
    axes = _axes(node)
    if node.op_type == "Squeeze" and not axes and (len(node.inputs) < 2 or node.inputs[1] is None):
        return True
    if node.opset_version >= 11:
        return False
    return axes != sorted(axes) or min(axes, default=0) < 0


def keeps_cut_names(node: Node) -> bool:
    """Return whether ONNX gives a size that the node cuts the name that it had: version 10 of Slice.

    The rules type it, so a graph that they cover needs no care.
    """
    return node.op_type == "Slice" and not node.domain and node.opset_version == _SLICE_THAT_KEEPS_NAMES


def is_mistaken(complaint: str) -> bool:
    """Return whether ONNX complains about what its operators allow.

    It reads axes of a Pad as 64-bit numbers only, and takes a number of sizes for a Resize that it does not know for 0.
    """
    return "ParseData type mismatch" in complaint or "Number of elements of input 'sizes' (0)" in complaint


def misread_type(node: Node, known: ValueType | None) -> ValueType | None:
    """The type of an output, all of which have one shape; `known`, without a shape, if that cannot be determined.

    Args:
        known: Type of the output as far as it is known, but for its shape.
    """
    if not isinstance(known, TensorType):
        return known
    from ort_py.constraints.single import symbolic_shape  # few models have such nodes

    return replace(known, shape=None if _has_a_table(node) else symbolic_shape(node))


def _has_a_table(node: Node) -> bool:
    types = [value.type for value in node.inputs[1:] if value is not None] if node.op_type in _LISTS else []
    return any(isinstance(one, TensorType) and one.shape is not None and len(one.shape) > 1 for one in types)


def _axes(node: Node) -> list[int]:
    return list(node.attributes.get("axes") or ())


def windows(node: Node) -> tuple[list[int], list[int], list[int]] | None:
    """Reach of the kernel, strides and given pads along each axis; None where an attribute does not fit."""
    weights = next(iter(node.inputs[3:4] if node.op_type == "QLinearConv" else node.inputs[1:2]), None)
    known = weights.type if weights is not None else None
    sizes = known.shape[2:] if isinstance(known, TensorType) and known.shape is not None else ()
    kernel = list(node.attributes.get("kernel_shape") or [size for size in sizes if isinstance(size, int)])
    rank = len(kernel)
    strides = list(node.attributes.get("strides") or [1] * rank)
    dilations = list(node.attributes.get("dilations") or [1] * rank)
    given = node.attributes.get("pads") if node.attributes.get("auto_pad", "NOTSET") == "NOTSET" else None
    pads = list(given or [0] * (2 * rank))
    if not (len(strides) == len(dilations) == rank and len(pads) == 2 * rank) or min(strides, default=1) < 1:
        return None
    return [(size - 1) * step + 1 for size, step in zip(kernel, dilations, strict=True)], strides, pads


def _reaches_beyond(node: Node) -> bool:
    """Return whether a pool rounds up, and may have a window that begins behind the input."""
    found = windows(node) if node.attributes.get("ceil_mode", 0) else None
    if found is None:
        return False
    reach, strides, pads = found
    return any(stride + end > size for size, stride, end in zip(reach, strides, pads[len(reach) :], strict=True))
