"""Axes of arrays, joined where all arrays go on through both."""

from __future__ import annotations

import numpy as np
import pytest

from ort_py_cuda.regions.layout import broadcast_strides, collapsed, contiguous_strides


def test_equal_arrays_have_one_axis() -> None:
    own = contiguous_strides((3, 4, 5))
    assert collapsed((3, 4, 5), [own, own]) == ((60,), ((1,), (1,)))


def test_a_bias_leaves_two() -> None:
    bias = broadcast_strides((5,), (1,), (3, 4, 5))
    assert collapsed((3, 4, 5), [contiguous_strides((3, 4, 5)), bias]) == ((12, 5), ((5, 1), (0, 1)))


def test_a_scalar_joins_all() -> None:
    """It goes nowhere along any axis."""
    assert collapsed((3, 4), [contiguous_strides((3, 4)), (0, 0)]) == ((12,), ((1,), (0,)))


def test_nothing_but_ones() -> None:
    """Is one axis of one element."""
    assert collapsed((1, 1), [(0, 0)]) == ((1,), ((0,),))


@pytest.mark.parametrize("seed", range(20))
def test_the_same_places_are_visited(seed: int) -> None:
    """In the same order, for random shapes that broadcast."""
    rng = np.random.default_rng(seed)
    shape = tuple(int(one) for one in rng.integers(1, 5, 4))
    arrays = [
        np.arange(200).reshape(-1)[: int(np.prod(own))].reshape(own)
        for own in (tuple(size if rng.integers(0, 2) else 1 for size in shape) for _ in range(3))
    ]
    strides = [broadcast_strides(one.shape, [s // 8 for s in one.strides], shape) for one in arrays]
    sizes, steps = collapsed(shape, strides)
    for array, step in zip(arrays, steps, strict=True):
        offsets = [int(np.dot(place, step)) for place in np.ndindex(*sizes)]
        assert [array.reshape(-1)[one] for one in offsets] == np.broadcast_to(array, shape).reshape(-1).tolist()
