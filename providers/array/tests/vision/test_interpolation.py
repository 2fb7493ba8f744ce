"""The parts of interpolation: blocks, positions outside, weights."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ort_py_array.vision.interpolation import Pixels, blocks, cubic_taps, interpolated, linear_taps, zeroed

from ..oracle import sample


@settings(max_examples=25, deadline=None, derandomize=True)
@given(images=st.integers(0, 9), points=st.integers(0, 50), fitting=st.integers(1, 120))
def test_blocks_cover_every_point_once(images: int, points: int, fitting: int) -> None:
    """And none holds more points than fit."""
    seen = np.zeros((images, points), int)
    for some, part in blocks(images, points, fitting):
        assert seen[some, part].size <= fitting
        seen[some, part] += 1
    assert (seen == 1).all()


def test_what_is_outside_becomes_the_ring() -> None:
    """Before and after the axis alike."""
    index = np.array([-(2**62), -1, 0, 3, 4, 2**62])
    np.testing.assert_array_equal(zeroed(np, 4)(index), [4, 4, 0, 3, 4, 4])


@pytest.mark.parametrize("taps", [linear_taps, cubic_taps])
def test_weights_add_up_to_one_and_meet_the_pixels(taps: object) -> None:
    """At a pixel, it alone counts."""
    assert callable(taps)
    position = np.array([0.0, 0.25, 1.5, 2.0])
    found = taps(np, position, lambda index: index, np.float64)
    np.testing.assert_allclose(sum(weight for _, weight in found), 1)
    for index, weight in found:
        np.testing.assert_allclose(weight[[0, 3]], index[[0, 3]] == position[[0, 3]])


@pytest.mark.parametrize("channels", [1, 7, 8, 20])
def test_both_layouts_hold_the_same_pixels(channels: int) -> None:
    """Pixels of few channels lie channel by channel."""
    x = sample((2, channels, 3, 4), np.float32)
    pixels = Pixels.of(np, x, x.dtype, ring=True)
    rows, columns = np.repeat(np.arange(4), 5), np.tile(np.arange(5), 4)
    first = np.full(20, pixels.strides[0])
    y = pixels.image_first(np, interpolated(np, pixels, first, [[(rows, None)], [(columns, None)]]), 1)
    expected = np.zeros((channels, 4, 5), np.float32)
    expected[:, :3, :4] = x[1]
    np.testing.assert_array_equal(y[0], expected.reshape(channels, -1))
