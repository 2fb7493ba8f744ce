"""Heads turned by code of our own: what the definition says in float64 for every size, and nothing else written."""

from __future__ import annotations

import numpy as np
import pytest

from ort_py_onednn.binding.constants import Argument
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.binding.engine import engine
from ort_py_onednn.binding.row_rotation import RowRotation, has_row_rotation

pytestmark = pytest.mark.skipif(
    not has_row_rotation(engine().library), reason="this machine has no AVX2, or no executable memory"
)

_FENCE = 7.25


def _draw(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng((seed, *shape)).standard_normal(shape).astype(np.float32)


def _run(
    x: np.ndarray, *, packed: bool, batched: bool, start: int = 0, in_place: bool = False
) -> tuple[np.ndarray, ...]:
    """Return what the code computes, and what it should."""
    batch, rows, half = x.shape[0], x.shape[1 if packed else 2], x.shape[3] // 2
    tables = [_draw(batch if batched else 1, rows + start, half, seed=seed) for seed in (1, 2)]
    arrays = {Argument.SRC: x.copy(), Argument.SCALE: tables[0], Argument.SHIFT: tables[1]}
    arguments = {code: Desc.plain(array.shape) for code, array in arrays.items()} | {Argument.DST: Desc.plain(x.shape)}
    steps = (rows * half if batched else 0, half if packed else 0, 0 if packed else half)
    own = RowRotation(engine().library, arguments, steps, start * half)
    fenced = np.full(x.size + 32, _FENCE, np.float32)
    bytes_ = {code: array.view(np.uint8) for code, array in (arrays | {Argument.DST: fenced}).items()}
    if in_place:
        fenced[: x.size] = x.reshape(-1)
        bytes_[Argument.SRC] = bytes_[Argument.DST]
    own.run(bytes_)
    assert (fenced[x.size :] == _FENCE).all(), "it writes behind the last row"
    places = (slice(None), slice(start, None), None) if packed else (slice(None), None, slice(start, None))
    cosines, sines = (table.astype(np.float64)[places] for table in tables)
    left, right = x[..., :half].astype(np.float64), x[..., half:].astype(np.float64)
    wanted = np.concatenate([left * cosines - right * sines, right * cosines + left * sines], axis=3)
    return fenced[: x.size].reshape(x.shape), wanted


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("half", [*range(1, 36), 40, 64, 127])
def test_heads_of_every_size(half: int, packed: bool) -> None:
    """Cosines of each entry of a batch, for heads in front of rows and behind them."""
    found, wanted = _run(_draw(2, 3, 4, 2 * half), packed=packed, batched=True)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("half", [3, 8, 21])
def test_a_shared_table_from_a_row_on(half: int, packed: bool) -> None:
    """All entries of a batch read the same rows, which may begin inside of a table."""
    found, wanted = _run(_draw(3, 2, 5, 2 * half), packed=packed, batched=False, start=4)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("half", [1, 8, 21])
def test_in_the_place_of_the_heads(half: int) -> None:
    """The result may take the place of the heads, and is the same then."""
    x = _draw(2, 3, 4, 2 * half)
    apart, _ = _run(x, packed=True, batched=True)
    within, _ = _run(x, packed=True, batched=True, in_place=True)
    np.testing.assert_array_equal(within, apart)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_numbers_that_are_none(value: float) -> None:
    """NaN and infinities reach their own pair, and nothing else."""
    x = _draw(1, 2, 3, 22)
    x[0, 1, 2, 14] = value
    found, wanted = _run(x, packed=False, batched=True)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
