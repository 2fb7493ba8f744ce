"""Sums of symbolic sizes."""

from __future__ import annotations

import pytest

from ort_py.dtypes import Dim
from ort_py.graph.typing.size_sums import SizeSum, added, in_types, taken_from


def test_the_order_of_parts_does_not_matter() -> None:
    """a + b and b + a are one number."""
    left, right = added("a", "b"), added("b", "a")
    assert left == right
    assert len({left, right}) == 1
    assert hash(left) == hash(right)
    assert str(left) == "a + b"


@pytest.mark.parametrize("name", ["a + b", "b + a"])
def test_a_name_that_reads_like_a_sum_is_another_size(name: str) -> None:
    """A model may call any size so, and nothing checks that it is."""
    whole = added("a", "b")
    assert whole != name
    assert name != whole
    assert name not in {whole}
    assert taken_from(name, "a") is None
    assert added("a + b", "c") != added(whole, "c")


@pytest.mark.parametrize(
    ("whole", "part", "left"),
    [
        (added("a", "b"), "a", "b"),
        (added("a", "a"), "a", "a"),
        (added(added("a", "b"), "c"), added("c", "a"), "b"),
        (added(added("a", "b"), "c"), "b", added("a", "c")),
        ("a", "a", 0),
        ("a", 0, "a"),
        (added("a", "b"), "c", None),
        (added("a", "b"), added("a", "a"), None),
        ("a", added("a", "b"), None),
        ("a", 1, None),
        (3, "a", None),
        (None, "a", None),
        ("a", None, None),
        (None, None, None),
    ],
)
def test_what_is_left(whole: Dim, part: Dim, left: Dim) -> None:
    """A size is known where the parts of the one are among those of the other, as often."""
    assert taken_from(whole, part) == left


@pytest.mark.parametrize(("a", "b", "whole"), [("a", 0, "a"), (0, "a", "a"), ("a", 1, None), (None, "a", None)])
def test_sums_that_are_none(a: Dim, b: Dim, whole: Dim) -> None:
    """Nothing added leaves a size; a number added makes it unknown."""
    assert added(a, b) == whole


def test_long_sums_are_not_followed() -> None:
    """A model cannot make names grow."""
    whole: Dim = "a"
    for _ in range(4):
        assert whole is not None
        whole = added(whole, "a")
    assert whole is None


def test_types_hold_no_sums() -> None:
    """They would be written to files as a name that a model may use for another size."""
    assert in_types(SizeSum(("a", "b"))) is None
    assert in_types("a + b") == "a + b"
    assert in_types(3) == 3
