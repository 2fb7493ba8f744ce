"""Tanh and Erf in machine code: errors, lengths, places, what is not a number, and the processor's flags."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ort_py_onednn.binding.constants import Argument, Eltwise
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.binding.engine import engine
from ort_py_onednn.binding.vector_functions import VectorFunction, has_code
from ort_py_onednn.execution.elements import as_bytes

Array = np.ndarray[Any, Any]

EXACT: dict[int, Callable[[Array], Array]] = {Eltwise.TANH: np.tanh, Eltwise.ERF: np.vectorize(math.erf, "d")}
KINDS = list(EXACT)


@pytest.fixture(autouse=True)
def has_functions() -> None:
    """Skip where there is no code."""
    if not has_code(engine().library, Eltwise.TANH):
        pytest.skip("the CPU has no AVX2, or oneDNN has good code for it, or the system allows no executable memory")


def _of(kind: int, x: Array) -> Array:
    """The function of `x`, in front of numbers that have to stay."""
    function = VectorFunction(engine().library, kind, Desc.plain(x.shape))
    y = np.full(x.size + 16, 7, np.float32)
    function.run({Argument.SRC: as_bytes(x), Argument.DST: as_bytes(y)})
    assert (y[x.size :] == 7).all()
    return y[: x.size]


@pytest.mark.parametrize("kind", KINDS)
def test_errors_are_of_a_few_units_in_the_last_place(kind: int) -> None:
    """Numbers of each size and both signs, and closely where the function changes: at most 2.6 units."""
    rng = np.random.default_rng(1)
    parts = [np.linspace(-10, 10, 400_001), np.exp(rng.uniform(-86, 3, 200_000)), rng.uniform(0.6, 0.95, 100_000)]
    bits = rng.integers(0, 1 << 32, 200_000, np.uint32).view(np.float32)
    x = np.concatenate([*parts, bits[np.isfinite(bits)]]).astype(np.float32)
    exact = EXACT[kind](x.astype(np.float64))
    found = _of(kind, x)
    units = np.abs(found.astype(np.float64) - exact) / np.spacing(np.abs(exact.astype(np.float32))).astype(np.float64)
    assert units.max() <= 2.6
    assert np.array_equal(np.signbit(found), np.signbit(x))
    assert np.abs(found).max() <= 1


@pytest.mark.parametrize("kind", KINDS)
def test_unusual_numbers(kind: int) -> None:
    """Infinities, zeros of both signs, subnormal numbers and NaN, in each place of a vector and of a rest."""
    slope = 1.0 if kind == Eltwise.TANH else 2 / math.sqrt(math.pi)
    unusual = np.array([0.0, -0.0, np.inf, -np.inf, 1e-45, -1e-40, 3e38, -3e38, np.nan, -np.nan], np.float32)
    ends = [0.0, -0.0, 1.0, -1.0, 1e-45 * slope, -1e-40 * slope, 1.0, -1.0, np.nan, np.nan]
    wanted = np.array(ends).astype(np.float32)
    for shift in range(27):
        x = np.full(27, 0.5, np.float32)
        x[: len(unusual)] = unusual
        y = np.full(27, 9, np.float32)
        y[: len(unusual)] = wanted
        x, y = np.roll(x, shift), np.roll(y, shift)
        usual = y == 9
        found = _of(kind, x)
        np.testing.assert_allclose(found[~usual], y[~usual], rtol=0, atol=2e-45)  # one unit of subnormal numbers
        assert np.array_equal(np.signbit(found[y == 0]), np.signbit(y[y == 0]))
        assert np.isfinite(found[usual]).all()


@pytest.mark.parametrize("kind", KINDS)
def test_every_length_and_place(kind: int) -> None:
    """Lengths around those of a step and of the piece that a thread takes at once, from any address: the same."""
    rng = np.random.default_rng(2)
    for count in (*range(1, 71), 16383, 16384, 16385, 16399, 32768, 40001):
        whole = (rng.standard_normal(count + 3) * 2).astype(np.float32)
        for start in range(4) if count < 71 else (1,):
            found = _of(kind, whole[start : start + count])
            singly = np.concatenate([_of(kind, whole[start + one : start + one + 1]) for one in (0, count - 1)])
            np.testing.assert_array_equal(found[[0, -1]], singly)
            exact = EXACT[kind](whole[start : start + count].astype(np.float64))
            assert np.abs(found - exact).max() < 3e-7


@pytest.mark.parametrize("kind", KINDS)
def test_in_place(kind: int) -> None:
    """The result may take the argument's place, also where the last elements are no whole vector."""
    for count in (1, 5, 8, 23, 16389):
        x = np.random.default_rng(count).standard_normal(count).astype(np.float32)
        wanted = _of(kind, x)
        place = as_bytes(x)
        VectorFunction(engine().library, kind, Desc.plain(x.shape)).run({Argument.SRC: place, Argument.DST: place})
        np.testing.assert_array_equal(x, wanted)


def test_hazards_and_reach() -> None:
    """Neither number nor flag is lost, and it reads and writes what its layout says."""
    made = VectorFunction(engine().library, Eltwise.TANH, Desc.plain((3, 5)))
    assert not any((made.hazards.clamps, made.hazards.idle, made.hazards.silent))
    assert [one[0] for one in made.reach] == [Argument.SRC, Argument.DST]
