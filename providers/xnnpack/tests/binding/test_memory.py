"""Memory that may be read beyond its end."""

from __future__ import annotations

import numpy as np

from ort_py_xnnpack.binding.constants import EXTRA_BYTES
from ort_py_xnnpack.binding.memory import Array, aligned, begin_of, can_be_overread, padded, roomy

PAGE = 4096


def _is_roomy(array: Array) -> bool:
    return can_be_overread(array, begin_of(array))


def test_the_end_of_a_page_must_not_be_passed() -> None:
    """An array that ends with its page may be followed by one that cannot be read; one before the end may not."""
    block = np.zeros(3 * PAGE, np.uint8)
    start = -block.ctypes.data % PAGE
    assert not _is_roomy(np.frombuffer(block.data[start : start + PAGE], np.float32))
    assert _is_roomy(np.frombuffer(block.data[start : start + PAGE - EXTRA_BYTES], np.float32))


def test_a_view_has_what_follows_it_in_its_array() -> None:
    """Whatever the address: the bytes belong to the array that it is a view of."""
    whole = np.zeros(PAGE, np.float32)
    assert _is_roomy(whole[: PAGE - EXTRA_BYTES // 4])


def test_new_arrays_have_room() -> None:
    assert all(_is_roomy(roomy((count, 7))) for count in range(1, 400))


def test_a_padded_copy_is_equal() -> None:
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    copy = padded(array)
    assert _is_roomy(copy)
    np.testing.assert_array_equal(copy, array)


def test_weights_begin_at_multiples_of_64() -> None:
    assert all(aligned(size).ctypes.data % 64 == 0 for size in (1, 63, 64, 1000))
