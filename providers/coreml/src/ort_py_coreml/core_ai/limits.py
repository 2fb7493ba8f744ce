"""Nodes that Core ML runs and Core AI does not, or that cannot be written with its authoring interface."""

from __future__ import annotations

from collections.abc import Callable

from ort_py.contracts import GraphView, NodeSpec
from ort_py_coreml.operators.operator import attribute, shape_of, sizes

__all__ = ["refusal"]

_LONGEST = 128
"""Steps of a recurrent layer that are written one after the other."""


def refusal(node: NodeSpec, graph: GraphView) -> str | None:
    """Return why Core AI does not run a node, or None. The nodes of a body are asked about one by one."""
    inner = graph.function(node)
    if inner is not None:
        return next((why for part in inner.nodes if (why := refusal(part, inner)) is not None), None)
    if node.op_type == "Concat":
        return _joined(node, graph)
    limit = _LIMITS.get(node.op_type)
    return None if limit is None else limit(node)


def _steps(node: NodeSpec) -> str | None:
    shape = sizes(node)
    if shape is None:
        return "sizes of its data are not known, and Core AI's authoring interface has no loops"
    if shape[0] > _LONGEST:
        return f"it has {shape[0]} steps, and Core AI's authoring interface has no loops"
    return None


def _image(node: NodeSpec) -> str | None:
    if all(isinstance(dim, int) for dim in shape_of(node)[1:]):
        return None
    return "sizes behind the batch are not known, from which Core AI's program is written"


def _joined(node: NodeSpec, graph: GraphView) -> str | None:
    """Core AI joins values whose sizes beside the axis are all known, or all unknown; those of constants are known."""
    axis = int(attribute(node, "axis", 1)) % len(shape_of(node))
    shapes = [shape_of(node, place) for place in range(len(node.inputs))]
    others = [size for shape in shapes for place, size in enumerate(shape) if place != axis]
    constants = [value for value in node.inputs if value is not None and graph.constant(value.name) is not None]
    if constants and not all(isinstance(size, int) for size in others):
        return "it joins a constant to a value of unknown sizes"
    return None


def _grid(node: NodeSpec) -> str | None:
    if all(isinstance(dim, int) for dim in shape_of(node, 1)[1:]):
        return _image(node)
    return "the number of its places is not known, from which Core AI's program is written"


def _batches(node: NodeSpec) -> str | None:
    if not attribute(node, "batch_dims", 0) or (sizes(node) is not None and sizes(node, 1) is not None):
        return _width(node)
    return "it has batches of sizes that are not known"


def _width(node: NodeSpec) -> str | None:
    return None if isinstance(shape_of(node, 1)[-1], int) else "the length of its indices is not known"


_LIMITS: dict[str, Callable[[NodeSpec], str | None]] = {
    "ConvTranspose": _image,
    "DepthToSpace": _image,
    "GRU": _steps,
    "GatherND": _batches,
    "GridSample": _grid,
    "LRN": _image,
    "LSTM": _steps,
    "Resize": _image,
    "RNN": _steps,
    "SpaceToDepth": _image,
}
