"""Host memory is aligned."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ort_py.devices import HOST
from ort_py.memory.host import ALIGNMENT, HostAllocator


@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 5), (7, 0, 2)])
@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.complex128, ml_dtypes.bfloat16])
def test_arrays_are_aligned_and_contiguous(shape: tuple[int, ...], dtype: Any) -> None:
    """Every array begins on a cache line, whatever its type and size, and can be written."""
    array = HostAllocator().empty(shape, dtype)
    assert (array.shape, array.dtype) == (shape, np.dtype(dtype))
    assert array.flags.carray
    assert array.size == 0 or array.ctypes.data % ALIGNMENT == 0


def test_strings_are_plain_arrays() -> None:
    """Object arrays hold references and start empty."""
    assert HostAllocator().empty((2,), object).tolist() == [None, None]


def test_the_allocator_is_the_hosts() -> None:
    """It says where its memory is; it has nothing to trim and no figures."""
    allocator = HostAllocator()
    assert allocator.memory_info.device == HOST
    assert allocator.trim() == 0
    assert allocator.stats().bytes_in_use == 0
