"""Softmax of rows by code of our own: the closed form in float64 for every length, and nothing else written."""

from __future__ import annotations

import numpy as np
import pytest

from ort_py_onednn.binding.constants import Argument
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.binding.engine import engine
from ort_py_onednn.binding.row_softmax import RowSoftmax, has_row_softmax

pytestmark = pytest.mark.skipif(
    not has_row_softmax(engine().library), reason="this machine has no AVX2, or no executable memory"
)

_FENCE = 7.25


def _draw(*shape: int) -> np.ndarray:
    return np.random.default_rng(shape).standard_normal(shape).astype(np.float32)


def _run(x: np.ndarray, *, in_place: bool = False) -> np.ndarray:
    fenced = np.full(x.size + 32, _FENCE, np.float32)
    source = x.copy().reshape(-1)
    if in_place:
        fenced[: x.size] = source
        source = fenced
    own = RowSoftmax(engine().library, Desc.plain(x.shape))
    own.run({Argument.SRC: source.view(np.uint8), Argument.DST: fenced.view(np.uint8)})
    assert (fenced[x.size :] == _FENCE).all(), "it writes behind the last row"
    return fenced[: x.size].reshape(x.shape)


def _exact(x: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        powers = np.exp((x - x.max(axis=1, keepdims=True)).astype(np.float64))  # the difference is rounded
        return np.asarray(powers / powers.sum(axis=1, keepdims=True))


@pytest.mark.parametrize("length", [*range(1, 71), 128, 257])
@pytest.mark.parametrize("factor", [1, 30])
def test_rows_of_every_length(length: int, factor: float) -> None:
    """Rows of numbers close to each other and far apart."""
    x = _draw(3, length) * np.float32(factor)
    np.testing.assert_allclose(_run(x), _exact(x), rtol=2e-6, atol=2e-38)


@pytest.mark.parametrize("length", [1, 5, 8, 21])
def test_in_the_place_of_the_rows(length: int) -> None:
    """The result may take the place of the rows, and is the same then."""
    x = _draw(5, length)
    np.testing.assert_array_equal(_run(x, in_place=True), _run(x))


@pytest.mark.parametrize("place", [0, 7, 8, 12])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_rows_that_become_nan(value: float, place: int) -> None:
    """NaN or an infinity makes its whole row NaN, and nothing of the rows beside it."""
    x = _draw(3, 13)
    x[1, place] = value
    np.testing.assert_allclose(_run(x), _exact(x), rtol=2e-6)


@pytest.mark.parametrize("length", [3, 8, 13])
def test_numbers_that_are_hidden(length: int) -> None:
    """A number of -infinity becomes 0; a row of nothing else becomes NaN, and one of the lowest numbers does not."""
    x = _draw(4, length)
    x[0, 1] = x[1, :] = -np.inf
    x[2, :] = np.finfo(np.float32).min
    np.testing.assert_allclose(_run(x), _exact(x), rtol=2e-6)
