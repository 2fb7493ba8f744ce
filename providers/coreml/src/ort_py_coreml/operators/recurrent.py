"""Recurrent layers.

ONNX has the gates of an LSTM in the order input, output, forget, cell; MIL has them in the order input, forget, output,
cell. Those of a GRU are update, reset, hidden in ONNX, and reset, hidden, update in MIL. ONNX keeps directions on an
axis of their own, which MIL joins with the features of an LSTM; of the other layers it has one direction each.
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

_MOST_STEPS = 64
"""Steps that are written one after the other."""

_ACTIVATIONS = ["sigmoid", "tanh", "tanh"]


def _input(node: NodeSpec, place: int) -> ValueSpec | None:
    return node.inputs[place] if place < len(node.inputs) else None


def _check(node: NodeSpec, graph: Constants) -> str | None:
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
    x, back = lowering.read(node.inputs[0]), attribute(node, "direction", "forward") == "reverse"
    every, last, cell = mb.lstm(
        x=mb.reverse(x=x, axes=[0]) if back else x,
        initial_h=_state(lowering, node, 5, directions * hidden),
        initial_c=_state(lowering, node, 6, directions * hidden),
        direction="bidirectional" if directions == 2 else "forward",
        output_sequence=True,
        **weights,
    )

    every = mb.reverse(x=every, axes=[0]) if back else every  # Apple does not say how its own such layers order it

    def apart(x: Var, axis: int) -> Var:
        if directions == 1:
            return mb.expand_dims(x=x, axes=[axis])
        return mb.stack(values=mb.split(x=x, num_splits=2, axis=-1), axis=axis)

    return [apart(every, 1), apart(last, 0), apart(cell, 0)]


def _check_simple(node: NodeSpec, graph: Constants) -> str | None:
    usual = ["tanh"] if node.op_type == "RNN" else ["sigmoid", "tanh"]
    given = [str(name).lower() for name in attribute(node, "activations", usual)]
    if given != usual * (len(given) // len(usual)):
        return f"its activations are {', '.join(given)}"
    if attribute(node, "clip", 0.0) or attribute(node, "layout", 0):
        return "it clips the gates, or has the batch first"
    if _input(node, 4) is not None:
        return "it is given the lengths of sequences"
    steps = shape_of(node)[0]
    if _resets_first(node) and not (isinstance(steps, int) and steps <= _MOST_STEPS):
        return f"it resets the state before the product, MIL behind it, and it has not at most {_MOST_STEPS} steps"
    if not isinstance(shape_of(node)[1], int) and _input(node, 5) is None:
        return "it has no initial state, and the size of the batch is not known"
    return None


def _resets_first(node: NodeSpec) -> bool:
    return node.op_type == "GRU" and not attribute(node, "linear_before_reset", 0)


def _stepwise(
    lowering: Lowering,
    steps: int,
    x: Var,
    state: Var,
    w: np.ndarray[Any, Any],
    r: np.ndarray[Any, Any],
    bias: np.ndarray[Any, Any],
) -> tuple[Var, Var]:
    """Write a GRU that resets the state before its product one step after the other: MIL has no function for it."""
    mb, found = lowering.mb, []
    wide = mb.add(x=mb.matmul(x=x, y=w, transpose_y=True), y=bias)
    for_z, for_reset, for_hidden = np.split(r, 3)
    for step in range(steps):
        part = mb.squeeze(x=mb.slice_by_size(x=wide, begin=[step, 0, 0], size=[1, -1, -1]), axes=[0])
        z, reset, hidden = mb.split(x=part, num_splits=3, axis=1)
        z = mb.sigmoid(x=mb.add(x=z, y=mb.matmul(x=state, y=for_z, transpose_y=True)))
        reset = mb.sigmoid(x=mb.add(x=reset, y=mb.matmul(x=state, y=for_reset, transpose_y=True)))
        kept = mb.matmul(x=mb.mul(x=reset, y=state), y=for_hidden, transpose_y=True)
        hidden = mb.tanh(x=mb.add(x=hidden, y=kept))
        state = mb.add(x=hidden, y=mb.mul(x=z, y=mb.sub(x=state, y=hidden)))
        found.append(state)
    return mb.stack(values=found, axis=0), state


def _layer(lowering: Lowering, node: NodeSpec, x: Var, state: Var, direction: int) -> tuple[Var, Var]:
    """Write one direction of a simple layer. Returns the states of all steps, and the last one."""
    mb = lowering.mb
    wide, recurrent, biases = (constant(node, lowering.graph, place) for place in (1, 2, 3))
    assert wide is not None, "the table says that weights are constants"
    assert recurrent is not None, "the table says that weights are constants"
    w, r = np.asarray(wide[direction], np.float32), np.asarray(recurrent[direction], np.float32)
    of_inputs, of_states = np.zeros((2, len(w)), np.float32)
    if biases is not None:
        of_inputs, of_states = np.split(np.asarray(biases[direction], np.float32), 2)
    if node.op_type == "RNN":
        every, last = mb.rnn(
            x=x, initial_h=state, weight_ih=w, weight_hh=r, bias=of_inputs + of_states, output_sequence=True
        )
        return every, last
    if _resets_first(node):
        return _stepwise(lowering, shape_of(node)[0], x, state, w, r, of_inputs + of_states)
    size = r.shape[1]
    weights = _with_one(np.split(w, 3), np.split(r, 3), np.split(of_inputs, 3), np.split(of_states, 3))
    ones = mb.fill_like(ref_tensor=mb.slice_by_size(x=state, begin=[0, 0], size=[-1, 1]), value=np.float32(1))
    wider = mb.concat(values=[state, ones], axis=1)
    every, last = mb.gru(x=x, initial_h=wider, output_sequence=True, **weights)
    return (
        mb.slice_by_size(x=every, begin=[0, 0, 0], size=[-1, -1, size]),
        mb.slice_by_size(x=last, begin=[0, 0], size=[-1, size]),
    )


def _with_one(w: list[Any], r: list[Any], of_inputs: list[Any], of_states: list[Any]) -> dict[str, Any]:
    """Return the weights of MIL for a GRU with one more unit, whose state is always 1.

    ONNX multiplies the bias of the hidden gate's state by the reset gate, and MIL does not. As the weight of a state
    that is 1 it is multiplied, too. The state stays 1 because its update gate does: the sigmoid function of 100 is 1.
    """
    z, reset, hidden = range(3)
    kept = {z: 100.0, reset: 0.0, hidden: 0.0}
    behind = {z: 0.0, reset: 0.0, hidden: of_states[hidden]}
    found: dict[str, list[Any]] = {"weight_ih": [], "weight_hh": [], "bias": []}
    for gate in (reset, hidden, z):
        column = np.broadcast_to(np.float32(behind[gate]), len(r[gate]))[:, None]
        found["weight_ih"].append(np.pad(w[gate], ((0, 1), (0, 0))))
        found["weight_hh"].append(np.pad(np.concatenate([r[gate], column], axis=1), ((0, 1), (0, 0))))
        added = of_inputs[gate] if gate == hidden else of_inputs[gate] + of_states[gate]
        found["bias"].append(np.append(added, np.float32(kept[gate])))
    return {name: np.concatenate(parts).astype(np.float32) for name, parts in found.items()}


def _simple(lowering: Lowering, node: NodeSpec) -> list[Var]:
    """Write one layer for each direction. One that goes backwards gets its steps in reverse."""
    mb, x = lowering.mb, lowering.read(node.inputs[0])
    kind = attribute(node, "direction", "forward")
    backwards = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[kind]
    hidden = shape_of(node, 2)[2]
    given = _input(node, 5)
    every, last = [], []
    for direction, back in enumerate(backwards):
        if given is None:
            state = mb.const(val=np.zeros((shape_of(node)[1], hidden), np.float32))
        else:
            cut = mb.slice_by_size(x=lowering.read(given), begin=[direction, 0, 0], size=[1, -1, -1])
            state = mb.squeeze(x=cut, axes=[0])
        states, final = _layer(lowering, node, mb.reverse(x=x, axes=[0]) if back else x, state, direction)
        every.append(mb.reverse(x=states, axes=[0]) if back else states)
        last.append(final)
    return [mb.stack(values=every, axis=1), mb.stack(values=last, axis=0)]


OPERATORS = {
    "GRU": Operator(_simple, _check_simple, frozenset({1, 2, 3}), heavy=True, since=7),
    "LSTM": Operator(_lstm, _check, frozenset({1, 2, 3}), heavy=True, since=7),
    "RNN": Operator(_simple, _check_simple, frozenset({1, 2, 3}), heavy=True, since=7),
}
