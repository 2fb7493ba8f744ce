"""All families' rules, and the question they answer: why a node cannot be run, if it cannot."""

from __future__ import annotations

import importlib
from collections.abc import Container, Iterable
from functools import cache

from ort_py.contracts import GraphView, NodeSpec, ValueSpec
from ort_py_onednn.graph.expansion import expand
from ort_py_onednn.graph.support.rule import Rule, Rules

__all__ = ["FAMILIES", "is_heavy", "read_while_planning", "refusal"]

FAMILIES: dict[str, str] = {
    "attention": ("Attention RotaryEmbedding com.microsoft:GroupQueryAttention com.microsoft:MultiHeadAttention"),
    "convolution": "Conv ConvTranspose",
    "elementwise": (
        "@Linear Abs Add Celu Clip Div Elu Erf Exp Gelu HardSigmoid HardSwish Identity LeakyRelu Log Max Min Mish Mul "
        "Neg PRelu Pow Reciprocal Relu Round Selu Sigmoid Sqrt Sub Sum Swish Tanh"
    ),
    "movement": (
        "Cast Concat ConstantOfShape DepthToSpace Expand Flatten Gather Pad Reshape Slice SpaceToDepth Split Squeeze "
        "Tile Transpose Unsqueeze"
    ),
    "normalization": (
        "BatchNormalization GroupNormalization InstanceNormalization LRN LayerNormalization LogSoftmax "
        "RMSNormalization Softmax"
    ),
    "pooling": ("AveragePool GlobalAveragePool GlobalMaxPool MaxPool ReduceMax ReduceMean ReduceMin ReduceSum"),
    "products": "Gemm MatMul",
    "quantized": (
        "@Bias ConvInteger DequantizeLinear DynamicQuantizeLinear MatMulInteger QuantizeLinear "
        "com.microsoft:DynamicQuantizeMatMul com.microsoft:MatMulIntegerToFloat com.microsoft:MatMulNBits"
    ),
    "recurrent": "GRU LSTM RNN com.microsoft:DynamicQuantizeLSTM",
    "resizing": "Resize Upsample",
}
"""Operators of each family, with their domain and a colon in front unless that is ``ai.onnx``.

A family is a module of this package, which is imported when one of its operators is met: regions of a model that is
restored from the cache meet few of them.
"""

_HOMES = {
    (domain, operator): family
    for family, words in FAMILIES.items()
    for domain, _, operator in (word.rpartition(":") for word in words.split())
}
_MOST_DIMENSIONS = 6


def refusal(node: NodeSpec, graph: GraphView, known: Container[str] = ()) -> str | None:
    """Explain why a node cannot be run here, or return None.

    Args:
        node: The node.
        graph: Its graph.
        known: Values that follow from shapes.
    """
    steps = expand(node)
    if steps is None:
        return "one of its attributes or outputs has no counterpart in oneDNN"
    for step in steps:
        reason = _refusal(step, graph, known)
        if reason is not None:
            return reason
    return None


def is_heavy(node: NodeSpec) -> bool:
    """Return whether a node that can be run pays for a region by itself."""
    rules = (_rule(step) for step in expand(node) or ())
    return any(rule is not None and rule.heavy for rule in rules)


def _rule(node: NodeSpec) -> Rule | None:
    return _rule_of(node.domain, node.op_type)


@cache
def _rule_of(domain: str, operator: str) -> Rule | None:
    family = _HOMES.get((domain, operator))
    if family is None:
        return None
    rules: Rules = importlib.import_module(f"{__package__}.{family}").RULES
    return rules[domain, operator]


def _refusal(node: NodeSpec, graph: GraphView, known: Container[str]) -> str | None:
    rule = _rule(node)
    if rule is None:
        return "the oneDNN provider does not support this operator"
    if node.since_version < rule.since:
        return (
            f"version {node.since_version} of {node.op_type} has a different form; "
            f"versions from {rule.since} on are supported"
        )
    for place, value in enumerate(node.inputs):
        if value is None:
            continue
        if place in rule.looked_at:
            if value.constant or (place in rule.shaped and value.name in known):
                continue
            what = "neither constant nor computed from shapes" if place in rule.shaped else "not a constant"
            return f"input {place} is {what}"
        reason = rule.types(value, place, True)
        if reason is None and (value.shape is not None or place not in rule.ranked):
            reason = _shape(value)
        if reason is not None:
            return reason
    for place, value in enumerate(node.outputs):
        reason = None if value is None else rule.types(value, place, False) or _shape(value)
        if reason is not None:
            return reason
    return rule.check(node, graph)


def read_while_planning(nodes: Iterable[NodeSpec], known: Container[str], inputs: Container[str]) -> frozenset[str]:
    """Names of the inputs of a region that are looked at before a run.

    Args:
        nodes: A region's nodes, fused operators written out.
        known: Values that follow from shapes.
        inputs: Names of the region's inputs.
    """
    found: set[str] = set()
    for node in nodes:
        read = [(place, value.name) for place, value in enumerate(node.inputs) if value and value.name in inputs]
        if not read:
            continue  # so that the rule of an operator inside is not imported for this question
        output = node.outputs[0]
        if output is not None and output.name in known:
            places = frozenset() if node.op_type in {"Shape", "Size"} else frozenset(range(len(node.inputs)))
        else:
            rule = _rule(node)
            places = frozenset() if rule is None else rule.looked_at
        found.update(name for place, name in read if place in places)
    return frozenset(found)


def _shape(value: ValueSpec) -> str | None:
    if value.shape is None:
        return f"the rank of '{value.name}' is unknown"
    if len(value.shape) > _MOST_DIMENSIONS:
        return f"'{value.name}' has {len(value.shape)} dimensions; at most {_MOST_DIMENSIONS} are supported"
    if 0 in value.shape:
        return f"'{value.name}' is empty"
    return None
