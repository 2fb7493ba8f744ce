"""`strided_views`: the same view as NumPy's `as_strided`, and none that leaves its array."""

from __future__ import annotations

import numpy as np
import pytest

from ort_py_array.strided_views import strided_view

from .standin import array_module, to_device, to_host


def test_windows_of_a_signal() -> None:
    """Overlapping windows are views: nothing is copied."""
    x = np.arange(10, dtype=np.float32)
    view = strided_view(np, x, (4, 3), (8, 4))
    assert view.tolist() == [[0, 1, 2], [2, 3, 4], [4, 5, 6], [6, 7, 8]]
    assert np.shares_memory(view, x)


def test_an_array_with_strides_of_its_own() -> None:
    """Strides are counted in the memory of the array, also where it is not contiguous."""
    x = np.arange(12, dtype=np.float32).reshape(3, 4)[:, 1:3]
    assert strided_view(np, x, (3,), (16,)).tolist() == [1, 5, 9]


def test_on_a_device() -> None:
    """Other array modules make the view themselves."""
    x = to_device(np.arange(6, dtype=np.float32))
    assert to_host(strided_view(array_module, x, (2, 3), (12, 4))).tolist() == [[0, 1, 2], [3, 4, 5]]


def test_a_view_that_leaves_its_array_is_refused() -> None:
    """On the host no view reads memory of somebody else."""
    with pytest.raises((TypeError, ValueError)):
        strided_view(np, np.zeros(4, np.float32), (3, 3), (8, 4))
