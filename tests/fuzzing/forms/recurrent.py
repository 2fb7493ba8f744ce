"""RNN, GRU and LSTM: directions, missing optional inputs, lengths of sequences, activations, layouts."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.fuzzing.builder import Builder
from tests.fuzzing.forms.registry import form
from tests.fuzzing.schemas import Rejected, Value

__all__: list[str] = []


@form(3)
def recurrent(g: Builder) -> None:
    """One recurrent layer."""
    op_type, gates = g.one(("RNN", 1), ("GRU", 3), ("LSTM", 4), ("LSTM", 4))
    source = g.data(3)
    layout = 1 if g.opset >= 14 and g.chance(0.15) else 0
    time, batch, inner = source.shape
    if layout:
        time, batch = batch, time
    if not time or not inner:
        raise Rejected("no steps")
    hidden = g.one(1, 2, 3, 5, 8)
    direction = g.one("forward", "forward", "reverse", "bidirectional")
    ways = 2 if direction == "bidirectional" else 1
    operands: list[Value | None] = [
        source,
        g.weights([ways, gates * hidden, inner], scale=0.4),
        g.weights([ways, gates * hidden, hidden], scale=0.4),
    ]
    operands.append(g.weights([ways, 2 * gates * hidden], scale=0.3) if g.chance(0.6) else None)
    if g.chance(0.4):
        if g.chance(0.5):
            lengths = g.const(g.numbers.integers(0 if g.chance(0.1) else 1, time + 1, batch).astype(np.int32))
        else:
            lengths = g.new_input([batch], "int32", role="count", bound=_declared(g, source, 1 if layout else 0))
        operands.append(lengths)
    else:
        operands.append(None)
    state = [batch, ways, hidden] if layout else [ways, batch, hidden]
    operands.append(g.weights(state) if g.chance(0.4) else None)
    if op_type == "LSTM":
        operands.append(g.weights(state) if g.chance(0.4) else None)
        operands.append(g.weights([ways, 3 * hidden], scale=0.3) if g.chance(0.2) else None)
    attributes: dict[str, Any] = {"hidden_size": hidden, "layout": layout or None}
    attributes["direction"] = direction if direction != "forward" or g.chance(0.5) else None
    if op_type == "GRU":
        attributes["linear_before_reset"] = g.one(None, 0, 1)
    if g.chance(0.15):
        attributes["clip"] = g.one(0.5, 3.0)
    if g.chance(0.15):
        plain = {"RNN": ["Relu"], "GRU": ["Sigmoid", "Relu"], "LSTM": ["Sigmoid", "Tanh", "Relu"]}[op_type]
        attributes["activations"] = plain * ways
    if op_type == "LSTM" and g.chance(0.1):
        attributes["input_forget"] = 1
    outputs = g.integer(1, 3 if op_type == "LSTM" else 2)
    made = g.emit(op_type, operands, outputs, **attributes)
    if made[0].rank == 4 and not layout and g.chance(0.5):
        if ways == 1:
            if g.opset < 13:
                g.emit("Squeeze", [made[0]], axes=[1])
            else:
                g.emit("Squeeze", [made[0], g.ints(1)])
        else:
            turned = g.emit("Transpose", [made[0]], perm=[0, 2, 1, 3])[0]
            if all(turned.shape):
                g.emit("Reshape", [turned, g.ints(0, 0, -1)])


def _declared(g: Builder, value: Value, axis: int) -> int | str:
    """The size of an axis as the graph's input declares it."""
    for one in g.inputs:
        if one.name == value.name:
            return one.shape[axis]
    return value.shape[axis]
