"""Nodes that are refused before the parser is asked, and groups that are too small to be worth an engine.

What the parser would take, but ort-py must not leave to TensorRT: bodies of control flow, types that an engine does not
have, indices that nothing would check, and forms that the builder refuses later. Depends on neither the library nor a
device.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ort_py.contracts import GraphView, NodeSpec, ValueSpec
from ort_py.dtypes import DataType, TensorType
from ort_py_tensorrt.variants import Variant
from ort_py_tensorrt.wishes import Wishes

__all__ = ["group_refusal", "refusal"]

_TYPES = frozenset(
    {DataType.FLOAT, DataType.FLOAT16, DataType.BFLOAT16, DataType.INT32, DataType.INT64, DataType.BOOL}
    | {DataType.INT8, DataType.UINT8}
)

_OLDEST = 9
"""The oldest version of ONNX's operators that the parser is documented for.

https://docs.nvidia.com/deeplearning/tensorrt/latest/reference/onnx-opset-guide.html
"""

_INDEXING = frozenset({"Gather", "GatherElements", "GatherND", "Scatter", "ScatterElements", "ScatterND"})

_QUANTISING = frozenset({"DequantizeLinear", "QuantizeLinear"})

_HEAVY = frozenset(
    {"Attention", "Conv", "ConvTranspose", "Einsum", "GRU", "Gemm", "GroupQueryAttention", "LSTM", "MatMul"}
    | {"MatMulNBits", "MultiHeadAttention", "QLinearConv", "QLinearMatMul", "RNN"}
)

_LARGE = 1 << 20
"""Elements of a tensor from which work on it is worth a call of some 20 µs of a GPU that moves 2 TB/s."""

_UNKNOWN = 64
"""Guess for a size that only a run knows."""


def refusal(node: NodeSpec, graph: GraphView, variant: Variant, wishes: Wishes) -> str | None:
    """Explain why a node is not shown to the parser, or return None."""
    if node.op_type in wishes.excluded:
        return f"{variant.prefix}_op_types_to_exclude names {node.op_type}"
    if not node.domain and 0 < node.opset_version < _OLDEST:
        return f"the model has version {node.opset_version} of the operators, and the parser knows {_OLDEST} and later"
    if any(isinstance(value, GraphView) for value in node.attributes.values()):
        return "it holds graphs, which ort-py runs and asks about one by one"
    for value in (*node.inputs, *node.outputs):
        if value is not None and (reason := _foreign(value, variant)) is not None:
            return reason
    if node.op_type in _QUANTISING:
        for value in node.inputs[1:3]:
            if value is not None and graph.constant(value.name) is None:
                return f"'{value.name}' is computed in a run, and engines have constant scales and zero points"
    elif not node.op_type.startswith("QLinear"):
        for value in node.inputs:
            if value is not None and value.data_type is DataType.INT8 and graph.constant(value.name) is not None:
                return (
                    f"'{value.name}' is a constant of int8, which the builder takes in front of DequantizeLinear only"
                )
    if node.op_type == "ConvTranspose" and _wide(node, "strides") and _wide(node, "dilations"):
        return "its steps and its gaps are both larger than 1, for which the builder has no kernel"
    if node.op_type in _INDEXING and not node.domain:
        indices = node.inputs[1] if len(node.inputs) > 1 else None
        if indices is not None and graph.constant(indices.name) is None:
            return "its indices are known in a run only, and engines do not check them"
    return None


def group_refusal(nodes: Sequence[NodeSpec], wishes: Wishes) -> str | None:
    """Explain why a group is not worth an engine, or return None: it takes a product, or a large tensor."""
    if len(nodes) < wishes.smallest_region:
        return f"its region has {len(nodes)} nodes, and trt_min_subgraph_size is {wishes.smallest_region}"
    if wishes.claim_small or any(_pays(node) for node in nodes):
        return None
    return f"does not pay: too little work for a call, no product and no tensor of {_LARGE:,} elements or more"


def _wide(node: NodeSpec, name: str) -> bool:
    return any(size > 1 for size in node.attributes.get(name, ()))


def _foreign(value: ValueSpec, variant: Variant) -> str | None:
    if value.type is None:
        return f"the type of '{value.name}' is not known"
    if not isinstance(value.type, TensorType) or value.data_type not in _TYPES:
        return f"'{value.name}' is a {value.type}, which engines of {variant.title} do not have"
    if value.shape is None:
        return f"the number of axes of '{value.name}' is not known"
    if 0 in value.shape:
        return f"'{value.name}' has no elements, and engines are given no such values"
    return None


def _pays(node: NodeSpec) -> bool:
    if node.op_type in _HEAVY or node.body is not None:
        return True
    shapes = [value.shape for value in (*node.inputs, *node.outputs) if value is not None]
    return any(
        math.prod(size if isinstance(size, int) else _UNKNOWN for size in shape or ()) >= _LARGE for shape in shapes
    )
