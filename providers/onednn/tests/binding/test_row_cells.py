"""Cells of an LSTM by code of our own: the closed form in float64 for every length, and nothing else written."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ort_py_onednn.binding.constants import Argument
from ort_py_onednn.binding.engine import engine
from ort_py_onednn.binding.row_cells import RowCell, has_row_cell
from ort_py_onednn.graph.quantized_recurrent import GATES

pytestmark = pytest.mark.skipif(
    not has_row_cell(engine().library), reason="this machine has no AVX2, or no executable memory"
)

Array = np.ndarray[Any, Any]

_FENCE = 7.25


def _run(gates: Array, before: Array, *, in_place: bool = False) -> tuple[Array, Array]:
    """State and cell."""
    rows, hidden = before.shape
    places = [np.full(before.size + 32, _FENCE, np.float32) for _ in range(2)]
    cells = places[1]
    if in_place:
        cells[: before.size] = before.reshape(-1)
        before = cells
    arrays = {Argument.SRC: gates, Argument.SRC_1: before, Argument.DST: cells, Argument.DST_1: places[0]}
    own = RowCell(engine().library, rows, hidden)
    own.run({code: np.ascontiguousarray(array).reshape(-1).view(np.uint8) for code, array in arrays.items()})
    for place in places:
        assert (place[rows * hidden :] == _FENCE).all(), "it writes behind the last row"
    return tuple(place[: rows * hidden].reshape(rows, hidden) for place in places)  # type: ignore[return-value]


def _exact(gates: Array, before: Array) -> tuple[Array, Array]:
    entry, output, kept, candidate = np.split(gates.astype(np.float64), GATES, axis=1)
    cell = (kept * before).astype(np.float32) + (entry * candidate).astype(np.float32)  # products are rounded
    return output * np.tanh(cell.astype(np.float64)), cell


def _drawn(rows: int, hidden: int) -> tuple[Array, Array]:
    random = np.random.default_rng((rows, hidden))
    gates = random.random((rows, GATES * hidden), np.float32) * 2 - 1
    return gates, random.standard_normal((rows, hidden)).astype(np.float32) * 3


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("rows", [1, 2, 5])
@pytest.mark.parametrize("hidden", [*range(1, 71), 128, 257])
def test_every_length(hidden: int, rows: int, in_place: bool) -> None:
    gates, before = _drawn(rows, hidden)
    state, cell = _run(gates, before, in_place=in_place)
    exact_state, exact_cell = _exact(gates, before)
    np.testing.assert_allclose(cell, exact_cell, rtol=2e-7, atol=1e-7)
    np.testing.assert_allclose(state, exact_state, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [0, 12, 13])
def test_what_is_not_finite_stays_in_its_place(value: float, place: int) -> None:
    gates, before = _drawn(2, 14)
    before[1, place] = value
    gates[1, 2 * 14 + place] = 0.5  # what is kept of it
    state, cell = _run(gates, before)
    with np.errstate(invalid="ignore"):
        exact_state, exact_cell = _exact(gates, before)
    np.testing.assert_allclose(cell, exact_cell, rtol=2e-7, atol=1e-7)
    np.testing.assert_allclose(state, exact_state, rtol=1e-6, atol=1e-7)
    assert np.isfinite(np.delete(cell[1], place)).all()
