"""The arena: places by lifetimes."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from ort_py_onednn.execution.plan import Buffer, Place, lay_out


def test_what_is_alive_together_has_places_of_its_own() -> None:
    """For random lifetimes; and the arena is smaller than all of them together."""
    rng = np.random.default_rng(5)
    for _ in range(30):
        drawn = [sorted(int(step) for step in rng.integers(0, 12, 2)) for _ in range(10)]
        lives = {Buffer(Place.ARENA, int(rng.integers(1, 4000))): (first, last) for first, last in drawn}
        total = lay_out(lives)
        for (one, first), (other, second) in combinations(lives.items(), 2):
            if first[0] <= second[1] and second[0] <= first[1]:
                assert one.offset + one.nbytes <= other.offset or other.offset + other.nbytes <= one.offset
        assert all(buffer.offset % 64 == 0 and buffer.offset + buffer.nbytes <= total for buffer in lives)


def test_what_is_not_alive_together_shares() -> None:
    """One after the other in one place."""
    first, second = Buffer(Place.ARENA, 640), Buffer(Place.ARENA, 100)
    assert lay_out({first: (0, 0), second: (1, 1)}) == 640
    assert first.offset == second.offset == 0
