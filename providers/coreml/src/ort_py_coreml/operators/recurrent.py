"""Recurrent layers: LSTM.

ONNX has the gates in the order input, output, forget, cell, and MIL in the order input, forget, output, cell. ONNX
keeps directions on an axis of their own, which MIL joins with the features.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ort_py.contracts import NodeSpec, ValueSpec
from ort_py_coreml.operators.operator import Constants, Operator, Var, attribute, constant, shape_of

if TYPE_CHECKING:
    from ort_py_coreml.lowering import Lowering

__all__ = ["OPERATORS"]

_GATES = (0, 2, 1, 3)
"""The place in ONNX's order of each gate in MIL's."""

_ACTIVATIONS = ["sigmoid", "tanh", "tanh"]


def _input(node: NodeSpec, place: int) -> ValueSpec | None:
    return node.inputs[place] if place < len(node.inputs) else None


def _check(node: NodeSpec, graph: Constants) -> str | None:
    if attribute(node, "direction", "forward") not in {"forward", "bidirectional"}:
        return "Apple does not document the order of the results of a layer that only goes backwards"
    given = [str(name).lower() for name in attribute(node, "activations", _ACTIVATIONS)]
    if given != _ACTIVATIONS * (len(given) // len(_ACTIVATIONS)):
        return f"its activations are {', '.join(given)}"
    if attribute(node, "clip", 0.0):
        return "it clips the gates, which MIL does differently"
    if attribute(node, "input_forget", 0) or attribute(node, "layout", 0):
        return "it couples gates, or has the batch first"
    if _input(node, 4) is not None:
        return "it is given the lengths of sequences"
    if _input(node, 7) is not None:
        return "it has peepholes"
    if not isinstance(shape_of(node)[1], int) and (_input(node, 5) is None or _input(node, 6) is None):
        return "it has no initial state, and the size of the batch is not known"
    return None


def _weights(node: NodeSpec, graph: Constants) -> dict[str, np.ndarray[Any, Any]]:
    """Return MIL's weights by name: of the forward direction, and of the other one with `_back` behind the name."""
    wide, recurrent, biases = (constant(node, graph, place) for place in (1, 2, 3))
    assert wide is not None, "the table says that weights are constants"
    assert recurrent is not None, "the table says that weights are constants"
    found: dict[str, np.ndarray[Any, Any]] = {}
    for direction, suffix in zip(range(wide.shape[0]), ("", "_back"), strict=False):
        found[f"weight_ih{suffix}"] = _reordered(wide[direction])
        found[f"weight_hh{suffix}"] = _reordered(recurrent[direction])
        if biases is not None:
            of_inputs, of_states = np.split(np.asarray(biases[direction], np.float32), 2)
            found[f"bias{suffix}"] = _reordered(of_inputs + of_states)
    return found


def _reordered(gates: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    parts = np.split(np.asarray(gates, np.float32), 4)
    return np.concatenate([parts[place] for place in _GATES])


def _state(lowering: Lowering, node: NodeSpec, place: int, width: int) -> Var:
    """Return an initial state with the directions side by side, which is zero if the node has none."""
    value = _input(node, place)
    if value is None:
        return np.zeros((shape_of(node)[1], width), np.float32)
    turned = lowering.mb.transpose(x=lowering.read(value), perm=[1, 0, 2])
    return lowering.mb.reshape(x=turned, shape=[-1, width])


def _lstm(lowering: Lowering, node: NodeSpec) -> list[Var]:
    mb, weights = lowering.mb, _weights(node, lowering.graph)
    directions, hidden = (2 if "weight_hh_back" in weights else 1), weights["weight_hh"].shape[1]
    every, last, cell = mb.lstm(
        x=lowering.read(node.inputs[0]),
        initial_h=_state(lowering, node, 5, directions * hidden),
        initial_c=_state(lowering, node, 6, directions * hidden),
        direction="bidirectional" if directions == 2 else "forward",
        output_sequence=True,
        **weights,
    )

    def apart(x: Var, axis: int) -> Var:
        if directions == 1:
            return mb.expand_dims(x=x, axes=[axis])
        return mb.stack(values=mb.split(x=x, num_splits=2, axis=-1), axis=axis)

    return [apart(every, 1), apart(last, 0), apart(cell, 0)]


OPERATORS = {"LSTM": Operator(_lstm, _check, frozenset({1, 2, 3}), heavy=True, since=7)}
