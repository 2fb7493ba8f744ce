"""Rows normalised by code of our own: what closed forms say in float64 for every length, and nothing else written."""

from __future__ import annotations

import numpy as np
import pytest

from ort_py_onednn.binding.constants import Argument
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.binding.engine import engine
from ort_py_onednn.binding.row_normalization import RowNormalization, has_row_normalization

pytestmark = pytest.mark.skipif(
    not has_row_normalization(engine().library), reason="this machine has no AVX2, or no executable memory"
)

_FENCE = 7.25
_LENGTHS = [*range(1, 71), 127, 128, 129, 255, 768, 1003, 4097]
_ALL = frozenset({"added", "kept", "scale", "shift"})


def _draw(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng((seed, *shape)).standard_normal(shape).astype(np.float32)


def _run(
    x: np.ndarray, *, centred: bool, epsilon: float = 1e-5, parts: frozenset[str] = frozenset(), in_place: bool = False
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Return what the code computes, what it should, and the sum that it kept."""
    rows, length = x.shape
    exact = x.astype(np.float64)
    given = {Argument.SRC: x.copy()}
    outcomes = [Argument.DST]
    if "added" in parts:
        given[Argument.SRC_1] = _draw(rows, length, seed=1)
        exact = (x + given[Argument.SRC_1]).astype(np.float64)
    if "kept" in parts:
        outcomes.append(Argument.DST_1)
    vectors = {"scale": Argument.SCALE, "shift": Argument.SHIFT}
    given |= {code: _draw(length, seed=2 + code) for name, code in vectors.items() if name in parts}
    arguments = {code: Desc.plain(array.shape) for code, array in given.items()}
    arguments |= {code: Desc.plain((rows, length)) for code in outcomes}
    own = RowNormalization(engine().library, arguments, epsilon, centred=centred)
    fenced = {code: np.full(x.size + 32, _FENCE, np.float32) for code in outcomes}
    if in_place:
        fenced[Argument.DST][: x.size] = x.reshape(-1)
    arrays = {code: array.view(np.uint8) for code, array in (given | fenced).items()}
    if in_place:
        arrays[Argument.SRC] = arrays[Argument.DST]
    own.run(arrays)
    for code, array in fenced.items():
        assert (array[x.size :] == _FENCE).all(), f"argument {code} is written behind the last row"
    found = {code: array[: x.size].reshape(x.shape) for code, array in fenced.items()}
    with np.errstate(all="ignore"):
        centre = exact.mean(axis=1, keepdims=True) if centred else 0.0
        spread = np.sqrt(((exact - centre) ** 2).mean(axis=1, keepdims=True) + epsilon)
        wanted = (exact - centre) / spread
        wanted = wanted * given.get(Argument.SCALE, 1.0) + given.get(Argument.SHIFT, 0.0)
    return found[Argument.DST], wanted, found.get(Argument.DST_1)


@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("length", _LENGTHS)
def test_rows_of_every_length(length: int, centred: bool) -> None:
    """With a second tensor, its sum kept, a factor and a summand: rows of every length are those of float64."""
    found, wanted, _ = _run(_draw(3, length), centred=centred, parts=_ALL)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize(
    "parts",
    [(), ("scale",), ("shift",), ("scale", "shift"), ("added",), ("added", "kept"), ("added", "scale", "shift")],
    ids="+".join,
)
def test_each_part_by_itself(parts: tuple[str, ...], centred: bool) -> None:
    """Each combination of parts has code of its own."""
    found, wanted, _ = _run(_draw(5, 45), centred=centred, parts=frozenset(parts))
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("length", [7, 65, 768, 4097])
def test_rows_of_equal_numbers(length: int) -> None:
    """Nothing is left of such rows, as little as it may be beside epsilon: their mean is the number itself."""
    x = np.repeat(3 * _draw(9, 1), length, axis=1)
    found, _, _ = _run(x, centred=True)
    np.testing.assert_array_equal(found, np.zeros_like(x))


@pytest.mark.parametrize("length", [65, 768, 4097])
def test_rows_far_from_zero(length: int) -> None:
    """The mean is as exact as a number of float32 can be, whose error is most of that of the result."""
    found, wanted, _ = _run(100 + np.float32(0.01) * _draw(9, length), centred=True, epsilon=1e-12)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=0.7 * np.spacing(np.float32(100)) / 0.01)


@pytest.mark.parametrize("length", [1, 8, 31, 160])
def test_the_sum_is_kept_as_it_is(length: int) -> None:
    """The sum in front is rounded once, and written as the addition gives it."""
    x = _draw(4, length)
    _, _, kept = _run(x, centred=True, parts=_ALL)
    np.testing.assert_array_equal(kept, x + _draw(4, length, seed=1))


@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("length", [1, 7, 32, 71])
@pytest.mark.parametrize("parts", [frozenset({"scale"}), _ALL, _ALL - {"kept"}], ids=["plain", "kept", "added"])
def test_in_the_place_of_the_rows(parts: frozenset[str], length: int, centred: bool) -> None:
    """The result may take the place of the rows, and is the same then."""
    x = _draw(3, length)
    apart, _, _ = _run(x, centred=centred, parts=parts)
    within, _, _ = _run(x, centred=centred, parts=parts, in_place=True)
    np.testing.assert_array_equal(within, apart)


@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [0, 33, 41])
def test_numbers_that_are_none(place: int, value: float, centred: bool) -> None:
    """NaN and infinities make of their row what the definition makes of it, and nothing of the rows beside it."""
    x = _draw(3, 42)
    x[1, place] = value
    found, wanted, _ = _run(x, centred=centred, parts=frozenset({"scale"}))
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("centred", [False, True])
def test_rows_of_zeros(centred: bool) -> None:
    """They stay zeros: epsilon stands below the root."""
    found, _, _ = _run(np.zeros((2, 19), np.float32), centred=centred)
    np.testing.assert_array_equal(found, np.zeros((2, 19), np.float32))


def test_rows_of_one_number_have_no_variance() -> None:
    """A mean of equal numbers that is not a power of two leaves nothing."""
    found, _, _ = _run(np.full((2, 48), 3.1, np.float32), centred=True)
    np.testing.assert_allclose(found, 0, atol=1e-3)


def test_a_mean_far_from_zero() -> None:
    """The variance is that of what is left without the mean: squares of the numbers themselves would have lost it."""
    x = _draw(4, 512) + np.float32(1000)
    found, wanted, _ = _run(x, centred=True)
    np.testing.assert_allclose(found, wanted, atol=2e-4)


@pytest.mark.parametrize("centred", [False, True])
def test_results_do_not_depend_on_other_rows(centred: bool) -> None:
    """A row has the same bits whether it is computed with others or alone: threads may take any of them."""
    x = _draw(17, 100)
    together, _, _ = _run(x, centred=centred, parts=frozenset({"scale", "shift"}))
    for row in range(len(x)):
        alone, _, _ = _run(x[row : row + 1], centred=centred, parts=frozenset({"scale", "shift"}))
        np.testing.assert_array_equal(alone[0], together[row])
