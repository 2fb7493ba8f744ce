"""The buffers that callbacks for compiled models get."""

from __future__ import annotations

import numpy as np
import pytest

from ort_py.errors import UsageError
from ort_py.options.ep_context import OrtEpContextData, OrtEpContextDataBuffer


def test_a_buffer_is_allocated_once_and_filled() -> None:
    """Parts are written where they belong, from anything with the buffer protocol."""
    buffer = OrtEpContextDataBuffer(8)
    assert (buffer.max_size, buffer.size, buffer.is_allocated) == (8, 0, False)
    buffer.allocate(6)
    buffer.write(b"abc")
    buffer.write(np.frombuffer(b"def", np.uint8), offset=3)
    assert (buffer.size, buffer.is_allocated, buffer.content().read()) == (6, True, b"abcdef")


@pytest.mark.parametrize("size", [-1, 9])
def test_a_size_has_bounds(size: int) -> None:
    """From nothing to the largest size."""
    with pytest.raises(UsageError, match="cannot be allocated"):
        OrtEpContextDataBuffer(8).allocate(size)


def test_a_second_allocation_is_refused() -> None:
    buffer = OrtEpContextDataBuffer(8)
    buffer.allocate(2)
    with pytest.raises(UsageError, match="cannot be allocated"):
        buffer.allocate(2)


@pytest.mark.parametrize(("offset", "size"), [(0, 0), (1, 3), (-1, 3)])
def test_writing_outside_is_refused(offset: int, size: int) -> None:
    """Before allocation, and past either end."""
    buffer = OrtEpContextDataBuffer(8)
    if size:
        buffer.allocate(size)
    with pytest.raises(UsageError, match="cannot be written"):
        buffer.write(b"abc", offset)


def test_data_is_read_in_parts() -> None:
    """From an offset, to the end where no length is given."""
    data = OrtEpContextData(b"abcdef")
    assert (data.size, data.read(), data.read(2), data.read(1, 2)) == (6, b"abcdef", b"cdef", b"bc")


@pytest.mark.parametrize(("offset", "length"), [(-1, 2), (5, 2), (7, None)])
def test_reading_outside_is_refused(offset: int, length: int | None) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        OrtEpContextData(b"abcdef").read(offset, length)
