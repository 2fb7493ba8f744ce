"""Attention of one query row: against the general way, and what it leaves to that one."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import pytest

from ort_py.errors import LimitError
from ort_py_array.attention import plain
from ort_py_array.attention.core import Rule, attend
from ort_py_array.attention.one_row import one_row
from ort_py_kit.kernel_runner import LocalKernelContext, make_node_spec
from ort_py_kit.tolerances import assert_close

from ..oracle import run, sample

BATCH, HEADS, SIZE, VALUES = 2, 4, 8, 6

MASKS = {
    "none": None,
    "numbers": sample((9,), np.float32, 7),
    "entries and heads": sample((BATCH, HEADS, 1, 9), np.float32, 8),
    "hiding": np.where(np.arange(9) < [[[[3]]], [[[7]]]], np.float32(-np.inf), np.float32(0)),
    "lowest": np.where(np.arange(9) < 3, np.finfo(np.float32).min, np.float32(0)).reshape(1, 1, 1, 9),
    "bool": np.arange(9) > [[[[3]]], [[[7]]]],
    "bool of heads": sample((1, HEADS, 1, 9), np.float32, 9) > -1,
}


def context() -> LocalKernelContext:
    """A context of some node."""
    return LocalKernelContext(make_node_spec("Attention", []), np)


def operands(groups: int, new: int, past: int) -> list[Any]:
    """Queries, new keys and values, past keys and values, all with their heads split."""
    shapes = [
        (HEADS, 1, SIZE),
        (groups, new, SIZE),
        (groups, new, VALUES),
        (groups, past, SIZE),
        (groups, past, VALUES),
    ]
    return [sample((BATCH, *shape), np.float32, seed) for seed, shape in enumerate(shapes)]


def joined(x: Any) -> Any:
    """Heads of one row side by side."""
    return x.reshape(x.shape[0], 1, -1)


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS.keys())
@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("form", ["split", "joined", "cache"])
def test_it_gives_what_the_general_way_gives(
    form: str, groups: int, mask: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether heads are split or side by side, with keys before the new ones or all keys at once."""
    q, k, v, past_key, past_value = operands(groups, 1, 8)
    keys, values = np.concatenate((past_key, k), axis=2), np.concatenate((past_value, v), axis=2)
    if form == "cache":
        found = one_row(context(), 0.5, HEADS, groups, joined(q), keys, values, mask, None, None)
    else:
        new = [joined(x) if form == "joined" else x for x in (q, k, v)]
        found = one_row(context(), 0.5, HEADS, groups, new[0], new[1], new[2], mask, past_key, past_value)
    assert found is not None
    monkeypatch.setattr(plain, "FEW", 0)
    expected, _ = attend(context(), q, keys, values, Rule(0.5), mask=mask)
    assert_close(found[0].reshape(expected.shape), expected)
    np.testing.assert_array_equal(found[1], keys)
    np.testing.assert_array_equal(found[2], values)
    assert form == "cache" or not any(np.shares_memory(made, past_key) for made in found)


def test_without_a_scale_it_is_that_of_the_size() -> None:
    q, k, v, _, _ = operands(2, 5, 0)
    found = one_row(context(), None, HEADS, 2, q, k, v, None, None, None)
    expected = one_row(context(), SIZE**-0.5, HEADS, 2, q, k, v, None, None, None)
    assert found is not None
    assert expected is not None
    assert_close(found[0], expected[0])


@pytest.mark.parametrize("empty", [True, False])
def test_a_past_of_no_rows(empty: bool) -> None:
    """The first word: a past without rows, or none."""
    q, k, v, past_key, past_value = operands(2, 1, 0)
    past = (past_key, past_value) if empty else (None, None)
    found = one_row(context(), 1.0, HEADS, 2, q, k, v, None, *past)
    assert found is not None
    assert_close(found[0], np.repeat(v, HEADS // 2, axis=2))


def _changed(place: int, how: Any) -> list[Any]:
    """Operands of which one is changed."""
    given: list[Any] = [*operands(2, 1, 8)[:3], None, *operands(2, 1, 8)[3:]]
    given[place] = how(given[place])
    return given


@pytest.mark.parametrize(
    ("place", "how"),
    [
        (0, lambda q: q.astype(np.float64)),
        (0, lambda q: np.concatenate((q, q), axis=2)),
        (0, lambda q: q[:1]),
        (0, lambda q: q[..., :4]),
        (1, lambda k: k[:, :1]),
        (1, lambda k: k[..., :4]),
        (1, lambda k: np.concatenate((k, k), axis=2)),
        (1, joined),
        (2, lambda v: v.astype(np.float16)),
        (2, lambda v: v[..., :0]),
        (3, lambda _: np.zeros((1, 8), np.float32)),
        (3, lambda _: np.zeros((1, 1), bool)),
        (3, lambda _: np.zeros((3, 1, 1, 9), np.float32)),
        (3, lambda _: np.zeros((1, 1, 1, 1, 9), np.float32)),
        (3, lambda _: np.zeros(9, np.float64)),
        (3, lambda _: np.zeros(9, bool)),
        (3, lambda _: np.full(9, np.nan, np.float32)),
        (3, lambda _: np.full(9, -np.inf, np.float32)),
        (3, lambda _: np.full(9, 1e4, np.float32)),
        (3, lambda _: np.full(9, -1e4, np.float32)),
        (4, lambda past: past[:, :, :7]),
        (4, lambda past: past[:1]),
        (4, lambda past: past[0]),
        (5, lambda past: past[..., :4]),
        (5, lambda _: None),
    ],
)
def test_what_is_not_plain_is_left_to_the_general_way(place: int, how: Any) -> None:
    """Other types, forms that do not belong together, rows that see no key, and scores of unusual size."""
    with np.errstate(all="ignore"):
        assert one_row(context(), 1.0, HEADS, 2, *_changed(place, how)) is None


@pytest.mark.parametrize("shift", [-np.inf, -1e4, -200, 200, 1e4, np.nan])
def test_scores_of_unusual_size(shift: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """The operator gives what the general way gives, also where exponentials of the scores have no number."""
    q, k, v, past_key, past_value = operands(2, 1, 8)
    mask = np.full((1, 9), shift, np.float32)
    (y,) = run("Attention", [q, k, v, mask, past_key, past_value])
    monkeypatch.setattr(plain, "FEW", 0)
    keys, values = np.concatenate((past_key, k), axis=2), np.concatenate((past_value, v), axis=2)
    expected, _ = attend(context(), q, keys, values, Rule(SIZE**-0.5), mask=mask)
    assert_close(y, expected)


def test_limits_are_asked_before_a_present_is_made() -> None:
    class Capped(LocalKernelContext):
        def check_allocation(self, shape: Sequence[int], dtype: Any) -> None:
            raise LimitError(f"too large: {prod(shape)}")

    ctx = Capped(make_node_spec("Attention", []))
    q, k = np.zeros((1, 1, 1, 1 << 14), np.float32), np.zeros((1, 1, 7, 1 << 14), np.float32)
    with pytest.raises(LimitError, match=f"too large: {8 << 14}"):
        one_row(ctx, 1.0, 1, 1, q, k[:, :, :1], k[:, :, :1], None, k, k)
