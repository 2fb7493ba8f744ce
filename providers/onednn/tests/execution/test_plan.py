"""The arena: places by lifetimes."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from ort_py_onednn.execution.plan import Buffer, Place, Step, lay_out


def test_what_is_alive_together_has_places_of_its_own() -> None:
    """For random lifetimes; and the arena is smaller than all of them together."""
    rng = np.random.default_rng(5)
    for _ in range(30):
        lives = [sorted(int(step) for step in rng.integers(0, 12, 2)) for _ in range(10)]
        buffers = [Buffer(Place.ARENA, int(rng.integers(1, 4000))) for _ in lives]
        steps = []
        for number in range(12):
            here = [buffer for buffer, life in zip(buffers, lives, strict=True) if number in life]
            steps.append(Step(None, dict(enumerate(here)), 1, ""))
        total = lay_out(steps)
        for (one, first), (other, second) in combinations(zip(buffers, lives, strict=True), 2):
            if first[0] <= second[1] and second[0] <= first[1]:
                assert one.offset + one.nbytes <= other.offset or other.offset + other.nbytes <= one.offset
        assert all(buffer.offset % 64 == 0 and buffer.offset + buffer.nbytes <= total for buffer in buffers)


def test_what_is_not_alive_together_shares() -> None:
    """One after the other in one place; arrays of the run take none."""
    first, second, given = Buffer(Place.ARENA, 640), Buffer(Place.ARENA, 100), Buffer(Place.INPUT, 9999)
    assert lay_out([Step(None, {0: first, 1: given}, 1, ""), Step(None, {0: second}, 1, "")]) == 640
    assert first.offset == second.offset == 0


def test_a_piece_lies_in_its_whole() -> None:
    """It keeps the whole alive, and has no place of its own."""
    other, whole = Buffer(Place.ARENA, 640), Buffer(Place.ARENA, 640)
    piece = Buffer(Place.ARENA, 128, whole=whole, start=256)
    steps = [Step(None, {0: whole}, 1, ""), Step(None, {0: other}, 1, ""), Step(None, {0: piece}, 1, "")]
    assert lay_out(steps) == 1280
    assert whole.offset != other.offset
    assert piece.offset == whole.offset + 256
