"""LSTM and GRU as nearly all models use them, default activations and nothing else: few calls a step.

The logistic function is ``(tanh(x / 2) + 1) / 2``, so all gates need one tanh together; the halving is done once, in
the weights, and is exact. Both directions of a layer take their steps at the same time. Within a step, gates lie one
behind the other, each contiguous: on arrays of some hundred elements, a call with strides takes three times as long as
one without. Comes before `recurrent_layers`, which chooses; `recurrent_cells` holds the general steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from ort_py.contracts.graph_view import Array
from ort_py.lazy_dataclass import dataclass

__all__ = ["KINDS", "Product", "Standard", "in_standard_form", "in_standard_order", "product_of", "run_standard"]

Product: TypeAlias = Callable[[Array, Array], object]
"""``f(h, out)``: ``(batch, hidden)`` times a direction's recurrence weights, written to ``out``; where there are two
directions, ``(directions, batch, hidden)`` times those of both."""


@dataclass(frozen=True, slots=True)
class Standard:
    """Arguments of the steps of a layer whose directions are all standard, besides the projected input.

    Attributes:
        kind: ``LSTM`` or ``GRU``.
        hidden: Hidden size.
        reverse: For each direction, whether it runs backwards.
        half: 0.5 as an array: at each step, converting a Python number would take as long as its use.
        product: With all gates of the recurrence weights; for a GRU that resets before its product, with the first two.
        product_last: With the last gate of a GRU that resets before its product.
        bias: Recurrence bias of a GRU's last gate, ``(hidden,)`` or, for two directions, ``(directions, 1, hidden)``;
            None if it is not part of that product.
    """

    kind: str
    hidden: int
    reverse: tuple[bool, ...]
    half: Array
    product: Product
    product_last: Product | None = None
    bias: Array | None = None


_GATES = {"LSTM": ((1, 0, 2, 3), 3), "GRU": ((0, 1, 2), 2)}
"""For each operator its gates in the order of the steps here (LSTM: o, i, f, candidate; GRU: z, r, candidate), and how
many of them, the first ones, go through the logistic function."""

KINDS = frozenset(_GATES)
"""Operators that have a standard form."""


def in_standard_order(xp: Any, kind: str, x: Array) -> Array:
    """Weights, biases or scales ``(…, gates · hidden)`` with their gates in the order of the steps here; a copy."""
    order = _GATES[kind][0]
    gates = xp.split(x, len(order), axis=-1)
    return xp.concatenate([gates[gate] for gate in order], axis=-1)


def in_standard_form(xp: Any, kind: str, x: Array) -> Array:
    """Convert like `in_standard_order`, with the logistic gates halved."""
    order, logistic = _GATES[kind]
    y = in_standard_order(xp, kind, x)
    y[..., : y.shape[-1] // len(order) * logistic] *= 0.5
    return y


def product_of(xp: Any, weights: Array) -> Product:
    """The product with recurrence weights ``(directions, hidden, gates · hidden)``."""
    if weights.shape[0] > 1:
        return lambda h, out: xp.matmul(h, weights, out=out)
    only = weights[0]
    return lambda h, out: xp.dot(h, only, out)  # begins sooner than `matmul`, which shows with few rows


def run_standard(
    xp: Any,
    layer: Standard,
    projected: Sequence[Array],
    h: Array,
    c: Array | None,
    check_time: Callable[[], None],
    every: int,
) -> tuple[Array, list[Array]]:
    """All steps of all directions.

    Args:
        xp: Array module.
        layer: The layer.
        projected: For each direction ``(time, batch, gates · hidden)``, in the form of `in_standard_form` with biases
            added; at least one step.
        h, c: Initial states ``(directions, batch, hidden)``, only read; `c` for LSTM.
        check_time: Raises where the time of the run is over.
        every: How many steps are between two calls of it.

    Returns:
        Y ``(time, directions, batch, hidden)``, and the last states: h and, for LSTM, c.
    """
    directions = len(projected)
    steps, batch, width = projected[0].shape
    y = xp.empty((steps, directions, batch, layer.hidden), h.dtype)
    if directions == 1:
        inputs, ordered, h, c = projected[0], y[:, 0], h[0], None if c is None else c[0]
        if layer.reverse[0]:
            inputs, ordered = inputs[::-1], ordered[::-1]
    else:
        inputs, ordered = xp.empty((steps, directions, batch, width), h.dtype), xp.empty_like(y)
        for d, backwards in enumerate(layer.reverse):
            inputs[:, d] = projected[d][::-1] if backwards else projected[d]
    states = [] if c is None else [_lstm(xp, layer, inputs, h, c, ordered, check_time, every)]
    if c is None:
        _gru(xp, layer, inputs, h, ordered, check_time, every)
    states.insert(0, (ordered[steps - 1] if steps else h).copy())
    if directions > 1:
        for d, backwards in enumerate(layer.reverse):
            y[:, d] = ordered[::-1, d] if backwards else ordered[:, d]
    return y, [state.reshape(directions, batch, layer.hidden) for state in states]


def _lstm(
    xp: Any,
    layer: Standard,
    inputs: Array,
    h: Array,
    c: Array,
    y: Array,
    check_time: Callable[[], None],
    every: int,
) -> Array:
    """The steps of an LSTM: from ``inputs[t]`` and the state before to ``y[t]``. Returns the last cell state."""
    memory = xp.empty((7, *h.shape), h.dtype)
    # The cell state stands behind the gates, so that i · candidate and f · cell are one call.
    gates, logistic, output, first, second = memory[:4], memory[:3], memory[0], memory[1:3], memory[3:5]
    cell, products, written, kept = memory[4], memory[5:], memory[5], memory[6]
    cell[...] = c
    sums, by_gate, inputs = _by_gate(xp, gates, inputs)
    product, half = layer.product, layer.half
    add, multiply, tanh = xp.add, xp.multiply, xp.tanh
    for t in range(y.shape[0]):
        if t % every == 0:
            check_time()
        product(h, sums)
        add(by_gate, inputs[t], gates)
        tanh(gates, gates)
        multiply(logistic, half, logistic)
        add(logistic, half, logistic)
        multiply(first, second, products)
        add(written, kept, cell)
        h = y[t]
        tanh(cell, h)
        multiply(h, output, h)
    return cell.copy()


def _gru(
    xp: Any, layer: Standard, inputs: Array, h: Array, y: Array, check_time: Callable[[], None], every: int
) -> None:
    """The steps of a GRU: from ``inputs[t]`` and the state before to ``y[t]``."""
    memory = xp.empty((4, *h.shape), h.dtype)
    gates, update, reset, candidate, rest = memory[:2], memory[0], memory[1], memory[2], memory[3]
    product, last, bias, half = layer.product, layer.product_last, layer.bias, layer.half
    sums, by_gate, inputs = _by_gate(xp, memory[:3] if last is None else gates, inputs)
    recurrent, both, new = by_gate[:2], inputs[:, :2], inputs[:, 2]
    add, subtract, multiply, tanh = xp.add, xp.subtract, xp.multiply, xp.tanh
    for t in range(y.shape[0]):
        if t % every == 0:
            check_time()
        product(h, sums)
        add(recurrent, both[t], gates)
        tanh(gates, gates)
        multiply(gates, half, gates)
        add(gates, half, gates)
        if last is not None:
            multiply(reset, h, rest)
            last(rest, candidate)
        else:
            part = by_gate[2]
            if bias is not None:
                part = add(part, bias, candidate)
            multiply(part, reset, candidate)
        add(candidate, new[t], candidate)
        tanh(candidate, candidate)
        state = y[t]
        subtract(h, candidate, state)
        multiply(state, update, state)
        add(state, candidate, state)
        h = state


def _by_gate(xp: Any, gates: Array, inputs: Array) -> tuple[Array, Array, Array]:
    """Where a product goes, that place with its gates first, and all inputs with their gates behind the steps.

    The first is `gates` itself where there is one state: its gates lie one behind the other anyway.
    """
    count, *states, hidden = gates.shape
    steps, width = inputs.shape[0], inputs.shape[-1]
    if gates.size == count * hidden:
        return gates.reshape(*states, count * hidden), gates, inputs.reshape(steps, width // hidden, *states, hidden)
    gate = len(states)
    sums = xp.empty((*states, count * hidden), gates.dtype)
    by_gate = sums.reshape(*states, count, hidden).transpose(gate, *range(gate), gate + 1)
    inputs = inputs.reshape(steps, *states, width // hidden, hidden)
    return sums, by_gate, inputs.transpose(0, gate + 1, *range(1, gate + 1), gate + 2)
