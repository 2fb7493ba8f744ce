"""Nodes whose shapes ONNX infers wrongly, and the shapes that they have.

Used by `inference`, which leaves such nodes out, and by `inference_gaps`, which types them. A node that contradicts its
operator gets no shape: it is refused when it runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ort_py.dtypes import Dim, Shape, TensorType, ValueType
from ort_py.graph.ir import Node

_POOLS = frozenset({"AveragePool", "LpPool", "MaxPool"})
_FIRST_RIGHT_POOL = 22
"""Operator set from which on ONNX leaves out windows that begin behind the input."""


_LISTS = frozenset({"Expand", "Pad", "Reshape", "Slice", "Tile"})
"""Operators of which ONNX infers shapes from lists of sizes or positions, the inputs behind the first."""


def is_misread(node: Node) -> bool:
    """Return whether ONNX infers a wrong shape.

    A Squeeze without axes drops each axis that has one element in the run; ONNX takes sizes that it does not know for
    larger ones. Version 1 of Squeeze takes its axes to be sorted, and it and Unsqueeze count none from the end. Pools
    that round up get windows that begin behind the input, which the specification leaves out. A ConvTranspose that
    pads for a size by itself gets the output padding on top, which only takes part in the computation of the pads.
    Lists of sizes with two axes, which every runtime refuses, are read as if they were flat.
    """
    if node.domain:
        return False
    if _has_a_table(node):
        return True
    if node.op_type == "ConvTranspose":
        same = node.attributes.get("auto_pad", "NOTSET") in {"SAME_UPPER", "SAME_LOWER"}
        return same and any(node.attributes.get("output_padding") or ()) and "output_shape" not in node.attributes
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


def misread_type(node: Node, known: ValueType | None) -> ValueType | None:
    """The type of an output, all of which have one shape; `known`, without a shape, if that cannot be determined.

    Args:
        known: Type of the output as far as it is known, but for its shape.
    """
    if _has_a_table(node):
        return replace(known, shape=None) if isinstance(known, TensorType) else known
    first = node.inputs[0].type if node.inputs and node.inputs[0] is not None else None
    if not isinstance(first, TensorType) or first.shape is None or not isinstance(known, TensorType):
        return known
    rule = {"ConvTranspose": _deconvolved, "Squeeze": _squeezed, "Unsqueeze": _unsqueezed}.get(node.op_type, _pooled)
    return replace(known, shape=rule(node, first.shape))


def _has_a_table(node: Node) -> bool:
    types = [value.type for value in node.inputs[1:] if value is not None] if node.op_type in _LISTS else []
    return any(isinstance(one, TensorType) and one.shape is not None and len(one.shape) > 1 for one in types)


def _axes(node: Node) -> list[int]:
    return list(node.attributes.get("axes") or ())


def _counted(axes: Sequence[int], rank: int) -> set[int] | None:
    """Axes counted from the front; None where one is out of range or there twice."""
    if not all(-rank <= axis < rank for axis in axes):
        return None
    found = {axis % rank for axis in axes}
    return found if len(found) == len(axes) else None


def _squeezed(node: Node, shape: Shape) -> Shape | None:
    if not node.attributes.get("axes"):
        # Axes of unknown size go or stay, and axes that are an input are left to inference.
        known = all(isinstance(size, int) for size in shape) and len(node.inputs) < 2
        return tuple(size for size in shape if size != 1) if known else None
    dropped = _counted(_axes(node), len(shape))
    if dropped is None or any(isinstance(shape[axis], int) and shape[axis] != 1 for axis in dropped):
        return None
    return tuple(size for axis, size in enumerate(shape) if axis not in dropped)


def _unsqueezed(node: Node, shape: Shape) -> Shape | None:
    axes = _axes(node)
    added = _counted(axes, len(shape) + len(axes))
    if added is None:
        return None
    rest = iter(shape)
    return tuple(1 if axis in added else next(rest) for axis in range(len(shape) + len(axes)))


def _windows(node: Node) -> tuple[list[int], list[int], list[int]] | None:
    """Reach of the kernel, strides and given pads along each axis; None where an attribute does not fit."""
    kernel = list(node.attributes.get("kernel_shape") or ())
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
    windows = _windows(node) if node.attributes.get("ceil_mode", 0) else None
    if windows is None:
        return False
    reach, strides, pads = windows
    return any(stride + end > size for size, stride, end in zip(reach, strides, pads[len(reach) :], strict=True))


def _pooled(node: Node, shape: Shape) -> Shape | None:
    windows = _windows(node)
    if windows is None or len(shape) != len(windows[0]) + 2:
        return None
    same = node.attributes.get("auto_pad", "NOTSET").startswith("SAME")
    sizes: list[Dim] = []
    for axis, (reach, stride) in enumerate(zip(windows[0], windows[1], strict=True)):
        begin, end, size = windows[2][axis], windows[2][axis + len(windows[0])], shape[axis + 2]
        room = (size - 1 if same else size + begin + end - reach) if isinstance(size, int) else None
        if room is not None and room < 0:
            return None
        count = None if room is None else (room if same else room + stride - 1) // stride + 1
        if count is not None and isinstance(size, int) and (count - 1) * stride >= size + begin:
            count -= 1
        sizes.append(count)
    return (*shape[:2], *sizes)


def _deconvolved(node: Node, shape: Shape) -> Shape | None:
    second = node.inputs[1].type if len(node.inputs) > 1 and node.inputs[1] is not None else None
    weights = second.shape if isinstance(second, TensorType) else None
    strides = list(node.attributes.get("strides") or [1] * (len(shape) - 2))
    if weights is None or len(weights) != len(shape) or len(strides) != len(shape) - 2:
        return None
    group, inner = node.attributes.get("group", 1), weights[1]
    channels: Dim = inner * group if isinstance(inner, int) else None
    sizes: list[Dim] = [
        size * stride if isinstance(size, int) else None for size, stride in zip(shape[2:], strides, strict=True)
    ]
    return (shape[0], channels, *sizes)
