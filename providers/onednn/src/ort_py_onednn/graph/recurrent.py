"""Recurrent nodes of a region: their weights in the order of gates that oneDNN has, once, when the region is compiled.

ONNX keeps (directions, gates · hidden, inputs); here gates are a dimension of their own. Biases of inputs and states
are one, but for a GRU that is linear before its reset. Comes before `lowering.recurrent`, which finds in an operation:
inputs (sequence, weights, weights of the state, bias, state, cell, peephole), None where absent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ort_py.contracts import NodeSpec, RegionView
from ort_py_onednn.graph.operation import Operation

__all__ = ["recurrent_operation"]

_ORDER = {"LSTM": (0, 2, 3, 1), "GRU": (0, 1, 2), "RNN": (0,)}
"""Place in ONNX's weights of each gate of oneDNN's."""

_PEEPHOLES = (0, 2, 1)
"""ONNX: i, o, f. oneDNN: i, f, o."""

Array = np.ndarray[Any, Any]


def recurrent_operation(node: NodeSpec, region: RegionView) -> tuple[Operation, Mapping[str, Array]]:
    """A recurrent node as an operation, and the constants it reads."""
    order = list(_ORDER[node.op_type])
    names = [None if value is None else value.name for value in node.inputs] + [None] * 8
    constants: dict[str, Array] = {}

    def keep(title: str, array: Array) -> str:
        name = f"{node.name}:{title}"
        constants[name] = np.ascontiguousarray(array, np.float32)
        return name

    def gates(place: int, count: int) -> Array:
        name = names[place]
        array = None if name is None else region.constant(name)
        assert array is not None, "weights are constants: support says so"
        directions, _, *rest = array.shape
        return np.asarray(array).reshape(directions, count, -1, *rest)

    weights = gates(1, len(order))[:, order]
    states = gates(2, len(order))[:, order]
    directions, _, hidden, _ = states.shape
    if names[3] is None:
        both = np.zeros((directions, 2, len(order), hidden), np.float32)
    else:
        both = gates(3, 2 * len(order)).reshape(directions, 2, len(order), hidden)[:, :, order]
    if node.op_type == "GRU" and node.attributes.get("linear_before_reset", 0):
        # The candidate's second bias is inside of the product with the reset gate.
        summed = both[:, 0] + both[:, 1] * np.array([1, 1, 0], np.float32)[:, None]
        bias = np.concatenate([summed, both[:, 1, 2:]], axis=1)
    else:
        bias = both.sum(axis=1)
    peephole = None
    if node.op_type == "LSTM" and names[7] is not None:
        peephole = keep("peephole", gates(7, 3)[:, list(_PEEPHOLES)])
    inputs = (
        *(names[0], keep("weights", weights), keep("weights of the state", states), keep("bias", bias)),
        *(names[5], names[6] if node.op_type == "LSTM" else None, peephole),
    )
    outputs = tuple("" if value is None else value.name for value in node.outputs)
    return Operation(node.op_type, node.name, inputs, outputs, node.attributes, node.since_version), constants
