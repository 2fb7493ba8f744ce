"""The function of a fused MultiHeadAttention, in standard operators: for providers that lack the operator.

Used by `attention`. Equal forms give one body, which a graph may compare by identity.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ort_py.contracts import FunctionBody, NodeTemplate
from ort_py.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Form:
    """The variant of a MultiHeadAttention.

    Attributes:
        size: Columns of a head's queries and keys.
        joined: Whether keys and values are ``(batch, length, heads · size)``; else ``(batch, heads, length, size)``.
        biased: Whether something is added to the scores.
        past: Whether keys and values of the past come before the new ones.
        guarded: Whether rows of NaN become rows of zeros after the softmax.
        dtype: Name of the NumPy type of all tensors.
    """

    heads: int
    size: int
    value_size: int
    scale: float
    joined: bool
    biased: bool
    past: bool
    guarded: bool
    dtype: str
    opset: int


@lru_cache(maxsize=256)
def attention_body(form: Form) -> FunctionBody:
    """The nodes that a form of MultiHeadAttention stands for."""
    nodes: list[NodeTemplate] = []
    constants = {
        "scale": np.array(form.scale, form.dtype),
        "split": np.array([0, 0, form.heads, form.size], np.int64),
        "split_values": np.array([0, 0, form.heads, form.value_size], np.int64),
        "join": np.array([0, 0, form.heads * form.value_size], np.int64),
    }

    def add(op_type: str, output: str, *inputs: str, **attributes: object) -> str:
        nodes.append(NodeTemplate(op_type, inputs, (output,), dict(attributes)))
        return output

    def split(name: str, shape: str) -> str:
        rows = add("Reshape", f"{name}_rows", name, shape)
        return add("Transpose", f"{name}_heads", rows, perm=(0, 2, 1, 3))

    query = split("query", "split")
    key = split("key", "split") if form.joined else "key"
    value = split("value", "split_values") if form.joined else "value"
    if form.past:
        key = add("Concat", "present_key", "past_key", key, axis=2)
        value = add("Concat", "present_value", "past_value", value, axis=2)
    transposed = add("Transpose", "transposed", key, perm=(0, 1, 3, 2))
    scaled = add("Mul", "scaled", query, "scale")
    scores = add("MatMul", "scores", scaled, transposed)
    if form.biased:
        scores = add("Add", "biased", scores, "bias")
    weights = add("Softmax", "weights", scores, axis=-1 if form.opset >= 13 else 3)
    if form.guarded:
        unknown = add("IsNaN", "unknown", weights)
        constants["zero"] = np.array(0, form.dtype)
        weights = add("Where", "seen", unknown, "zero", weights)
    weighted = add("MatMul", "weighted", weights, value)
    rows = add("Transpose", "rows", weighted, perm=(0, 2, 1, 3))
    add("Reshape", "result", rows, "join")
    used = {name for node in nodes for name in node.inputs}
    inputs = ["query", "key", "value", "", "", "bias" if form.biased else ""]
    if form.past:
        inputs += ["past_key", "past_value"]
    while not inputs[-1]:
        inputs.pop()
    return FunctionBody(
        tuple(inputs),
        ("result", "present_key", "present_value") if form.past else ("result",),
        tuple(nodes),
        {name: array for name, array in constants.items() if name in used},
        {"": form.opset},
    )
