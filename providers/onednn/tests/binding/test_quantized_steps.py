"""All steps of a quantised LSTM by code of our own: each step against the closed form in float64, and nothing else
written."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ort_py_onednn.binding import primitives
from ort_py_onednn.binding.constants import Argument, Element
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.binding.engine import engine
from ort_py_onednn.binding.features import has_exact_integers
from ort_py_onednn.binding.quantized_step_code import TINY
from ort_py_onednn.binding.quantized_steps import QuantizedSteps, has_quantized_steps

pytestmark = pytest.mark.skipif(not has_exact_integers(), reason="this machine has no VNNI")

Array = np.ndarray[Any, Any]

_FENCE = 0x7B


def _layout(directions: int, hidden: int) -> Desc:
    """The layout that oneDNN chooses for the product of a step."""
    source, target = Desc.plain((directions, 1, hidden), Element.U8), Desc.plain((directions, 1, 4 * hidden))
    held = Desc.any((directions, hidden, 4 * hidden), Element.S8)
    return primitives.matmul(source, held, None, target, (), few_rows=True).arguments[Argument.WEIGHTS]


def _packed(weights: Array) -> Array:
    directions, hidden, columns = weights.shape
    padded = -(-hidden // 64) * 64
    whole = np.zeros((directions, padded, columns), np.int8)
    whole[:, :hidden] = weights
    blocks = whole.reshape(directions, padded // 64, 16, 4, columns // 64, 64)
    return np.ascontiguousarray(blocks.transpose(0, 4, 1, 2, 5, 3))


class _Case:
    """A layer with seeded numbers."""

    def __init__(self, hidden: int, reverse: tuple[bool, ...], steps: int) -> None:
        rng = np.random.default_rng((hidden, len(reverse), steps))
        self.hidden, self.reverse, self.steps = hidden, reverse, steps
        count, columns = len(reverse), 4 * hidden
        self.gates = rng.normal(size=(count, steps, columns)).astype(np.float32)
        self.weights = rng.integers(-128, 127, (count, hidden, columns), np.int8, endpoint=True)
        self.scales = (rng.uniform(0.01, 0.03, (count, columns)) / np.sqrt(hidden)).astype(np.float32)
        self.negative = -self.weights.astype(np.float32).sum(axis=1)
        self.state, self.cell = (rng.uniform(-1, 1, (count, hidden)).astype(np.float32) for _ in range(2))

    def run(self) -> tuple[Array, Array, Array]:
        """All states, the last one, and the last cell."""
        layout = _layout(len(self.reverse), self.hidden)
        own = QuantizedSteps(engine().library, layout, self.reverse, self.steps)
        arrays = {
            **{Argument.MULTIPLE_SRC + place: one for place, one in enumerate(self.gates)},
            Argument.SRC_1: self.state,
            Argument.SRC_2: self.cell,
            Argument.WEIGHTS_1: _packed(self.weights),
            Argument.scales(Argument.WEIGHTS_1): self.scales,
            Argument.BIAS: self.negative,
        }
        kept = {code: array.copy() for code, array in arrays.items()}
        written = {code: desc for code, desc in own.arguments.items() if code in Argument.WRITTEN}
        made = {code: np.full(desc.nbytes + 64, _FENCE, np.uint8) for code, desc in written.items()}
        own.run(arrays | made)
        for code, desc in written.items():
            assert (made[code][desc.nbytes :] == _FENCE).all(), "it writes behind the end"
        for code, array in kept.items():
            np.testing.assert_array_equal(arrays[code], array)
        every, state, cell = (
            made[code][: written[code].nbytes].view(np.float32).reshape(written[code].dims)
            for code in (Argument.DST, Argument.DST_1, Argument.DST_2)
        )
        return every, state, cell

    def step(self, place: int, time: int, state: Array, cell: Array) -> tuple[Array, Array]:
        """The closed form of a step: states are made bytes in float32, as the model says, the rest is exact."""
        low, high = min(state.min(), np.float32(0)), max(state.max(), np.float32(0))
        scale = max(np.float32(high - low) / np.float32(255), np.float32(TINY))
        zero = np.rint(-low / scale)
        bytes_ = np.clip(np.rint(state / scale) + zero, 0, 255).astype(np.int64)
        sums = bytes_ @ self.weights[place].astype(np.int64) + zero.astype(np.float64) * self.negative[place]
        found = sums * np.float64(scale) * self.scales[place] + self.gates[place, time]
        entry, output, kept, candidate = np.tanh(found).reshape(4, -1)
        entry, output, kept = (one / 2 + 0.5 for one in (entry, output, kept))
        cell = kept * cell + entry * candidate
        return output * np.tanh(cell), cell


@pytest.mark.parametrize("reverse", [(False,), (True,), (False, True)])
@pytest.mark.parametrize("steps", [1, 2, 5])
@pytest.mark.parametrize("hidden", [32, 48, 64, 80, 128, 256, 272])
def test_each_step(hidden: int, steps: int, reverse: tuple[bool, ...]) -> None:
    """From the states that were found before it, of which all bytes are then the same."""
    case = _Case(hidden, reverse, steps)
    if not has_quantized_steps(engine().library, _layout(len(reverse), hidden)):
        pytest.skip("this oneDNN chooses another layout")
    every, last, cells = case.run()
    for place, backwards in enumerate(reverse):
        state, cell = case.state[place], case.cell[place].astype(np.float64)
        for time in reversed(range(steps)) if backwards else range(steps):
            exact, cell = case.step(place, time, state, cell)
            state = every[time, place]
            np.testing.assert_allclose(state, exact, rtol=2e-5, atol=2e-6)
        np.testing.assert_array_equal(last[place], state)
        np.testing.assert_allclose(cells[place], cell, rtol=2e-5, atol=2e-6)


def test_a_state_of_zeroes() -> None:
    """A range of nothing has no scale to divide by: the sequence alone counts."""
    case = _Case(32, (False,), 1)
    case.state[:] = 0
    every, _, cells = case.run()
    entry, output, kept = (np.tanh(one) / 2 + 0.5 for one in case.gates[0, 0].astype(np.float64).reshape(4, -1)[:3])
    cell = kept * case.cell[0] + entry * np.tanh(case.gates[0, 0, 96:].astype(np.float64))
    np.testing.assert_allclose(cells[0], cell, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(every[0, 0], output * np.tanh(cell), rtol=1e-6, atol=1e-6)


def test_what_is_not_a_number_stays_one() -> None:
    """In its place of the state; a later step would raise the flag that a run is declined for."""
    case = _Case(32, (False,), 1)
    case.gates[0, 0, 5] = np.nan
    every, _, cells = case.run()
    assert np.flatnonzero(np.isnan(every[0, 0])).tolist() == np.flatnonzero(np.isnan(cells[0])).tolist() == [5]


@pytest.mark.parametrize("hidden", [8, 24, 40])
def test_sizes_without_code(hidden: int) -> None:
    """Their gates are no whole blocks."""
    assert not has_quantized_steps(engine().library, _layout(2, hidden))
