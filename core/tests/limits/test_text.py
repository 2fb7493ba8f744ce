"""The memory that strings take."""

from __future__ import annotations

import sys

import numpy as np

from ort_py.limits import array_memory, longest_text


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
