"""Nodes that may be computed although the model might not have run them, because no input makes them fail.

Used by `loop_invariants`: a loop may run zero times, and a model must not fail at what it would not have computed. An
operator is not listed unless it gives a result whatever the content of what it reads. What is left are shapes that do
not fit: the table of constraints is asked for these. Sizes known by name count as unknown: nothing checks names when a
model is fed.

Not listed, and why: division and powers of integers, which fail for some; `Gather` by computed indices and what else
takes positions from data; `Expand`, `Tile`, `Range` and others that make much of little, which a loop would hold as
long as it runs; quantisation, which providers want to see beside the operator it belongs to; random numbers;
sequences, optional values and text; other domains; and nodes that hold graphs.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod

import numpy as np

from ort_py.contracts import GraphEditor, NodeSpec
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

_LISTED = frozenset(
    f"""{_ELEMENTWISE} {_ALONG_AXES}
    Concat Flatten Gather Gemm MatMul Reshape Shape Size Slice Squeeze Transpose Unsqueeze""".split()
)
"""The operators that move, if the constraints of the node hold for all sizes."""

_UNKNOWN = "its shapes are not known to fit"

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
    from ort_py.constraints.sizes import ProgramRecorder  # few models have loops
    from ort_py.constraints.trace import examine

    try:
        node = graph.infer(node)  # a body's types were inferred without the constants around it
    except OrtPyError:
        return "its shapes do not fit"
    if node.op_type == "Reshape":
        return "" if _reshape(node, graph) else _UNKNOWN
    if node.body is None:
        found = examine(node, graph.constant, partial(ProgramRecorder().input, natural=True))
        if found.violations or found.unchecked or found.requirements:
            return _UNKNOWN
    if node.body is not None or node.op_type in _ALONG_AXES:
        shapes = [value.shape for value in (*node.inputs, *node.outputs) if value is not None]
        if not all(shape is not None and all(isinstance(size, int) and size > 0 for size in shape) for shape in shapes):
            return _UNKNOWN
    return ""


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


def _reshape(node: NodeSpec, graph: GraphEditor) -> bool:
    """Return whether the product of the sizes that are not copied is divided, or completed, by the others."""
    value = graph.constant(node.inputs[1]) if len(node.inputs) > 1 else None
    shape = None if node.inputs[0] is None else node.inputs[0].shape
    if shape is None or value is None or value.ndim > 1:
        return False
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
