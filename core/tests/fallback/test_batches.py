"""Runs in parts: which inputs are split, how parts shrink, and what cannot be put together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from core.tests.driving import floats
from ort_py.fallback.batches import Batch, CannotSplit, Declared, batch_of, run_in_parts

X = floats(11, 2)


def batch(x: Any = X, axis: int = 0) -> Batch:
    """A feed of one input."""
    return batch_of(axis, [Declared("x", ("n",) * x.ndim)], [Declared("y", None)], {"x": x})


def double(feed: Mapping[str, Any]) -> list[Any]:
    """A model."""
    return [feed["x"] * 2]


def never(error: Exception) -> bool:
    """Memory is never the reason."""
    return False


def test_parts_are_put_together_in_order() -> None:
    """Two halves of an odd number."""
    (result,), size = run_in_parts(batch(), ["y"], double, never)
    np.testing.assert_array_equal(result, X * 2)
    assert size == 6


def test_parts_shrink_until_they_fit() -> None:
    """Those that are done stay done."""
    sizes: list[int] = []

    def run(feed: Mapping[str, Any]) -> list[Any]:
        sizes.append(len(feed["x"]))
        if sizes[-1] > 2:
            raise MemoryError
        return double(feed)

    (result,), size = run_in_parts(batch(), ["y"], run, lambda error: isinstance(error, MemoryError))
    np.testing.assert_array_equal(result, X * 2)
    assert (size, sizes) == (2, [6, 3, 2, 2, 2, 2, 2, 1])


def test_one_item_is_the_smallest_part() -> None:
    with pytest.raises(MemoryError):
        run_in_parts(batch(), ["y"], _short, lambda error: True)


def _short(feed: Mapping[str, Any]) -> list[Any]:
    raise MemoryError


def test_other_errors_are_raised_at_once() -> None:
    """Splitting is an answer to short memory only."""
    calls: list[int] = []

    def run(feed: Mapping[str, Any]) -> list[Any]:
        calls.append(1)
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        run_in_parts(batch(), ["y"], run, never)
    assert len(calls) == 1


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_any_axis(axis: int) -> None:
    """Parts are views of the feed, which is not written to."""
    x = floats(5, 6, 7)
    x.flags.writeable = False
    (result,), _ = run_in_parts(batch(x, axis), ["y"], double, never)
    np.testing.assert_array_equal(result, x * 2)


def test_texts() -> None:
    """Arrays of objects are split as others are."""
    x = np.array([["a"], ["b"], ["c"]], object)
    (result,), _ = run_in_parts(batch(x), ["y"], lambda feed: [feed["x"]], never)
    assert result.tolist() == x.tolist()


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        (lambda x: x.sum(axis=0), "has shape \\[2\\]"),
        (lambda x: np.float32(1), "is a float32"),
        (lambda x: [x], "is a list"),
        (lambda x: x[:, : len(x)] if len(x) % 2 else np.concatenate([x, x], 1), "where \\[5, 4\\] follows"),
    ],
)
def test_outputs_that_do_not_follow_the_axis(output: Any, reason: str) -> None:
    """Found when the part is there."""
    with pytest.raises(CannotSplit, match=reason):
        run_in_parts(batch(), ["y"], lambda feed: [output(feed["x"])], never)


def test_what_has_the_axis() -> None:
    """Dynamic there, with enough axes, a tensor; the rest goes in whole."""
    inputs = [
        Declared("x", ("n", 2)),
        Declared("fixed", (11, 2)),
        Declared("short", ()),
        Declared("list", None, tensor=False),
        Declared("absent", None),
    ]
    feed = {"x": X, "fixed": X, "short": np.float32(1), "list": [X], "absent": None}
    found = batch_of(0, inputs, [Declared("y", ("n",))], feed)
    assert (set(found.names), found.size) == ({"x"}, 11)
    part = found.part(2, 4)
    assert part["fixed"] is X
    np.testing.assert_array_equal(part["x"], X[2:4])
    assert np.shares_memory(part["x"], X)


@pytest.mark.parametrize(
    ("outputs", "feed", "reason"),
    [
        ([Declared("y", ())], {"x": X}, "output 'y' has 0 axes"),
        ([Declared("y", (3, "n"))], {"x": X}, "output axis 0 of 'y' always has 3"),
        ([Declared("y", None, tensor=False)], {"x": X}, "output 'y' is not a tensor"),
        ([], {"x": X[:1]}, "axis 0 has 1, which is too small to split"),
        ([], {"x": None}, "no input has an axis 0"),
    ],
)
def test_refusals(outputs: list[Declared], feed: dict[str, Any], reason: str) -> None:
    with pytest.raises(CannotSplit, match=reason):
        batch_of(0, [Declared("x", ("n", None))], outputs, feed)
