"""Estimates of a node's arithmetic and memory traffic from operator, shapes and types.

It is independent of providers and time; `work_table` prices what is counted here. Orders of magnitude are enough: what
they decide is which side of a copy a node belongs to. Dimensions that are not known before a run count as a few.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from ort_py.contracts import NodeSpec, ValueSpec
from ort_py.dtypes import TensorType, nbytes_of
from ort_py.lazy_dataclass import dataclass

UNKNOWN_DIM = 16
"""Size taken for a dimension that is not known while planning."""


@dataclass(frozen=True, slots=True)
class Work:
    """Arithmetic and memory traffic of one run of a node.

    Attributes:
        flops: Multiplications and additions of a product; 0 for other operators.
        nbytes: Bytes read and written.
    """

    flops: float
    nbytes: float


def work_of(node: NodeSpec, sizes: dict[str, int] | None = None) -> Work:
    """Estimate the arithmetic and memory traffic of a node.

    Args:
        sizes: Cache of the bytes of values by name, for calls about many nodes. The function adds to it.
    """
    if node.op_type in _VIEWS:
        return Work(0.0, 0.0)
    known: dict[str, int] = {} if sizes is None else sizes
    nbytes = 0
    for value in (*node.inputs, *node.outputs):
        if value is not None:
            size = known.get(value.name)
            if size is None:
                size = known[value.name] = bytes_of(value)
            nbytes += size
    flops = _FLOPS.get(node.op_type)
    return Work(0.0 if flops is None else flops(node), nbytes)


def bytes_of(value: ValueSpec) -> int:
    """Bytes of a value, or of a pointer if it is not a tensor."""
    kind = value.type
    if not isinstance(kind, TensorType):
        return 8
    shape = (UNKNOWN_DIM,) if kind.shape is None else kind.shape
    return nbytes_of(kind.data_type, tuple([dim if isinstance(dim, int) else UNKNOWN_DIM for dim in shape]))


def _shape(values: tuple[ValueSpec | None, ...], position: int) -> tuple[int, ...]:
    value = values[position] if position < len(values) else None
    shape = None if value is None else value.shape
    if shape is None:
        return (UNKNOWN_DIM,)
    return tuple([dim if isinstance(dim, int) else UNKNOWN_DIM for dim in shape])


def _convolution(weight: int) -> Callable[[NodeSpec], float]:
    def flops(node: NodeSpec) -> float:
        # The weight is [out, in / groups, …]: all but the first axis are summed over for each element of the result.
        return 2.0 * math.prod(_shape(node.outputs, 0)) * math.prod(_shape(node.inputs, weight)[1:])

    return flops


def _transposed_convolution(node: NodeSpec) -> float:
    return 2.0 * math.prod(_shape(node.inputs, 0)) * math.prod(_shape(node.inputs, 1)[1:])


def _product(node: NodeSpec) -> float:
    left = _shape(node.inputs, 0)
    transposed = node.op_type in _WITH_TRANSPOSES and bool(node.attributes.get("transA"))
    summed = left[0 if transposed else -1] if left else 1
    return 2.0 * math.prod(_shape(node.outputs, 0)) * summed


def _recurrent(node: NodeSpec) -> float:
    steps = math.prod(_shape(node.inputs, 0)[:2])
    return 2.0 * steps * (math.prod(_shape(node.inputs, 1)) + math.prod(_shape(node.inputs, 2)))


def _attention(node: NodeSpec) -> float:
    queries, keys = _shape(node.inputs, 0), _shape(node.inputs, 1)
    return 4.0 * math.prod(queries) * (keys[-2] if len(keys) > 1 else UNKNOWN_DIM)


def _einsum(node: NodeSpec) -> float:
    left, right = _shape(node.inputs, 0), _shape(node.inputs, 1)
    # As if one axis were shared: the labels are not read for an estimate.
    shared = min(left[-1] if left else 1, right[-1] if right else 1)
    return 2.0 * math.prod(_shape(node.outputs, 0)) * shared


_FLOPS: Mapping[str, Callable[[NodeSpec], float]] = {
    **dict.fromkeys(("Conv", "ConvInteger", "FusedConv", "DeformConv"), _convolution(1)),
    "QLinearConv": _convolution(3),
    "ConvTranspose": _transposed_convolution,
    **dict.fromkeys(("MatMul", "MatMulInteger", "Gemm", "FusedMatMul", "FusedGemm", "MatMulNBits"), _product),
    **dict.fromkeys(("QLinearMatMul", "DynamicQuantizeMatMul", "MatMulIntegerToFloat", "QGemm"), _product),
    **dict.fromkeys(("LSTM", "GRU", "RNN"), _recurrent),
    **dict.fromkeys(("Attention", "MultiHeadAttention", "GroupQueryAttention"), _attention),
    "Einsum": _einsum,
}
"""Operators whose arithmetic outweighs what they read and write."""

_WITH_TRANSPOSES = frozenset({"Gemm", "FusedMatMul", "FusedGemm", "QGemm"})

_VIEWS = frozenset(
    {"Constant", "Flatten", "Identity", "Reshape", "Shape", "Size", "Squeeze", "Unsqueeze", "DimensionSize"}
)
"""They move nothing: a call is all they cost."""
