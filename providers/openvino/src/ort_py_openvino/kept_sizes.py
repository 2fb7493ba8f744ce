"""Proof that a Resize or an Upsample keeps batches and channels, where their sizes are known only in a run.

OpenVINO's code for the processor resizes neither, and reads and writes memory that is not its own if it is asked to. A
list of sizes is followed to the Shape that an entry comes from. Equal names of sizes prove nothing: callers may feed
other sizes than a model says.
"""

from __future__ import annotations

from ort_py.contracts import GraphView, NodeSpec, ValueSpec

__all__ = ["keeps_batch_and_channels"]

_STEPS = 64

_SAME_SHAPE = frozenset(
    {
        "BatchNormalization",
        "Cast",
        "Clip",
        "Elu",
        "Gelu",
        "HardSigmoid",
        "HardSwish",
        "Identity",
        "InstanceNormalization",
    }
    | {"LRN", "LeakyRelu", "Mish", "Neg", "PRelu", "QuickGelu", "Relu", "Sigmoid", "Sqrt", "Swish", "Tanh"}
)
_SAME_CHANNELS = frozenset({"AveragePool", "GlobalAveragePool", "GlobalMaxPool", "MaxPool"})
_SAME_BATCH = frozenset({"Conv", "ConvTranspose", "DepthToSpace", "FusedConv", "SpaceToDepth"})

_Size = int | tuple[str, int] | None
"""A number, or the axis of a value that has it; None if it is unknown."""


def keeps_batch_and_channels(node: NodeSpec, graph: GraphView) -> bool:
    """Return whether the first two sizes of the result of a Resize or an Upsample are certainly those of its data."""
    data, result = node.inputs[0], node.outputs[0]
    if data is None or data.shape is None:
        return False
    rank = len(data.shape)
    axes = [int(axis) % max(rank, 1) for axis in node.attributes.get("axes") or range(rank)]
    for axis in range(min(rank, 2)):
        wanted = _size(data, axis, graph)
        if axis not in axes or (result is not None and result.shape and result.shape[axis] == wanted):
            continue
        place = axes.index(axis)
        if not _scales_by_one(node, place, graph) and (
            wanted is None or _entry(_list(node, 3), place, graph) != wanted
        ):
            return False
    return True


def _list(node: NodeSpec, place: int) -> ValueSpec | None:
    return node.inputs[place] if place < len(node.inputs) else None


def _scales_by_one(node: NodeSpec, place: int, graph: GraphView) -> bool:
    scales = _list(node, 1 if node.op_type == "Upsample" else 2)
    given = node.attributes.get("scales") if scales is None else graph.constant(scales.name)
    return given is not None and place < len(given) and float(given[place]) == 1.0


def _size(value: ValueSpec, axis: int, graph: GraphView) -> _Size:
    """The size of a value along an axis: a number, or the earliest value that has the same."""
    for _ in range(_STEPS):
        if value.shape is not None and axis < len(value.shape) and isinstance(size := value.shape[axis], int):
            return size
        maker = _maker(value, graph)
        source = None if maker is None or not maker.inputs else maker.inputs[0]
        if maker is None or source is None:
            break
        same = maker.op_type in _SAME_SHAPE or (axis < 2 and maker.op_type in _SAME_CHANNELS)
        if not same and not (axis == 0 and maker.op_type in _SAME_BATCH):
            break
        value = source
    return (value.name, axis)


def _entry(value: ValueSpec | None, place: int, graph: GraphView) -> _Size:
    """The size that an entry of a list of sizes is."""
    for _ in range(_STEPS):
        if value is None:
            return None
        constant = graph.constant(value.name)
        if constant is not None:
            return int(constant.reshape(-1)[place]) if place < constant.size else None
        maker = _maker(value, graph)
        source = maker.inputs[0] if maker is not None and maker.inputs else None
        if maker is None or source is None:
            return None
        match maker.op_type:
            case "Shape":
                if source.shape is None:
                    return None
                start, rank = int(maker.attributes.get("start", 0)), len(source.shape)
                first = min(max(start + rank if start < 0 else start, 0), rank)
                return _size(source, first + place, graph) if first + place < rank else None
            case "Identity" | "Unsqueeze" | "Squeeze" | "Cast":
                value = source
            case "Gather":
                index, length = _numbers(maker, 1, graph), _length(source)
                if index is None or length is None or place >= len(index) or not -length <= index[place] < length:
                    return None
                value, place = source, index[place] % length
            case "Slice":
                starts, length = _numbers(maker, 1, graph), _length(source)
                steps = _numbers(maker, 4, graph) if len(maker.inputs) > 4 else [1]
                if starts is None or length is None or len(starts) != 1 or steps != [1]:
                    return None
                first = min(max(starts[0] + length if starts[0] < 0 else starts[0], 0), length)
                value, place = source, place + first
                if place >= length:
                    return None
            case "Concat":
                for part in maker.inputs:
                    length = None if part is None else _length(part)
                    if length is None:
                        return None
                    if place < length:
                        value = part
                        break
                    place -= length
                else:
                    return None
            case _:
                return None
    return None


def _maker(value: ValueSpec, graph: GraphView) -> NodeSpec | None:
    index = graph.producer(value.name)
    node = None if index is None else graph.nodes[index]
    return node if node is not None and not node.domain and node.outputs[0] == value else None


def _length(value: ValueSpec) -> int | None:
    """The number of entries of a list; 1 for a scalar."""
    if value.shape is None or len(value.shape) > 1:
        return None
    size = value.shape[0] if value.shape else 1
    return size if isinstance(size, int) else None


def _numbers(node: NodeSpec, place: int, graph: GraphView) -> list[int] | None:
    value = _list(node, place)
    constant = None if value is None else graph.constant(value.name)
    return None if constant is None else [int(one) for one in constant.reshape(-1)]
