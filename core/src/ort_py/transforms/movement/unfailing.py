"""Nodes that may be computed although the model might not have run them, because no input makes them fail.

Used by `loop_invariants`: a loop may run zero times, and a model must not fail at what it would not have computed. An
operator is not listed unless it gives a result whatever the content of what it reads. What is left are shapes that do
not fit, and these are looked at here. Sizes known by name count as unknown: nothing checks names when a model is fed.

Not listed, and why: division and powers of integers, which fail for some; `Gather` by computed indices and what else
takes positions from data; `Expand`, `Tile`, `Range` and others that make much of little, which a loop would hold as
long as it runs; quantisation, which providers want to see beside the operator it belongs to; random numbers;
sequences, optional values and text; other domains; and nodes that hold graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod

import numpy as np

from ort_py.contracts import GraphEditor, NodeSpec, ValueSpec
from ort_py.dtypes import DataType, Dim, Shape
from ort_py.errors import OrtPyError

_ELEMENTWISE = """
    Abs Add And Atan Cast Ceil Celu Cos Div Elu Equal Erf Exp Floor Gelu Greater GreaterOrEqual HardSigmoid HardSwish
    IsInf IsNaN LeakyRelu Less LessOrEqual Log Max Mean Min Mish Mul Neg Not Or Pow Reciprocal Relu Round Selu Shrink
    Sigmoid Sign Sin Softplus Softsign Sqrt Sub Sum Swish Tanh ThresholdedRelu Where Xor
"""
"""Each element for itself: integers wrap around, floats become infinite or NaN. Shapes must broadcast."""

_OF_FLOATS = frozenset({"Div", "Pow", "Reciprocal"})
"""The operators of these that fail for some integers, or are not defined for them."""

_ALONG_AXES = """
    BatchNormalization Conv GroupNormalization InstanceNormalization LayerNormalization LogSoftmax RMSNormalization
    ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum
    ReduceSumSquare Softmax Split
"""
"""All sizes must be known, and none zero: a maximum of nothing does not exist."""

_FLOATS = frozenset({DataType.FLOAT, DataType.DOUBLE, DataType.FLOAT16, DataType.BFLOAT16})


def unfit(node: NodeSpec) -> str:
    """Explain why a node never moves; empty if its operator and its types allow it."""
    parts = [(node.op_type, node.domain)]
    if node.body is not None:
        parts = [(inner.op_type, inner.domain) for inner in node.body.nodes]
    if any(domain or op_type not in _LISTED for op_type, domain in parts) or (
        node.op_type == "BatchNormalization" and len(node.outputs) > 1
    ):
        return f"{node.op_type} is not among the operators that move"
    kinds = {value.data_type for value in (*node.inputs, *node.outputs) if value is not None}
    if None in kinds or DataType.STRING in kinds:
        return "not all it reads and writes is known to be tensors of numbers"
    if not _FLOATS.issuperset(kinds) and any(op_type in _OF_FLOATS for op_type, _ in parts):
        return f"{node.op_type} may fail for integers"
    return ""


def unsafe(node: NodeSpec, graph: GraphEditor) -> str:
    """Explain why a node that is not `unfit` may still fail; empty if it is known that it does not."""
    try:
        node = graph.infer(node)  # a body's types were inferred without the constants around it
    except OrtPyError:
        return "its shapes do not fit"
    positioned = node.op_type in _POSITIONED and node.body is None
    if positioned and any(value is not None and not value.constant for value in node.inputs[1:]):
        return "axes, sizes or positions are computed"
    if positioned and node.op_type != "Gather" and not all(map(_flat, node.inputs[1:])):
        return "axes, sizes or positions are not one list"
    fits = _all_known if node.body is not None else _LISTED[node.op_type]
    return "" if fits(node, graph) else "its shapes are not known to fit"


def _flat(value: ValueSpec | None) -> bool:
    return value is None or (value.shape is not None and len(value.shape) < 2)


def _always(_node: NodeSpec, _graph: GraphEditor) -> bool:
    return True


def _ranked(node: NodeSpec, _graph: GraphEditor) -> bool:
    """Axes were compared with the rank when types were inferred; sizes do not matter."""
    return all(value is None or value.shape is not None for value in (node.inputs[0], *node.outputs))


def _all_known(node: NodeSpec, _graph: GraphEditor) -> bool:
    shapes = [value.shape for value in (*node.inputs, *node.outputs) if value is not None]
    return all(shape is not None and all(isinstance(size, int) and size > 0 for size in shape) for shape in shapes)


def _elementwise(node: NodeSpec, _graph: GraphEditor) -> bool:
    shapes = [value.shape for value in node.inputs if value is not None]
    return len(shapes) == 1 or broadcast(shapes)


def broadcast(shapes: Sequence[Shape | None]) -> bool:
    """Return whether shapes broadcast for all values of the unknown sizes."""
    known = [shape[::-1] for shape in shapes if shape is not None]
    if len(known) < len(shapes):
        return False
    for axis in range(max(map(len, known), default=0)):
        wide = [shape[axis] for shape in known if axis < len(shape) and shape[axis] != 1]
        if len(wide) > 1 and not _equal(wide):
            return False
    return True


def _equal(sizes: Sequence[Dim]) -> bool:
    return all(isinstance(size, int) and size == sizes[0] for size in sizes)


def _shape(node: NodeSpec, position: int) -> Shape:
    """The shape of an input; empty if its rank is unknown, which never fits here."""
    value = node.inputs[position]
    return () if value is None or value.shape is None else value.shape


def _matmul(node: NodeSpec, _graph: GraphEditor) -> bool:
    left, right = _shape(node, 0), _shape(node, 1)
    if min(len(left), len(right)) < 2:
        return False
    return _equal((left[-1], right[-2])) and broadcast([left[:-2], right[:-2]])


def _gemm(node: NodeSpec, _graph: GraphEditor) -> bool:
    left, right = _shape(node, 0), _shape(node, 1)
    if len(left) != 2 or len(right) != 2:
        return False
    left = left[::-1] if node.attributes.get("transA", 0) else left
    right = right[::-1] if node.attributes.get("transB", 0) else right
    added = node.inputs[2] if len(node.inputs) > 2 else None
    if added is not None and (added.shape is None or len(added.shape) > 2):
        return False
    sizes = () if added is None or added.shape is None else added.shape
    result = (left[0], right[1])[2 - len(sizes) :]
    fits = all(size == 1 or _equal((size, whole)) for size, whole in zip(sizes, result, strict=True))
    return _equal((left[1], right[0])) and fits


def _concat(node: NodeSpec, _graph: GraphEditor) -> bool:
    shapes = [_shape(node, position) for position in range(len(node.inputs))]
    rank = len(shapes[0])
    if any(len(shape) != rank for shape in shapes):
        return False
    joined = node.attributes["axis"] % rank if rank else 0
    return rank > 0 and all(_equal([shape[axis] for shape in shapes]) for axis in range(rank) if axis != joined)


def _squeeze(node: NodeSpec, graph: GraphEditor) -> bool:
    axes = node.attributes.get("axes") if len(node.inputs) < 2 else graph.constant(node.inputs[1])
    shape = _shape(node, 0)
    return axes is not None and all(-len(shape) <= axis < len(shape) and shape[axis] == 1 for axis in np.ravel(axes))


def _unsqueeze(node: NodeSpec, graph: GraphEditor) -> bool:
    """Inference passes over axes that are out of range."""
    axes = node.attributes.get("axes") if len(node.inputs) < 2 else graph.constant(node.inputs[1])
    if axes is None or not _ranked(node, graph):
        return False
    rank = len(_shape(node, 0)) + len(axes)
    within = all(-rank <= axis < rank for axis in np.ravel(axes))
    return within and len({axis % rank for axis in np.ravel(axes)}) == len(axes)


def _slice(node: NodeSpec, graph: GraphEditor) -> bool:
    """Positions beyond the ends are allowed; a step of zero is an error."""
    steps = graph.constant(node.inputs[4]) if len(node.inputs) > 4 else None
    return _ranked(node, graph) and (steps is None or bool(np.all(steps)))


def _gather(node: NodeSpec, graph: GraphEditor) -> bool:
    shape, indices = _shape(node, 0), graph.constant(node.inputs[1])
    axis = node.attributes.get("axis", 0)
    size = shape[axis] if -len(shape) <= axis < len(shape) else None
    return isinstance(size, int) and indices is not None and bool(np.all((-size <= indices) & (indices < size)))


def _reshape(node: NodeSpec, graph: GraphEditor) -> bool:
    """Return whether the product of the sizes that are not copied is divided, or completed, by the others."""
    value = graph.constant(node.inputs[1]) if len(node.inputs) > 1 else None
    if not _ranked(node, graph) or value is None:
        return False
    shape = _shape(node, 0)
    target = [int(size) for size in np.ravel(value)]
    taken = {axis for axis, size in enumerate(target) if size == 0}
    if any(axis >= len(shape) for axis in taken) or (taken and node.attributes.get("allowzero", 0)):
        return False
    left = [size for axis, size in enumerate(shape) if axis not in taken]
    known = prod([size for size in left if isinstance(size, int)])
    wanted = prod([size for size in target if size > 0])
    if -1 in target:
        return known % wanted == 0
    return known == wanted and all(isinstance(size, int) for size in left)


_LISTED: Mapping[str, Callable[[NodeSpec, GraphEditor], bool]] = {
    **dict.fromkeys(_ELEMENTWISE.split(), _elementwise),
    **dict.fromkeys(_ALONG_AXES.split(), _all_known),
    **dict.fromkeys(("Shape", "Size"), _always),
    **dict.fromkeys(("Flatten", "Transpose"), _ranked),
    "Concat": _concat,
    "Gather": _gather,
    "Gemm": _gemm,
    "MatMul": _matmul,
    "Reshape": _reshape,
    "Slice": _slice,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
}
"""Operators that move, each with whether its shapes fit."""

_POSITIONED = frozenset({"Gather", "Reshape", "Slice", "Split", "Squeeze", "Unsqueeze"}).union(
    [name for name in _LISTED if name.startswith("Reduce")]
)
"""The operators of these whose further inputs are axes, sizes or positions."""
