"""Recurrent layers, one step after the other: Core AI's authoring interface has no loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import coreai.authoring as ai
import numpy as np

from ort_py_coreml.core_ai.movement import FUNCTIONS as MOVEMENT
from ort_py_coreml.core_ai.movement import slice_by_size, split
from ort_py_coreml.core_ai.values import Var, sizes_of, without_axes

__all__ = ["FUNCTIONS"]


def _product(x: Var, weight: Any) -> Var:
    return ai.broadcasting_batch_matmul(x, np.ascontiguousarray(weight.T))


def _steps(x: Var) -> list[Var]:
    rank = len(sizes_of(x))
    return [
        without_axes(slice_by_size(x, [step] + [0] * (rank - 1), [1] + [-1] * (rank - 1)), [0])
        for step in range(sizes_of(x)[0])
    ]


def _wide(x: Var, weight: Any, bias: Any) -> list[Var]:
    """Return what each step adds to the gates, computed for all of them at once."""
    found = _product(x, weight)
    return _steps(found if bias is None else ai.broadcasting_add(found, bias))


def _lstm(
    x: Var,
    initial_h: Var,
    initial_c: Var,
    direction: str,
    output_sequence: bool,
    weight_ih: Any,
    weight_hh: Any,
    bias: Any = None,
    weight_ih_back: Any = None,
    weight_hh_back: Any = None,
    bias_back: Any = None,
) -> tuple[Var, Var, Var]:
    both = [(weight_ih, weight_hh, bias)]
    if direction == "bidirectional":
        both.append((weight_ih_back, weight_hh_back, bias_back))
    states = split(initial_h, 1, num_splits=len(both)) if len(both) > 1 else [initial_h]
    cells = split(initial_c, 1, num_splits=len(both)) if len(both) > 1 else [initial_c]
    every: list[Var] = []
    for place, (of_inputs, of_states, added) in enumerate(both):
        parts = _wide(x, of_inputs, added)
        found, states[place], cells[place] = _one_way(
            parts[::-1] if place else parts, of_states, states[place], cells[place]
        )
        every.append(MOVEMENT["stack"](found[::-1] if place else found, 0))
    last = [MOVEMENT["concat"](one, 1) if len(one) > 1 else one[0] for one in (states, cells)]
    return MOVEMENT["concat"](every, 2) if len(every) > 1 else every[0], last[0], last[1]


def _one_way(parts: list[Var], weight: Any, state: Var, cell: Var) -> tuple[list[Var], Var, Var]:
    found: list[Var] = []
    for part in parts:
        i, f, o, g = split(ai.broadcasting_add(part, _product(state, weight)), 1, num_splits=4)
        kept = ai.broadcasting_mul(ai.sigmoid(f), cell)
        cell = ai.broadcasting_add(kept, ai.broadcasting_mul(ai.sigmoid(i), ai.tanh(g)))
        state = ai.broadcasting_mul(ai.sigmoid(o), ai.tanh(cell))
        found.append(state)
    return found, state, cell


def _rnn(x: Var, initial_h: Var, weight_ih: Any, weight_hh: Any, bias: Any, output_sequence: bool) -> tuple[Var, Var]:
    state, found = initial_h, []
    for part in _wide(x, weight_ih, bias):
        state = ai.tanh(ai.broadcasting_add(part, _product(state, weight_hh)))
        found.append(state)
    return MOVEMENT["stack"](found, 0), state


def _gru(x: Var, initial_h: Var, weight_ih: Any, weight_hh: Any, bias: Any, output_sequence: bool) -> tuple[Var, Var]:
    """Compute gates in the order reset, hidden, update; the bias of the hidden gate is added outside the reset."""
    state, found, size = initial_h, [], weight_hh.shape[1]
    for part in _wide(x, weight_ih, bias):
        of_reset, of_hidden, of_update = split(part, 1, num_splits=3)
        from_reset, from_hidden, from_update = (
            _product(state, weight_hh[gate * size : (gate + 1) * size]) for gate in range(3)
        )
        reset = ai.sigmoid(ai.broadcasting_add(of_reset, from_reset))
        update = ai.sigmoid(ai.broadcasting_add(of_update, from_update))
        hidden = ai.tanh(ai.broadcasting_add(of_hidden, ai.broadcasting_mul(reset, from_hidden)))
        away = ai.broadcasting_sub(state, hidden)
        state = ai.broadcasting_add(hidden, ai.broadcasting_mul(update, away))
        found.append(state)
    return MOVEMENT["stack"](found, 0), state


FUNCTIONS: dict[str, Callable[..., Any]] = {"gru": _gru, "lstm": _lstm, "rnn": _rnn}
"""Functions of MIL by name."""
