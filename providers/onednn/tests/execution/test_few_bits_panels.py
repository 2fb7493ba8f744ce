"""Weights of few bits in panels: where each lies, and that they can be had again."""

from __future__ import annotations

import numpy as np
import pytest

from ort_py_onednn.execution.few_bits_panels import panels, weights_of


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("columns", [1, 64, 100, 192])
def test_weights_are_taken_out_again(bits: int, columns: int) -> None:
    half = 1 << (bits - 1)
    weights = np.random.default_rng(columns).integers(-half, half, (3, 16, columns)).astype(np.int8)
    data = panels(weights, np.ones((3, 1, columns), np.float32), bits)
    np.testing.assert_array_equal(weights_of(data, (3, 16, columns), bits), weights)


def test_places_of_four_bits() -> None:
    """Column 65 is the second of the second panel; row 9 is the second of the second word, from the lowest bits on."""
    weights, scales = np.zeros((2, 16, 66), np.int8), np.zeros((2, 1, 66), np.float32)
    weights[1, 9, 65], scales[1, 0, 65] = -3, 2.5
    rows = panels(weights, scales, 4).reshape(2, 2, 3, 256)
    assert rows[1, 1, 1].view(np.uint32)[1] == 0x88888858
    assert rows[1, 1, 2].view(np.float32)[1] == 2.5
    assert np.count_nonzero(rows[..., :2, :] != 0x88) == 1


def test_places_of_eight_bits() -> None:
    """Four rows of a column are the bytes of a word, from the lowest on, each with 128 added."""
    weights, scales = np.zeros((2, 16, 66), np.int8), np.zeros((2, 1, 66), np.float32)
    weights[1, 9, 65], scales[1, 0, 65] = -100, 2.5
    rows = panels(weights, scales, 8).reshape(2, 2, 5, 256)
    assert rows[1, 1, 2].view(np.uint32)[1] == 0x80801C80
    assert rows[1, 1, 4].view(np.float32)[1] == 2.5
