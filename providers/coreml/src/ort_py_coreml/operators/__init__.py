"""The families of operators, and the reason why a node cannot be written in MIL, if there is one."""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any

import numpy as np

from ort_py.contracts import GraphView, NodeSpec, ValueSpec
from ort_py.dtypes import DataType
from ort_py.lazy_dataclass import dataclass
from ort_py_coreml.operators.operator import INTEGERS, Operator, shape_of

__all__ = ["CONTRIBUTED", "FAMILIES", "is_heavy", "operator_of", "refusal"]

FAMILIES: dict[str, str] = {
    "attention": "Attention",
    "elementwise": (
        "Abs Acos Add Asin Atan Atanh Ceil Clip Cos Cosh Div Elu Erf Exp Floor Gelu HardSigmoid HardSwish Identity "
        "LeakyRelu Log Max Mean Min Mish Mul Neg PRelu Pow Reciprocal Relu Round Selu Sigmoid Sign Sin Sinh Softplus "
        "Softsign Sqrt Sub Sum Swish Tan Tanh ThresholdedRelu"
    ),
    "logic": ("And Cast Equal Greater GreaterOrEqual Less LessOrEqual Not Or Where Xor"),
    "movement": (
        "Concat DepthToSpace Expand Flatten Gather GatherElements GatherND Pad Range Reshape Shape Slice SpaceToDepth "
        "Split Squeeze Tile Transpose Unsqueeze"
    ),
    "normalization": (
        "BatchNormalization GroupNormalization InstanceNormalization LRN LayerNormalization LogSoftmax "
        "RMSNormalization SimplifiedLayerNormalization Softmax"
    ),
    "products": "Gemm MatMul",
    "quantization": "DequantizeLinear",
    "recurrent": "GRU LSTM RNN",
    "reduction": (
        "GlobalAveragePool GlobalMaxPool ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin "
        "ReduceProd ReduceSum ReduceSumSquare"
    ),
    "resizing": "Resize",
    "rotary": "RotaryEmbedding",
    "sampling": "GridSample",
    "selection": "ArgMax ArgMin TopK",
    "windows": "AveragePool Conv ConvTranspose MaxPool",
}
"""Operators of each family. A family is a module of this package, imported when one of its operators is met."""

CONTRIBUTED: dict[str, str] = {
    "contributed.activations": "BiasGelu FastGelu Gelu QuickGelu",
    "contributed.attention": "Attention GroupQueryAttention MultiHeadAttention",
    "contributed.embedding": "EmbedLayerNormalization",
    "contributed.normalization": "SkipLayerNormalization SkipSimplifiedLayerNormalization",
    "contributed.products": "FusedConv FusedGemm FusedMatMul MatMulNBits",
    "contributed.rotary": "RotaryEmbedding",
}
"""The same for operators of com.microsoft."""

_HOMES = {
    (domain, name): family
    for domain, families in (("", FAMILIES), ("com.microsoft", CONTRIBUTED))
    for family, words in families.items()
    for name in words.split()
}
_BARE = frozenset(["Expand", "Flatten", "Range", "Reshape", "Shape", "Squeeze", "Transpose", "Unsqueeze"])
"""Operators whose first input may be without axes, beside those of single elements."""

_MOST_AXES = 5
_TITLES = {DataType.FLOAT: "float32"}


@cache
def operator_of(domain: str, name: str) -> Operator | None:
    """Return the record of an operator, or None if the provider does not know it."""
    family = _HOMES.get((domain, name))
    if family is None:
        return None
    operators: dict[str, Operator] = importlib.import_module(f"{__package__}.{family}").OPERATORS
    return operators[name]


def refusal(node: NodeSpec, graph: GraphView, *, static: bool = False, later: bool = True) -> str | None:
    """Explain why a node cannot be run by Core ML, or return None.

    Args:
        node: The node.
        graph: Its graph.
        static: Whether nodes with unknown sizes are refused.
        later: Whether programs are written for later systems than the oldest ones.
    """
    asked = _Asked(static, later)
    reason = _refusal(node, graph, asked)
    if reason is not None or node.domain or node.op_type not in ("DequantizeLinear", "Shape"):
        return reason
    if node.op_type == "Shape":
        return _left_reader(node, graph, asked)
    name = node.outputs[0].name if node.outputs[0] is not None else ""
    if any(value.name == name for value in graph.outputs):
        return "its result is an output, and Core ML has no constant outputs"
    readers = (_refusal(graph.nodes[index], graph, asked) for index in graph.consumers(name))
    return next((f"its result is read by another provider: {why}" for why in readers if why is not None), None)


def _left_reader(node: NodeSpec, graph: GraphView, asked: _Asked) -> str | None:
    """Return why integers that follow from a node are left to another provider, or None.

    Sizes of an input that another provider computes further would come back into what follows, and cut it in two; the
    other provider reads them from the input itself.
    """
    seen: set[int] = set()
    pending = _integer_readers(node, graph)
    while pending:
        index = pending.pop()
        if index in seen:
            continue
        seen.add(index)
        reader = graph.nodes[index]
        reason = _refusal(reader, graph, asked)
        if reason is not None:
            return f"{reader.op_type}, which reads what follows from it, is left to another provider: {reason}"
        pending += _integer_readers(reader, graph)
    return None


def _integer_readers(node: NodeSpec, graph: GraphView) -> list[int]:
    """Return the indices of the nodes that read integers of a node, the first one last."""
    values = [value for value in node.outputs if value is not None and value.data_type in INTEGERS]
    return [index for value in values for index in graph.consumers(value.name)][::-1]


@dataclass(frozen=True, slots=True)
class _Asked:
    """The arguments of `refusal`."""

    static: bool
    later: bool

    def refusal(self, operator: Operator, node: NodeSpec, graph: GraphView) -> str | None:
        """Return what the record of an operator says about a node."""
        return operator.check(node, graph) or (None if self.later else operator.later(node, graph))


def _refusal(node: NodeSpec, graph: GraphView, asked: _Asked) -> str | None:
    inner = graph.function(node)
    if inner is not None:
        return next((why for part in inner.nodes if (why := _refusal(part, inner, asked)) is not None), None)
    operator = operator_of(node.domain, node.op_type)
    if operator is None:
        return "the Core ML provider does not support this operator"
    if node.since_version < operator.since:
        return (
            f"version {node.since_version} of {node.op_type} has a different form; "
            f"versions from {operator.since} on are supported"
        )
    if shape_of(node) == () and not _takes_numbers(node):
        return f"its first input has no axes, and {node.op_type} is written for some"
    if node.op_type == "DequantizeLinear" and not node.domain:
        return asked.refusal(operator, node, graph) if _is_constant(node, graph) else "its data is not constant"
    if all(value is None or graph.constant(value.name) is not None for value in node.inputs):
        return "all its inputs are constants, and Core ML has no constant outputs"
    for place, value in enumerate(node.inputs):
        if value is None:
            continue
        if place in operator.constants:
            if graph.constant(value.name) is None and not (
                place in operator.dequantized and _is_dequantized(value, graph, asked)
            ):
                return f"input {place} is not a constant"
        elif (reason := _unfit(value, operator.kinds, graph.constant(value.name), static=asked.static)) is not None:
            return reason
    for value in node.outputs:
        if value is None or (value.shape is None and operator.few_axes and value.data_type in operator.kinds):
            continue
        reason = _unfit(value, operator.kinds, None, static=asked.static)
        if reason is not None:
            return reason
    return asked.refusal(operator, node, graph)


def _takes_numbers(node: NodeSpec) -> bool:
    """Return whether an operator is written for a first input that has no axes, or whose rank is not known."""
    first = node.inputs[0] if node.inputs else None
    if first is None or first.shape is None:
        return True
    return node.op_type in _BARE or _HOMES[node.domain, node.op_type] in ("elementwise", "logic")


def _is_constant(node: NodeSpec, graph: GraphView) -> bool:
    return all(value is None or graph.constant(value.name) is not None for value in node.inputs)


def _is_dequantized(value: ValueSpec, graph: GraphView, asked: _Asked) -> bool:
    """Return whether a value is made of constants by a node that becomes a constant of Core ML."""
    index = graph.producer(value.name)
    if index is None:
        return False
    node = graph.nodes[index]
    operator = operator_of("", node.op_type) if node.op_type == "DequantizeLinear" and node.domain == "" else None
    return operator is not None and _is_constant(node, graph) and asked.refusal(operator, node, graph) is None


def is_heavy(node: NodeSpec, graph: GraphView) -> bool:
    """Return whether a node that can be run is enough work for a region."""
    inner = graph.function(node)
    if inner is not None:
        return any(is_heavy(part, inner) for part in inner.nodes)
    operator = operator_of(node.domain, node.op_type)
    return operator is not None and operator.heavy


def _unfit(
    value: ValueSpec, kinds: frozenset[DataType], constant: np.ndarray[Any, Any] | None, *, static: bool
) -> str | None:
    if value.data_type not in kinds:
        kind = "unknown" if value.data_type is None else value.data_type.onnx_name
        known = ", ".join(_TITLES.get(one, one.onnx_name) for one in sorted(kinds))
        return f"'{value.name}' is {kind}; {known} is supported"
    if constant is not None and value.data_type is DataType.INT64 and np.any(constant != constant.astype(np.int32)):
        return f"a number of '{value.name}' is too large for int32, the only integers of Core ML"
    shape = value.shape
    if shape is None:
        return f"the rank of '{value.name}' is unknown"
    if len(shape) > _MOST_AXES:
        return f"'{value.name}' has {len(shape)} axes; Core ML supports at most {_MOST_AXES}"
    if 0 in shape:
        return f"'{value.name}' is empty"
    if static and not all(isinstance(dim, int) for dim in shape):
        return f"the sizes of '{value.name}' are not known, and RequireStaticInputShapes is set"
    return None
