"""Rows that gate others in machine code: the closed form in float64, and nothing else written."""

from __future__ import annotations

import numpy as np
import pytest

from ort_py_onednn.binding.constants import Argument
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.binding.engine import engine
from ort_py_onednn.binding.row_gates import RowGate, has_row_gates

pytestmark = pytest.mark.skipif(
    not has_row_gates(engine().library), reason="this machine has no AVX2, or no executable memory"
)

_FENCE = 7.25


def _run(x: np.ndarray, y: np.ndarray, alpha: float = 1.0, *, in_place: bool = False) -> np.ndarray:
    fenced = np.full(x.size + 32, _FENCE, np.float32)
    source = x.copy().reshape(-1)
    if in_place:
        fenced[: x.size] = source
        source = fenced
    own = RowGate(engine().library, Desc.plain(x.shape), alpha)
    arrays = {Argument.SRC: source, Argument.SRC_1: y.reshape(-1), Argument.DST: fenced}
    own.run({code: array.view(np.uint8) for code, array in arrays.items()})
    assert (fenced[x.size :] == _FENCE).all(), "it writes behind the last row"
    return fenced[: x.size].reshape(x.shape)


def _case(*shape: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(shape)
    return (rng.standard_normal(shape) * 8).astype(np.float32), rng.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("length", [1, 7, 8, 9, 31, 64, 65, 257])
@pytest.mark.parametrize("alpha", [1.0, 1.702, -0.5])
def test_rows_of_every_length(length: int, alpha: float) -> None:
    x, y = _case(3, length)
    exact = x / (1 + np.exp(-alpha * x.astype(np.float64))) * y
    np.testing.assert_allclose(_run(x, y, alpha), exact, rtol=3e-6, atol=1e-35)


def test_in_the_place_of_the_rows() -> None:
    """The result may take the place of the rows, and is the same then."""
    x, y = _case(5, 21)
    np.testing.assert_array_equal(_run(x, y, in_place=True), _run(x, y))


def test_numbers_at_the_ends() -> None:
    """Infinity stays, minus infinity times zero is NaN, NaN stays, and the largest numbers are not lost."""
    x = np.array([[np.inf, -np.inf, np.nan, 3e38, -3e38, -0.0, 0.0, -200.0]], np.float32)
    found = _run(x, np.ones_like(x))
    np.testing.assert_array_equal(found, np.array([[np.inf, np.nan, np.nan, 3e38, 0, 0, 0, 0]], np.float32))
