"""Blending by bits against NumPy's `where`, bit by bit: every width of element, shapes that broadcast, any strides."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from .oracle import run

TYPES = (
    *(np.bool_, np.int8, np.uint16, np.float16, ml_dtypes.bfloat16, np.int32, np.float32, np.int64, np.float64),
    *(np.complex64, np.complex128, ml_dtypes.float8_e4m3fn, ml_dtypes.int4, object),
)


def _random(shape: tuple[int, ...], dtype: Any, seed: int) -> Any:
    values = np.random.default_rng(seed).integers(0, 7, shape)
    return values.astype(str).astype(object) if dtype is object else values.astype(dtype)


@pytest.mark.parametrize("dtype", TYPES, ids=lambda dtype: np.dtype(dtype).name)
def test_large_arrays_of_every_type(dtype: Any) -> None:
    """More than a block, the last one shorter; of types that have no bits to blend, too."""
    shape = (7, 4999)
    condition = np.random.default_rng(0).integers(0, 2, shape).astype(bool)
    x, y = _random(shape, dtype, 1), _random(shape, dtype, 2)
    (result,) = run("Where", [condition, x, y])
    assert result.dtype == x.dtype
    np.testing.assert_array_equal(result, np.where(condition, x, y))


@pytest.mark.parametrize(
    "shapes",
    [
        ((90, 70), (), (90, 70)),
        ((90, 70), (90, 70), (70,)),
        ((90, 70), (1,), (90, 1)),
        ((70,), (90, 1), (90, 70)),
        ((), (90, 70), (90, 70)),
        ((2, 90, 1), (70,), (90, 70)),
        ((0, 9000), (9000,), (9000,)),
    ],
    ids=str,
)
def test_shapes_that_broadcast(shapes: tuple[tuple[int, ...], ...]) -> None:
    """Whichever of the three is the large one."""
    condition = np.random.default_rng(0).integers(0, 2, shapes[0]).astype(bool)
    x, y = _random(shapes[1], np.float32, 1), _random(shapes[2], np.float32, 2)
    (result,) = run("Where", [condition, x, y])
    np.testing.assert_array_equal(result, np.where(condition, x, y))


def test_special_values_and_signs_of_zero_stay_as_they_are() -> None:
    x = np.array([np.nan, -np.inf, -0.0, 1e-45] * 2000, np.float32)
    condition = np.random.default_rng(0).integers(0, 2, x.shape).astype(bool)
    (result,) = run("Where", [condition, x, -x])
    np.testing.assert_array_equal(result.view(np.int32), np.where(condition, x, -x).view(np.int32))


def test_arrays_with_strides() -> None:
    """Views are read as they lie."""
    condition = np.random.default_rng(0).integers(0, 2, (80, 90)).astype(bool)
    x, y = _random((90, 80), np.float32, 1), _random((160, 90), np.float32, 2)
    (result,) = run("Where", [condition, x.T, y[::2]])
    np.testing.assert_array_equal(result, np.where(condition, x.T, y[::2]))


def test_prelu_of_a_large_array() -> None:
    """Signs that nothing foretells; NaN stays."""
    x = np.random.default_rng(0).normal(size=(3, 5000)).astype(np.float32)
    x[0, :3] = np.nan, np.inf, -0.0
    slope = np.full((3, 1), 0.25, np.float32)
    (result,) = run("PRelu", [x, slope])
    np.testing.assert_array_equal(result, np.where(x < 0, x * slope, x))
