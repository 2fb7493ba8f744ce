"""Places of integers among sorted keys: by a table and by search, whatever is looked for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ort_py_array.key_places import place_finder

LEAST, GREATEST = -(1 << 63), (1 << 63) - 1
NUMBERS = st.one_of(st.integers(-9, 9), st.integers(LEAST, GREATEST), st.sampled_from([LEAST, LEAST + 1, GREATEST]))


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.sets(NUMBERS, max_size=6), st.lists(NUMBERS, max_size=9))
def test_places(keys: set[int], sought: list[int]) -> None:
    """Each key is found at its place, and nothing else is, up to the ends of int64."""
    ordered = sorted(keys)
    looked_for = [*sought, *ordered]
    found = place_finder(np, np.array(ordered, np.int64))(np.array(looked_for, np.int64))
    assert found.tolist() == [ordered.index(one) if one in keys else -1 for one in looked_for]


@pytest.mark.parametrize("end", [LEAST, GREATEST - 2])
def test_close_keys_at_the_ends(end: int) -> None:
    """A table at either end of int64 is not found from the other."""
    keys = np.array([end, end + 2], np.int64)
    sought = np.array([LEAST, LEAST + 1, LEAST + 2, -1, 0, GREATEST - 2, GREATEST - 1, GREATEST], np.int64)
    expected = [0 if one == end else 1 if one == end + 2 else -1 for one in sought.tolist()]
    assert place_finder(np, keys)(sought).tolist() == expected
