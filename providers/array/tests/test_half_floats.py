"""Rounding to float16 without converting: bit by bit what a conversion gives, over the whole range."""

from __future__ import annotations

import numpy as np

from ort_py_array.half_floats import from_half, through_half, to_half, widen
from ort_py_kit.tolerances import assert_close

from .standin import array_module, to_device, to_host


def _numbers() -> np.ndarray:
    """Numbers of every size, ties, the borders of normal and finite numbers, zeros of both signs, infinities, NaN."""
    generator = np.random.default_rng(0)
    sizes = generator.normal(size=60000) * 10.0 ** generator.integers(-10, 7, 60000)
    exact = generator.integers(0, 1 << 16, 30000).astype(np.uint16).view(np.float16)
    between = (exact[1:].astype(np.float64) + exact[:-1].astype(np.float64)) / 2
    neighbours = np.arange(1 << 15, dtype=np.uint16).view(np.float16).astype(np.float64)
    ties = (neighbours[1:] + neighbours[:-1]) / 2
    borders = [0.0, -0.0, np.inf, -np.inf, np.nan, 65504, 65519.99, 65520, -65520, 2.0**-14, 2.0**-24, 2.0**-25]
    with np.errstate(all="ignore"):
        return np.concatenate((sizes, between, ties, -ties, borders, [2.0**-25 * 1.0001])).astype(np.float32)


def test_rounding_equals_a_conversion() -> None:
    """Numbers of every size, with their signs."""
    x = _numbers()
    with np.errstate(all="ignore"):
        expected = x.astype(np.float16).astype(np.float32)
        np.testing.assert_array_equal(through_half(np, x), expected)


def test_narrowing_equals_a_conversion() -> None:
    """Bit by bit, signs of zeros included; blocks that hold infinities or NaN, and such without."""
    x = _numbers()
    finite = x[np.abs(x) < 65520].reshape(-1)
    for numbers in (x, finite, finite[:7], finite[:0], finite[: finite.size // 2 * 2].reshape(2, -1)):
        with np.errstate(all="ignore"):
            y, expected = to_half(np, numbers), numbers.astype(np.float16)
        assert y.shape == expected.shape
        np.testing.assert_array_equal(y.view(np.uint16), expected.view(np.uint16))


def test_widening_equals_a_conversion() -> None:
    """All 65,536 numbers, with their signs; NaN stays NaN."""
    x = np.arange(1 << 16).astype(np.uint16).view(np.float16).reshape(256, 256)
    expected = x.astype(np.float32)
    for left, right in ((x, expected), (x.T, expected.T)):
        y = from_half(np, left)
        np.testing.assert_array_equal(y, right)
        np.testing.assert_array_equal(np.signbit(y), np.signbit(right))


def test_widening_in_blocks_equals_a_conversion() -> None:
    """Blocks that hold infinities or NaN, and such without, in new arrays and in one that is given."""
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    finite = every[np.isfinite(every)]
    for x in (every.reshape(256, 256), np.concatenate((finite, finite, every, finite)), finite[:5], finite[:0]):
        expected = x.astype(np.float32)
        given = np.full(x.shape, 7, np.float32)
        assert widen(np, x, given) is given
        for y in (given, widen(np, x)):
            assert y.dtype == np.float32
            np.testing.assert_array_equal(y, expected)
            np.testing.assert_array_equal(np.signbit(y), np.signbit(expected))


def test_it_runs_on_another_array_module() -> None:
    """Without names that only NumPy has, and without writing to its input."""
    x = np.array([*np.linspace(-3, 3, 998), np.inf, -np.inf], np.float32).reshape(10, 100)
    device = to_device(x)
    np.testing.assert_array_equal(
        to_host(from_half(array_module, to_device(x.astype(np.float16)))), x.astype(np.float16)
    )
    assert_close(to_host(through_half(array_module, device)), x.astype(np.float16).astype(np.float32))
    np.testing.assert_array_equal(to_host(to_half(array_module, device)), x.astype(np.float16))
    np.testing.assert_array_equal(to_host(device), x)
