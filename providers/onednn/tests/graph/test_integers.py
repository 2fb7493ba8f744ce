"""Real numbers that integers of a quantised model stand for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ort_py_onednn.graph.integers import Numbers


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32])
@pytest.mark.parametrize("zeros", [[0, 0, 0], [3, 0, 100]])
def test_numbers_are_scaled_differences(dtype: type[np.integer[Any]], zeros: list[int]) -> None:
    """Rounded once: each is the float32 product of an exact difference and its scale."""
    limits = np.iinfo(dtype)
    integers = np.array([[limits.min, 0, limits.max], [limits.max, limits.min, 77]], dtype)
    numbers = Numbers(np.array([0.1, 1e-3, 7.0], np.float32), np.array(zeros, np.int64))
    expected = [
        [(int(one) - zero) * scale for one, zero, scale in zip(row, zeros, numbers.scale, strict=True)]
        for row in integers
    ]
    found = numbers.real(integers)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, np.array(expected, np.float32))


def test_the_integers_stay_as_they_are() -> None:
    integers = np.arange(6, dtype=np.int8).reshape(2, 3)
    Numbers(np.array([0.5], np.float32), np.array([2], np.int64)).real(integers)
    np.testing.assert_array_equal(integers, np.arange(6).reshape(2, 3))


@pytest.mark.parametrize(
    "other",
    [
        Numbers(np.array([1, 3], np.float32), np.array([0], np.int64)),
        Numbers(np.array([1, 2], np.float32), np.array([1], np.int64)),
        Numbers(np.array([1, 2], np.float32), np.array([0], np.int64), 0),
    ],
)
def test_keys_differ_with_the_meaning(other: Numbers) -> None:
    one = Numbers(np.array([1, 2], np.float32), np.array([0], np.int64))
    assert one.key == Numbers(np.array([1, 2], np.float32), np.array([0], np.int64)).key
    assert one.key != other.key
