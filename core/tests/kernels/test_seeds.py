"""Streams of random operators without a seed of their own."""

from __future__ import annotations

import pytest

from ort_py.errors import Location
from ort_py.kernels.seeds import process_seed, set_process_seed, stream_for

NODE = Location(node="noise", op_type="RandomNormal")


def first(seed: int | None, node: Location = NODE, call: int = 0) -> float:
    """The first number of a stream."""
    return float(stream_for(seed, node, call).random())


def test_a_stream_repeats() -> None:
    assert first(7) == first(7)


@pytest.mark.parametrize(
    ("seed", "node", "call"),
    [
        (8, NODE, 0),
        (7, Location(node="other", op_type="RandomNormal"), 0),
        (7, Location(node="noise", op_type="RandomNormal", path=("loop",)), 0),
        (7, NODE, 1),
    ],
)
def test_streams_differ(seed: int, node: Location, call: int) -> None:
    """Another seed, node, place or call gives other numbers."""
    assert first(seed, node, call) != first(7)


def test_negative_seeds_are_seeds() -> None:
    assert first(-1) == first(-1) != first(1)


def test_without_a_seed_nothing_repeats() -> None:
    assert first(None) != first(None)


def test_the_process_has_one_seed() -> None:
    assert process_seed() is None
    set_process_seed(5)
    try:
        assert process_seed() == 5
    finally:
        set_process_seed(None)
    assert process_seed() is None
