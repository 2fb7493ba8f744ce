"""Which rule there is for an operator, and one node typed by it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from ort_py.dtypes import ValueType
from ort_py.graph.ir import Node, Value
from ort_py.graph.typing.rules.question import MALFORMED, UNKNOWN, Question, Rule, Uncovered, Unknown
from ort_py.onnx_operators import find

_FAMILIES = {
    "movement": "Shape Size Reshape Transpose Concat Split Slice Squeeze Unsqueeze Expand Tile Pad Flatten Gather"
    " GatherElements ConstantOfShape Range DepthToSpace SpaceToDepth",
    "products": "MatMul MatMulInteger Gemm",
    "windows": "Conv ConvInteger ConvTranspose AveragePool MaxPool GlobalAveragePool GlobalMaxPool Resize",
    "layers": "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum"
    " ReduceSumSquare ArgMax ArgMin BatchNormalization LayerNormalization RMSNormalization InstanceNormalization"
    " GRU LSTM RNN QuantizeLinear DequantizeLinear DynamicQuantizeLinear",
}
_FAMILY_OF = {name: family for family, names in _FAMILIES.items() for name in names.split()}
"""The module that has an operator's rule; `elementwise` where none is named."""

_NEWEST = 28
"""The newest version that the rules were compared with; a later one may say something else."""


@cache
def rule_of(op_type: str, domain: str, opset: int) -> tuple[Rule, int] | None:
    """The rule of an operator, and the version of its schema; None where there is no rule."""
    if domain:
        return None
    family = _FAMILY_OF.get(op_type, "elementwise")
    rules: dict[str, tuple[int, Rule]] = import_module(f"ort_py.graph.typing.rules.{family}").RULES
    found = rules.get(op_type)
    operator = find(op_type, domain, opset) if found is not None else None
    if found is None or operator is None or operator.deprecated:
        return None
    first, rule = found
    return (rule, operator.since_version) if first <= operator.since_version <= _NEWEST else None


def type_of(value: Value) -> ValueType | None:
    """The type that a value has by now."""
    return value.type


def ruled_types(
    node: Node,
    type_of: Callable[[Value], ValueType | None],
    contents: Callable[[Value], np.ndarray[Any, Any] | None],
    *,
    partly: bool = False,
) -> list[ValueType | None] | None:
    """Types of a node's outputs; None where ONNX's inference has to answer.

    Args:
        type_of: Gives the type of an input.
        contents: Gives the content of an input that shapes may depend on, where it is known.
        partly: Whether types of inputs may be unknown; otherwise ONNX's inference answers then.
    """
    found = rule_of(node.op_type, node.domain, node.opset_version)
    if found is None:
        return None
    rule, version = found
    inputs = node.inputs
    types: list[Any] = []
    for value in inputs:
        known: Any = None
        if value is not None:
            known = type_of(value)
            if known is None:
                if not partly:
                    return None
                known = UNKNOWN
        types.append(known)

    def content(place: int) -> np.ndarray[Any, Any] | None:
        value = inputs[place]
        return None if value is None else contents(value)

    try:
        answer = rule(Question(node.op_type, version, node.attributes, types, len(node.outputs), content))
    except (Uncovered, *MALFORMED):
        return None
    except Unknown:
        return [None] * len(node.outputs)
    outputs = node.outputs
    if len(outputs) == 1:
        return [answer[0]] if outputs[0] is not None else [None]
    if len(outputs) > len(answer):
        return None
    return [known if value is not None else None for value, known in zip(outputs, answer, strict=False)]
