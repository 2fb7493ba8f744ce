"""LSTM and GRU as nearly all models use them, default activations and nothing else: all steps in the same arrays.

The logistic function is ``(tanh(x / 2) + 1) / 2``, so an LSTM's four gates need one tanh together; halving is exact.
Comes after `recurrent_cells`, which holds the general steps; `recurrent_layers` chooses.
"""

from __future__ import annotations

from collections.abc import Callable

from ort_py.contracts.graph_view import Array
from ort_py_array.recurrent_cells import Cell

__all__ = ["STANDARD", "standard_gru", "standard_lstm"]


def standard_lstm(cell: Cell, projected: Array, order: range, h: Array, c: Array, y: Array) -> tuple[Array, Array]:
    """All steps of an LSTM with sigmoid, tanh, tanh and nothing else; see `recurrent_cells.lstm`.

    Args:
        cell: The cell; only its products are used.
        projected: ``(time, batch, 4 · hidden)``, the caller's own: overwritten.
        order: The steps.
        h, c: Initial states, only read.
        y: ``(time, batch, hidden)``, written to.

    Returns:
        The last states; the first is a view of `y` where there was a step.
    """
    xp, size = cell.xp, cell.hidden
    half = xp.full((), 0.5, projected.dtype)  # at each step, converting a Python number would take as long as its use
    projected[..., : 3 * size] *= half
    sums = xp.empty(projected.shape[1:], projected.dtype)
    gates = sums[:, : 3 * size]
    i, o, forget = gates[:, :size], gates[:, size : 2 * size], gates[:, 2 * size :]
    candidate = sums[:, 3 * size :]
    c = xp.array(c)  # a copy: initial states belong to the caller
    for t in order:
        cell.project(h, sums)
        if not cell.halved:
            xp.multiply(gates, half, out=gates)
        xp.add(sums, projected[t], out=sums)
        xp.tanh(sums, out=sums)
        xp.multiply(gates, half, out=gates)
        xp.add(gates, half, out=gates)
        xp.multiply(c, forget, out=c)
        xp.multiply(candidate, i, out=candidate)
        xp.add(c, candidate, out=c)
        h = y[t]
        xp.tanh(c, out=h)
        xp.multiply(h, o, out=h)
    return h, c


def standard_gru(cell: Cell, projected: Array, order: range, h: Array, c: Array, y: Array) -> tuple[Array, Array]:
    """All steps of a GRU with sigmoid and tanh; arguments and result as `standard_lstm`, `c` is passed through."""
    xp, size = cell.xp, cell.hidden
    assert cell.project_last is not None
    half = xp.full((), 0.5, projected.dtype)
    projected[..., : 2 * size] *= half
    batch = projected.shape[1]
    gates = xp.empty((batch, 2 * size), projected.dtype)
    z, r = gates[:, :size], gates[:, size:]
    candidate = xp.empty((batch, size), projected.dtype)
    reset = xp.empty((batch, size), projected.dtype)
    for t in order:
        new = projected[t]
        if cell.linear_before_reset:
            recurrent = cell.project(h)
            xp.multiply(recurrent[:, : 2 * size], half, out=gates)
            candidate = recurrent[:, 2 * size :]
        else:
            cell.project(h, gates)
            xp.multiply(gates, half, out=gates)
        xp.add(gates, new[:, : 2 * size], out=gates)
        xp.tanh(gates, out=gates)
        xp.multiply(gates, half, out=gates)
        xp.add(gates, half, out=gates)
        if not cell.linear_before_reset:
            xp.multiply(r, h, out=reset)
            cell.project_last(reset, candidate)
        if cell.bias is not None:
            xp.add(candidate, cell.bias, out=candidate)
        if cell.linear_before_reset:
            xp.multiply(candidate, r, out=candidate)
        xp.add(candidate, new[:, 2 * size :], out=candidate)
        xp.tanh(candidate, out=candidate)
        state = y[t]
        xp.subtract(h, candidate, out=state)
        xp.multiply(state, z, out=state)
        xp.add(state, candidate, out=state)
        h = state
    return h, c


STANDARD: dict[str, Callable[..., tuple[Array, Array]]] = {"LSTM": standard_lstm, "GRU": standard_gru}
