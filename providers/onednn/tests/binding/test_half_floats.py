"""float16 and bfloat16 from and to float32: the bits that NumPy's conversions give, for every length."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ort_py_onednn.binding.constants import F32, Argument, Element
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.binding.engine import engine
from ort_py_onednn.binding.half_floats import Conversion, converts
from ort_py_onednn.execution.elements import as_bytes, numpy_of

NARROW = [Element.F16, Element.BF16]


@pytest.fixture(autouse=True)
def has_code() -> None:
    """Skip where there is no code."""
    if not converts(engine().library, F32, Element.F16):
        pytest.skip("the CPU has no F16C, or the system allows no executable memory")


def _converted(x: np.ndarray[Any, Any], source: Element, target: Element) -> np.ndarray[Any, Any]:
    """`x` converted, in front of bytes that have to stay."""
    made = Conversion.made(engine().library, Desc.plain(x.shape, source), Desc.plain(x.shape, target))
    assert made is not None
    y = np.full(x.size + 8, 7, numpy_of(target))
    made.run({Argument.SRC: as_bytes(x), Argument.DST: as_bytes(y)})
    assert (y[x.size :].astype(np.float32) == 7).all()
    return y[: x.size]


def _agree(found: np.ndarray[Any, Any], wanted: np.ndarray[Any, Any]) -> None:
    """The same bits; of what is not a number the sign."""
    numbers = ~np.isnan(wanted.astype(np.float32))
    bits = f"u{wanted.dtype.itemsize}"
    assert np.array_equal(found.view(bits)[numbers], wanted.view(bits)[numbers])
    assert np.isnan(found.astype(np.float32)[~numbers]).all()
    assert np.array_equal(np.signbit(found), np.signbit(wanted))


def _narrowed(x: np.ndarray[Any, Any], target: Element) -> np.ndarray[Any, Any]:
    with np.errstate(all="ignore"):
        return x.astype(numpy_of(target))


@pytest.mark.parametrize("source", NARROW)
def test_all_narrow_numbers_are_widened_exactly(source: Element) -> None:
    """All 65,536 of a type."""
    x = np.arange(1 << 16, dtype=np.uint16).view(numpy_of(source))
    _agree(_converted(x, source, F32), x.astype(np.float32))


@pytest.mark.parametrize("target", NARROW)
def test_numbers_are_rounded_to_nearest_and_ties_to_even(target: Element) -> None:
    """All that a narrow type has, the ties between them, and what lies just below and above each."""
    exact = np.arange(1 << 16, dtype=np.uint16).view(numpy_of(target)).astype(np.float32).view(np.uint32)
    half = np.uint32(0x1000 if target == Element.F16 else 0x8000)
    x = np.concatenate([exact, *(exact + half + offset for offset in (0, 1, 2**32 - 1))], dtype=np.uint32)
    _agree(_converted(x.view(np.float32), F32, target), _narrowed(x.view(np.float32), target))


@pytest.mark.parametrize("target", NARROW)
def test_any_bits_are_rounded_as_numpy_rounds_them(target: Element) -> None:
    """Random bits: infinities, subnormal numbers and NaN among them."""
    rng = np.random.default_rng(40)
    small = rng.integers(0x32000000, 0x39000000, 200_000, np.uint32)  # subnormal in float16
    x = np.concatenate([rng.integers(0, 1 << 32, 1_000_000, np.uint32), small, small | np.uint32(1 << 31)])
    _agree(_converted(x.view(np.float32), F32, target), _narrowed(x.view(np.float32), target))


@pytest.mark.parametrize("count", [8, 9, 15, 16, 17, 16383, 16384, 16385, 16391, 32768, 32775])
@pytest.mark.parametrize("narrow", NARROW)
def test_every_length_is_converted_to_its_end(count: int, narrow: Element) -> None:
    """Lengths around the eight elements of a step and the elements that a thread takes at once."""
    x = np.random.default_rng(count).standard_normal(count).astype(np.float32)
    short = _narrowed(x, narrow)
    _agree(_converted(x, F32, narrow), short)
    _agree(_converted(short, narrow, F32), short.astype(np.float32))


@pytest.mark.parametrize("count", range(1, 8))
@pytest.mark.parametrize("narrow", NARROW)
def test_fewer_elements_than_eight_keep_their_bits(count: int, narrow: Element) -> None:
    """Zeros keep their sign and subnormal numbers their bits: oneDNN's portable code loses them."""
    x = np.array([-0.0, 2.0**-24, -(2.0**-130), np.nan, -np.inf, 65519.0, 1.00390625][-count:], np.float32)
    short = _narrowed(x, narrow)
    _agree(_converted(x, F32, narrow), short)
    _agree(_converted(short, narrow, F32), short.astype(np.float32))
    zeros = np.full(count, -0.0, np.float32)
    _agree(_converted(_narrowed(zeros, narrow), narrow, F32), zeros)
    _agree(_converted(zeros, F32, narrow), _narrowed(zeros, narrow))


def test_elements_stay_in_their_order() -> None:
    """Channels that lie last are converted as they lie; where they would move, there is no code."""
    dims = (2, 3, 4, 5)
    library, last = engine().library, Desc.channels_last(dims)
    half = last.of(Element.F16)
    assert half is not None
    assert Conversion.made(library, last, half) is not None
    assert Conversion.made(library, last, Desc.plain(dims, Element.F16)) is None
    assert Conversion.made(library, last, last) is None
