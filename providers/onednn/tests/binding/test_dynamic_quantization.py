"""Rows made bytes by code of our own: what the definition says, for every length, and as the primitives do it."""

from __future__ import annotations

import numpy as np
import pytest

from ort_py_onednn.binding.constants import Argument
from ort_py_onednn.binding.dynamic_quantization import DynamicQuantization, has_dynamic_quantization
from ort_py_onednn.binding.engine import engine

pytestmark = pytest.mark.skipif(
    not has_dynamic_quantization(engine().library, 8), reason="this machine has no AVX2, or no executable memory"
)

_TINY = 1e-30


def _run(x: np.ndarray, tiny: float = 0.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rows, size = x.shape
    fenced = np.full(rows * size + 64, 77, np.uint8)
    numbers = np.full((2, rows), np.nan, np.float32)
    own = DynamicQuantization(engine().library, rows, size, tiny)
    arrays = {Argument.SRC: x.view(np.uint8), Argument.DST: fenced, Argument.DST_1: numbers.view(np.uint8)}
    own.run(arrays)
    assert (fenced[rows * size :] == 77).all(), "it writes behind the last row"
    return fenced[: rows * size].reshape(rows, size), numbers[0], numbers[1]


def _expected(x: np.ndarray, tiny: float = 0.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    high, low = np.maximum(x.max(axis=1), 0), np.minimum(x.min(axis=1), 0)
    scale = (high - low) / np.float32(255)
    scale = np.maximum(scale, np.float32(tiny)) if tiny else np.where(scale == 0, np.float32(1), scale)
    zero = np.clip(np.rint(-low / scale), 0, 255)
    found = np.clip(np.rint(x / scale[:, None]) + zero[:, None], 0, 255)
    return found.astype(np.uint8), scale, zero


@pytest.mark.parametrize("size", [8, 9, 15, 16, 17, 31, 256, 257, 1003])
@pytest.mark.parametrize("rows", [1, 2, 3])
@pytest.mark.parametrize("tiny", [0.0, _TINY])
def test_rows_of_every_length(size: int, rows: int, tiny: float) -> None:
    """Numbers around 0, above and below it, and the last ones of a row."""
    random = np.random.default_rng(size + rows)
    for offset in (0.0, 3.0, -3.0):
        x = (random.standard_normal((rows, size)) + offset).astype(np.float32)
        x[-1, -1] = 9
        for found, wanted in zip(_run(x, tiny), _expected(x, tiny), strict=True):
            np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("tiny", [0.0, _TINY])
def test_a_row_of_zeros(tiny: float) -> None:
    """It has the scale 1, or the least one, and the zero point 0; a row beside it has its own."""
    x = np.zeros((2, 11), np.float32)
    x[1, 4] = -2
    for found, wanted in zip(_run(x, tiny), _expected(x, tiny), strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_halves_go_to_even_numbers() -> None:
    """Rounding is that of the definition, here with a scale of 1."""
    x = np.array([[0.5, 1.5, 2.5, 3.5, -0.5, -1.5, -2.5, -100.0, 155.0]], np.float32)
    found, scale, zero = _run(x)
    assert (scale[0], zero[0]) == (1, 100)
    np.testing.assert_array_equal(found, np.rint(x) + 100)


def test_short_rows_have_no_code() -> None:
    """Registers hold eight numbers."""
    assert not has_dynamic_quantization(engine().library, 7)
    assert not has_dynamic_quantization(engine().library, 0)
