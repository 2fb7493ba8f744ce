"""Bounds of what nodes give: where they are known, no NaN can be lost, and nothing has to be watched.

Integers of 8 bits stand for numbers of a known size, and few operators make more of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ort_py.contracts import NodeSpec, ValueSpec
from ort_py.dtypes import DataType
from ort_py_xnnpack.graph.grids import BYTES

__all__ = ["UNBOUNDED", "bound_of", "is_counted"]

UNBOUNDED = 1e30
"""Magnitudes from which a sum of squares may be infinite."""

_STEPS = 256.0

_SAME = frozenset(
    [
        "Abs", "AveragePool", "Clip", "Concat", "DepthToSpace", "Flatten", "GlobalAveragePool", "GlobalMaxPool",
        "HardSwish", "Identity", "Max", "MaxPool", "Min", "Neg", "ReduceMax", "ReduceMean", "ReduceMin", "Relu",
        "Reshape", "Resize", "Slice", "SpaceToDepth", "Split", "Squeeze", "Transpose", "Unsqueeze",
    ]
)  # fmt: skip
"""Operators whose results are no larger than the largest of their operands."""
_ONE = frozenset({"HardSigmoid", "Sigmoid", "Softmax", "Tanh"})
_SUMS = frozenset({"Add", "Sub", "Sum"})
_PRODUCTS = frozenset({"Conv", "Gemm", "MatMul"})


def bound_of(node: NodeSpec, known: Callable[[ValueSpec], float]) -> float:
    """A number that no magnitude of a node's results exceeds; `UNBOUNDED` where there is none.

    Args:
        node: The node, whose operands are all bounded.
        known: Gives the bound of an operand.
    """
    if node.domain:
        return UNBOUNDED
    if node.op_type in _ONE:
        return 1.0
    values = [known(value) for value in node.inputs if value is not None and is_counted(value)]
    found = UNBOUNDED
    if node.op_type == "DequantizeLinear":
        data, scale = node.inputs[:2]
        narrow = data is not None and data.data_type in BYTES
        found = _STEPS * known(scale) if narrow and scale is not None else UNBOUNDED
    elif node.op_type in _SAME:
        found = max(values)
    elif node.op_type in _SUMS:
        found = sum(values)
    elif node.op_type == "Mul":
        found = math.prod(values)
    elif node.op_type in _PRODUCTS:
        weights = node.inputs[1]
        shape = () if weights is None or weights.shape is None else weights.shape
        count = math.prod(size if isinstance(size, int) else 1 << 20 for size in shape)
        found = values[0] * values[1] * count + sum(values[2:])
    return min(found, UNBOUNDED)


def is_counted(value: ValueSpec) -> bool:
    """Return whether the numbers of an operand are computed with: shapes and axes are not."""
    return value.data_type in {DataType.FLOAT, DataType.FLOAT16} or value.data_type in BYTES
