"""LSTM, GRU and RNN, of numbers or integers: whole sequences, constant weights, and the functions that cells have."""

from __future__ import annotations

from collections.abc import Sequence

from ort_py.contracts import GraphView, NodeSpec, ValueSpec
from ort_py.dtypes import DataType
from ort_py_onednn.binding.features import NO_EXACT_INTEGERS, has_exact_integers
from ort_py_onednn.graph.quantized_recurrent import layer_constants
from ort_py_onednn.graph.support.rule import Rule, Rules, shape_of, used_outputs, value_name

__all__ = ["RNN_ACTIVATIONS", "RULES"]

_DEFAULTS = {
    "DynamicQuantizeLSTM": ("Sigmoid", "Tanh", "Tanh"),
    "LSTM": ("Sigmoid", "Tanh", "Tanh"),
    "GRU": ("Sigmoid", "Tanh"),
    "RNN": ("Tanh",),
}
RNN_ACTIVATIONS = frozenset({"Relu", "LeakyRelu", "Sigmoid", "Tanh"})
"""Functions that a plain recurrent layer may have."""

_LENGTHS = 4
_STATES = frozenset({0, 5, 6})
"""The sequence and the states: three dimensions."""


def _recurrent(node: NodeSpec, graph: GraphView) -> str | None:
    return _cells(node, graph) or _weights(node, graph)


def _cells(node: NodeSpec, graph: GraphView) -> str | None:
    attributes = node.attributes
    if attributes.get("clip"):
        return "clipped cells"
    if attributes.get("input_forget", 0):
        return "its input and forget gates are coupled"
    if not used_outputs(node):
        return "none of its outputs is used"
    return _functions(node) or _lengths(node, graph)


def _functions(node: NodeSpec) -> str | None:
    usual = _DEFAULTS[node.op_type]
    names: Sequence[str] = node.attributes.get("activations") or ()
    directions = [tuple(names[start : start + len(usual)]) for start in range(0, len(names), len(usual))]
    for found in directions:
        known = found[0] in RNN_ACTIVATIONS if node.op_type == "RNN" else found == usual
        if not known:
            return f"activations {', '.join(found)}"
    if len(set(directions)) > 1 or len(set(node.attributes.get("activation_alpha") or ())) > 1:
        return "its directions have different activations"
    return None


def _lengths(node: NodeSpec, graph: GraphView) -> str | None:
    if not value_name(node, _LENGTHS):
        return None
    lengths, shape = graph.constant(value_name(node, _LENGTHS)), shape_of(node, 0)
    whole = shape[1 if node.attributes.get("layout", 0) else 0] if shape else None
    if lengths is None or not isinstance(whole, int) or any(int(one) != whole for one in lengths.reshape(-1)):
        return "its sequences have different lengths"
    return None


def _weights(node: NodeSpec, graph: GraphView) -> str | None:
    peephole = value_name(node, 7) if node.op_type == "LSTM" else ""
    for name in (value_name(node, 1), value_name(node, 2), value_name(node, 3), peephole):
        constant = graph.constant(name) if name else None
        if constant is not None and constant.dtype != "float32":
            return f"'{name}' is {constant.dtype}; only float32 is computed"
        if constant is not None and not constant.size:
            return f"'{name}' has no elements"
    return None


def _quantized(node: NodeSpec, graph: GraphView) -> str | None:
    if not has_exact_integers():
        return NO_EXACT_INTEGERS
    if value_name(node, 7):
        return "peepholes"
    found = layer_constants([value_name(node, place) for place in range(12)], graph.constant)
    return found if isinstance(found, str) else _cells(node, graph)


def _types_of_quantized(value: ValueSpec, place: int, is_input: bool) -> str | None:
    kind = "unknown" if value.data_type is None else value.data_type.onnx_name
    return None if value.data_type is DataType.FLOAT else f"'{value.name}' is {kind}; only float32 is computed"


RULES: Rules = {
    ("com.microsoft", "DynamicQuantizeLSTM"): Rule(
        _quantized,
        frozenset({1, 2, 3, 4, 7, 8, 9, 10, 11}),
        ranked=_STATES,
        types=_types_of_quantized,
        heavy=True,
    ),
    ("", "GRU"): Rule(_recurrent, frozenset({1, 2, 3, 4}), ranked=_STATES, heavy=True),
    ("", "LSTM"): Rule(_recurrent, frozenset({1, 2, 3, 4, 7}), ranked=_STATES, heavy=True),
    ("", "RNN"): Rule(_recurrent, frozenset({1, 2, 3, 4}), ranked=_STATES, heavy=True),
}
