"""Nodes of float16 that are computed in float32, with a Cast where a value enters and where it leaves.

XNNPACK adds products of float16 in float16: of 1,024 products the sum is off by ten times what the table of tolerances
allows, and its functions with several roundings by up to three times. So these nodes get numbers of float32, and their
results are rounded once. It does not know graphs.
"""

from __future__ import annotations

from dataclasses import replace

from ort_py.contracts import NodeSpec, ValueSpec
from ort_py.dtypes import DataType, TensorType

__all__ = ["cast", "is_half", "is_widened", "of_float32"]

_MS = "com.microsoft"

_WIDENED = frozenset(
    [
        ("", "AveragePool"), ("", "BatchNormalization"), ("", "Conv"), ("", "ConvTranspose"), ("", "Elu"), ("", "Gelu"),
        ("", "Gemm"), ("", "HardSigmoid"), ("", "MatMul"), ("", "RMSNormalization"), ("", "Resize"),
        ("", "SimplifiedLayerNormalization"), ("", "Softmax"), ("", "Sum"), (_MS, "SkipSimplifiedLayerNormalization"),
    ]
)  # fmt: skip


def is_widened(node: NodeSpec) -> bool:
    """Return whether a node is of float16, and computed in float32."""
    values = (*node.inputs, *node.outputs)
    return (node.domain, node.op_type) in _WIDENED and any(map(is_half, values))


def of_float32(value: ValueSpec | None, kind: str = "float32") -> ValueSpec | None:
    """The value of float32 that stands for one of float16, of a name with `kind` in it; or the value itself."""
    if value is None or not is_half(value) or not isinstance(value.type, TensorType):
        return value
    return replace(value, name=f"{value.name}:{kind}", type=replace(value.type, data_type=DataType.FLOAT))


def cast(node: NodeSpec, value: ValueSpec, to: ValueSpec) -> NodeSpec:
    """The part of a node that casts a value to another one."""
    kind = 1 if to.data_type is DataType.FLOAT else 10
    return replace(
        node, op_type="Cast", domain="", since_version=13, inputs=(value,), outputs=(to,), attributes={"to": kind}
    )


def is_half(value: ValueSpec | None) -> bool:
    """Return whether a value is of float16."""
    return value is not None and value.data_type is DataType.FLOAT16
