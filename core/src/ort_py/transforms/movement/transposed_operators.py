"""Operators on transposed inputs: the same node with other axes, and the permutation of its results.

Used by `transpose_pushing`. A permutation ``p`` of a value says that the value is ``Transpose(other, perm=p)`` of the
one that is computed instead: axis ``i`` of the value is axis ``p[i]`` of the other. It is independent of the structure
of graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, TypeAlias

import numpy as np

from ort_py.contracts import Array, GraphEditor, NodeSpec, ValueSpec
from ort_py.dtypes import DataType, numpy_dtype
from ort_py.lazy_dataclass import dataclass

Permutation: TypeAlias = tuple[int, ...]


_COPIED = 1 << 20
"""Bytes of a constant that may be held in two layouts."""


@dataclass(slots=True)
class Pushed:
    """A node on transposed inputs.

    Attributes:
        replaced: Inputs that become new constants, by position.
        turned: Positions of inputs that are not transposed yet, and how they must be.
    """

    outputs: tuple[Permutation, ...]
    attributes: dict[str, Any]
    replaced: dict[int, Array] = field(default_factory=dict)
    turned: dict[int, Permutation] = field(default_factory=dict)


_Handler: TypeAlias = Callable[[NodeSpec, Mapping[str, Permutation], GraphEditor], "Pushed | None"]


def push(node: NodeSpec, known: Mapping[str, Permutation], graph: GraphEditor) -> Pushed | None:
    """The node applied to the replacements of the values in `known`, or None if it cannot be expressed this way."""
    handler = _HANDLERS.get(node.op_type)
    if handler is None or node.domain or node.body is not None:
        return None
    return handler(node, known, graph)


def inverse(permutation: Permutation) -> Permutation:
    return tuple(sorted(range(len(permutation)), key=permutation.__getitem__))


def is_identity(permutation: Permutation) -> bool:
    """Return whether a permutation keeps all axes in place."""
    return permutation == tuple(range(len(permutation)))


def _first(node: NodeSpec, known: Mapping[str, Permutation]) -> Permutation | None:
    value = node.inputs[0]
    return None if value is None else known.get(value.name)


def _only_first(node: NodeSpec, known: Mapping[str, Permutation]) -> Permutation | None:
    """The permutation of the first input, or None if another one is transposed too."""
    others = [value for value in node.inputs[1:] if value is not None and value.name in known]
    return None if others else _first(node, known)


def _unary(node: NodeSpec, known: Mapping[str, Permutation], graph: GraphEditor) -> Pushed | None:
    permutation = _only_first(node, known)
    # Bounds, scales and types beside the data are single numbers, or it is another operator.
    if permutation is None or any(value is not None and not _single(value) for value in node.inputs[1:]):
        return None
    return Pushed((permutation,) * len(node.outputs), dict(node.attributes))


def _single(value: ValueSpec) -> bool:
    return value.shape is not None and all(size == 1 for size in value.shape)


def _elementwise(node: NodeSpec, known: Mapping[str, Permutation], graph: GraphEditor) -> Pushed | None:
    if node.since_version < 7 and node.op_type not in ("Concat", "Sum", "Max", "Min", "Mean"):
        return None  # broadcasting was an attribute
    permutation = next(known[value.name] for value in node.inputs if value is not None and value.name in known)
    pushed = Pushed((permutation,), dict(node.attributes))
    rank = len(permutation)
    back = inverse(permutation)
    for position, value in enumerate(node.inputs):
        if value is None or value.shape is None or len(value.shape) > rank:
            return None
        if value.name in known:
            if known[value.name] != permutation:
                return None
        elif _single(value) and node.op_type != "Concat":
            continue
        elif value.constant:
            array = graph.constant(value)
            if array is None or (array.nbytes > _COPIED and graph.uses(value) != 1):
                return None
            array = array.reshape((1,) * (rank - array.ndim) + array.shape)
            pushed.replaced[position] = array.transpose(back)
        elif len(value.shape) == rank:
            pushed.turned[position] = back
        else:
            return None
    if node.op_type == "Concat":
        pushed.attributes["axis"] = permutation[node.attributes.get("axis", 1) % rank]
    return pushed


def _along(default: int, *, since: int = 1) -> _Handler:
    """Make a handler for operators with one attribute `axis` that keep the rank."""

    def handler(node: NodeSpec, known: Mapping[str, Permutation], graph: GraphEditor) -> Pushed | None:
        permutation = _only_first(node, known)
        if permutation is None or node.since_version < since:
            return None
        axis = permutation[node.attributes.get("axis", default) % len(permutation)]
        return Pushed((permutation,) * len(node.outputs), {**node.attributes, "axis": axis})

    return handler


def _quantise(node: NodeSpec, known: Mapping[str, Permutation], graph: GraphEditor) -> Pushed | None:
    by_number = _unary(node, known, graph)
    if by_number is not None:
        return by_number
    if node.attributes.get("block_size", 0):
        return None
    return _along(1, since=13)(node, known, graph)


def _axes(node: NodeSpec, graph: GraphEditor, position: int) -> Sequence[int] | None:
    """Axes of a node, from an attribute or a constant input, or None if they are not given or not known."""
    if "axes" in node.attributes:
        return tuple(node.attributes["axes"])
    array = graph.constant(node.inputs[position]) if position < len(node.inputs) else None
    return None if array is None else tuple([int(axis) for axis in array.reshape(-1)])


def _with_axes(node: NodeSpec, pushed: Pushed, position: int, axes: Sequence[int]) -> Pushed:
    if "axes" in node.attributes:
        pushed.attributes["axes"] = tuple(axes)
    else:
        pushed.replaced[position] = np.array(axes, np.int64)
    return pushed


def _reduce(node: NodeSpec, known: Mapping[str, Permutation], graph: GraphEditor) -> Pushed | None:
    permutation, axes = _only_first(node, known), _axes(node, graph, 1)
    if permutation is None or not axes:
        return None
    rank = len(permutation)
    axes = [axis % rank for axis in axes]
    result = permutation if node.attributes.get("keepdims", 1) == 1 else _without(permutation, axes)
    pushed = Pushed((result,), dict(node.attributes))
    return _with_axes(node, pushed, 1, sorted(permutation[axis] for axis in axes))


def _without(permutation: Permutation, axes: Sequence[int]) -> Permutation:
    """The rest of a permutation after some axes are removed."""
    kept = [place for axis, place in enumerate(permutation) if axis not in axes]
    order = sorted(kept)
    return tuple([order.index(place) for place in kept])


def _arg(node: NodeSpec, known: Mapping[str, Permutation], graph: GraphEditor) -> Pushed | None:
    permutation = _first(node, known)
    if permutation is None:
        return None
    axis = node.attributes.get("axis", 0) % len(permutation)
    result = permutation if node.attributes.get("keepdims", 1) == 1 else _without(permutation, [axis])
    return Pushed((result,), {**node.attributes, "axis": permutation[axis]})


def _squeeze(node: NodeSpec, known: Mapping[str, Permutation], graph: GraphEditor) -> Pushed | None:
    permutation, axes = _only_first(node, known), _axes(node, graph, 1)
    if permutation is None or not axes:
        return None
    axes = [axis % len(permutation) for axis in axes]
    pushed = Pushed((_without(permutation, axes),), dict(node.attributes))
    return _with_axes(node, pushed, 1, sorted(permutation[axis] for axis in axes))


def _unsqueeze(node: NodeSpec, known: Mapping[str, Permutation], graph: GraphEditor) -> Pushed | None:
    permutation, axes = _only_first(node, known), _axes(node, graph, 1)
    if permutation is None or axes is None:
        return None
    rank = len(permutation) + len(axes)
    added = sorted(axis % rank for axis in axes)
    places = [axis for axis in range(rank) if axis not in added]  # where the axes before stand in the new input
    before = iter(permutation)
    result = tuple([axis if axis in added else places[next(before)] for axis in range(rank)])
    return _with_axes(node, Pushed((result,), dict(node.attributes)), 1, added)


def _slice(node: NodeSpec, known: Mapping[str, Permutation], graph: GraphEditor) -> Pushed | None:
    permutation = _only_first(node, known)
    if permutation is None:
        return None
    axes = _axes(node, graph, 3)
    if axes is None:
        if len(node.inputs) > 3 and node.inputs[3] is not None:
            return None
        starts = node.attributes.get("starts") if node.since_version < 10 else graph.constant(node.inputs[1])
        if starts is None:
            return None
        axes = range(len(starts))
    pushed = Pushed((permutation,), dict(node.attributes))
    moved = tuple([permutation[axis % len(permutation)] for axis in axes])
    if node.since_version < 10:
        pushed.attributes["axes"] = moved
    else:
        ends = node.inputs[2]
        if ends is None or ends.data_type not in (DataType.INT32, DataType.INT64):
            return None
        pushed.replaced[3] = np.array(moved, numpy_dtype(ends.data_type))  # of the same type as the ends
    return pushed


def _pad(node: NodeSpec, known: Mapping[str, Permutation], graph: GraphEditor) -> Pushed | None:
    permutation = _only_first(node, known)
    if permutation is None or node.since_version < 2:
        return None
    if len(node.inputs) > 3 and node.inputs[3] is not None:
        axes = graph.constant(node.inputs[3])
        if axes is None:
            return None
        pushed = Pushed((permutation,), dict(node.attributes))
        pushed.replaced[3] = np.array([permutation[int(axis) % len(permutation)] for axis in axes], np.int64)
        return pushed
    widths = node.attributes.get("pads") if node.since_version < 11 else graph.constant(node.inputs[1])
    if widths is None:
        return None
    rank = len(permutation)
    moved = [0] * (2 * rank)
    for axis, place in enumerate(permutation):
        moved[place], moved[rank + place] = int(widths[axis]), int(widths[rank + axis])
    pushed = Pushed((permutation,), dict(node.attributes))
    if node.since_version < 11:
        pushed.attributes["pads"] = tuple(moved)
    else:
        pushed.replaced[1] = np.array(moved, np.int64)
    return pushed


_UNARY = """
    Abs Acos Acosh Asin Asinh Atan Atanh BitwiseNot Cast Ceil Celu Clip Cos Cosh Elu Erf Exp Floor Gelu HardSigmoid
    HardSwish Identity IsInf IsNaN LeakyRelu Log Mish Neg Not Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin
    Sinh Softplus Softsign Sqrt Swish Tan Tanh ThresholdedRelu
"""

_BROADCASTING = """
    Add And BitwiseAnd BitwiseOr BitwiseXor Concat Div Equal Greater GreaterOrEqual Less LessOrEqual Max Mean Min
    Mod Mul Or Pow Sub Sum Where Xor
"""

_REDUCTIONS = """
    ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum
    ReduceSumSquare
"""

_HANDLERS: Mapping[str, _Handler] = {
    **dict.fromkeys(_UNARY.split(), _unary),
    **dict.fromkeys(_BROADCASTING.split(), _elementwise),
    **dict.fromkeys(_REDUCTIONS.split(), _reduce),
    **dict.fromkeys(("Hardmax", "LogSoftmax", "Softmax"), _along(-1, since=13)),
    **dict.fromkeys(("ArgMax", "ArgMin"), _arg),
    **dict.fromkeys(("DequantizeLinear", "QuantizeLinear"), _quantise),
    "Pad": _pad,
    "Slice": _slice,
    "Split": _along(0, since=2),
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
}
