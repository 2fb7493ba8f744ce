"""The question before an array is made."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from ort_py.dtypes import DataType
from ort_py.errors import LimitError, Location
from ort_py.limits import Limits, array_bytes, array_memory, check_allocation, longest_text, unquestioned_elements
from ort_py.limits.allocation import human_bytes

pytestmark = pytest.mark.quick


def test_what_fits_passes() -> None:
    """An array at the limit is allowed."""
    check_allocation(Limits(single_allocation_bytes=400), [100], np.float32)


def test_one_byte_more_is_refused_with_all_four_parts() -> None:
    """The message has the size, the place, shape and type, and the limit to raise."""
    with pytest.raises(LimitError) as caught:
        check_allocation(Limits(single_allocation_bytes=400), [101], np.float32, Location(node="n", op_type="Expand"))
    text = str(caught.value)
    assert "404 bytes is larger than one allocation may be (400 bytes)" in text
    assert "where: node 'n', operator Expand" in text
    assert "why: its shape is 101, its type float32" in text
    assert "raise Limits.single_allocation_bytes" in text


def test_products_do_not_wrap() -> None:
    """A shape whose size is 0 modulo 2^64 is still refused."""
    with pytest.raises(LimitError, match="2\\^130 bytes"):
        check_allocation(Limits(), [1 << 32, 1 << 32, 1 << 32, 1 << 32], np.float32)


def test_what_no_machine_can_address_is_refused_without_limits() -> None:
    """Unlimited does not mean that NumPy gets to see an impossible shape."""
    with pytest.raises(LimitError, match="larger than this machine can address"):
        check_allocation(Limits.unlimited(), [1 << 62, 4], np.uint8)


def test_what_needs_no_question() -> None:
    """So many elements pass for every type; one more of the narrowest type needs a check."""
    limits = Limits(single_allocation_bytes=400)
    check_allocation(limits, [unquestioned_elements(limits)], np.complex128)
    with pytest.raises(LimitError):
        check_allocation(limits, [unquestioned_elements(limits) + 1], np.complex128)
    check_allocation(Limits.unlimited(), [unquestioned_elements(Limits.unlimited())], np.complex128)


def test_data_types_and_scalars_are_understood() -> None:
    """ONNX types count as in memory; a scalar has one element, an empty array none."""
    assert array_bytes([3], DataType.INT4) == 3
    assert array_bytes([], np.float64) == 8
    assert array_bytes([0, 1 << 40], np.float64) == 0


def test_sizes_are_readable() -> None:
    """Bytes, then binary units, then powers of two."""
    assert human_bytes(1023) == "1023 bytes"
    assert human_bytes(3 << 29) == "1.5 GiB"
    assert human_bytes(1 << 2000) == "2^2000 bytes"


def test_numbers_take_what_their_array_takes() -> None:
    """Nothing is added for an array without pointers."""
    assert array_memory(np.zeros((3, 4), np.float32)) == 48
    assert longest_text(np.zeros(3)) == 0
    assert longest_text(None) == 0


def test_strings_count_beside_their_pointers() -> None:
    """Each element counts with what Python keeps for it."""
    array = np.array(["a" * 100, "é", ""], object)
    assert array_memory(array) == array.nbytes + sum(map(sys.getsizeof, array))
    assert longest_text(array) == sys.getsizeof("a" * 100)


def test_a_string_that_many_point_to_counts_once() -> None:
    """With a set of what is counted, within an array and from array to array."""
    text, seen = "a" * 1000, set[int]()
    array = np.array([text] * 10, object)
    assert array_memory(array, seen) == array.nbytes + sys.getsizeof(text)
    assert array_memory(array[:5], seen) == 40
    assert array_memory(array) == array.nbytes + 10 * sys.getsizeof(text)
