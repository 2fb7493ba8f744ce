"""The n-grams of a pool as sorted tables, in which windows of a sequence are looked up one item at a time.

An n-gram is found by its beginning: each length has a table of keys, ``beginning * items + item``, where beginnings are
places in the table before. So a window of any length is a few binary searches, for all windows at once, and those whose
beginning is in no n-gram drop out early.

Comes before `tfidf`. It is independent of counts and weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ort_py.contracts.graph_view import Array
from ort_py.lazy_dataclass import dataclass
from ort_py_array.key_places import Finder, place_finder

__all__ = ["NgramTable", "hits", "ngram_table"]


@dataclass(frozen=True, slots=True)
class NgramTable:
    """Sorted n-grams, in arrays of the provider's module.

    Attributes:
        items: Count of distinct items.
        follow: For each length from 2 on, from keys to places in its table.
        ends: For each length from 1 on, the n-gram that ends there, -1 where none does.
    """

    items: int
    follow: tuple[Finder, ...]
    ends: tuple[Array, ...]


def ngram_table(xp: Any, grams: Sequence[tuple[int, Array]], items: int, longest: int) -> NgramTable:
    """The table of a pool.

    Args:
        xp: Array module of the result.
        grams: For each length, from 1 on, the number of its first n-gram, and its n-grams ``(count, length)`` of item
            numbers, on the host. Lengths that do not count are empty. Of equal n-grams, the last counts.
        items: Count of distinct items.
        longest: Greatest length that counts.
    """
    beginnings = [block[:, 0].astype(np.int64) for _, block in grams[:longest]]
    all_keys: list[Array] = []
    ends = [np.full(items, -1, np.int64)]
    if beginnings:
        _mark(ends[0], beginnings[0], grams[0][0])
    for length in range(2, len(beginnings) + 1):
        blocks = [block for _, block in grams[length - 1 : longest]]
        keys = [
            before * items + block[:, length - 1]
            for before, block in zip(beginnings[length - 1 :], blocks, strict=True)
        ]
        table = np.unique(np.concatenate(keys))
        places = [np.searchsorted(table, key) for key in keys]
        end = np.full(table.size, -1, np.int64)
        _mark(end, places[0], grams[length - 1][0])
        all_keys.append(table)
        ends.append(end)
        beginnings = [*beginnings[: length - 1], *places]
    return NgramTable(items, tuple(place_finder(xp, keys) for keys in all_keys), tuple(map(xp.asarray, ends)))


def _mark(end: Array, places: Array, first: int) -> None:
    end[places] = np.arange(first, first + places.size)


_AT_A_TIME = 1 << 20
"""Windows that are looked up at a time."""


def hits(
    xp: Any,
    table: NgramTable,
    sequences: Array,
    lengths: tuple[int, int],
    skips: int,
    check: Callable[[], None],
) -> Iterator[tuple[Array, Array]]:
    """Every occurrence of an n-gram: pairs of arrays of rows and n-grams.

    Args:
        xp: Array module.
        table: The n-grams.
        sequences: ``(rows, items)`` of item numbers, -1 for items that are in no n-gram.
        lengths: Least and greatest length that counts.
        skips: How many items may lie between neighbours of a window. Single items are counted once.
        check: Called before each kind of window is looked for: there may be as many as items.
    """
    columns = sequences.shape[1]
    least, greatest = lengths[0], min(lengths[1], len(table.ends))
    flat = sequences.reshape(-1)
    known = xp.flatnonzero(flat >= 0)
    first = flat.take(known)
    if least == 1 and greatest >= 1:
        yield from _found(xp, known // max(columns, 1), table.ends[0].take(first))
    for distance in range(1, min(skips + 1, max(columns - 1, 0)) + 1 if greatest > 1 else 1):
        for begin in range(0, known.size, _AT_A_TIME):
            starts, place = known[begin : begin + _AT_A_TIME], first[begin : begin + _AT_A_TIME]
            for length in range(2, greatest + 1):
                if starts.size == 0:
                    break
                check()
                inside = xp.flatnonzero(starts % columns + (length - 1) * distance < columns)
                starts, place = starts.take(inside), place.take(inside)
                item = flat.take(starts + (length - 1) * distance)
                at = table.follow[length - 2](place * table.items + item)
                # An unknown item (-1) makes the key of another beginning, so it is asked for by itself.
                kept = xp.flatnonzero((at >= 0) & (item >= 0))
                starts, place = starts.take(kept), at.take(kept)
                if length >= least:
                    yield from _found(xp, starts // columns, table.ends[length - 1].take(place))


def _found(xp: Any, rows: Array, grams: Array) -> Iterator[tuple[Array, Array]]:
    at = xp.flatnonzero(grams >= 0)
    if at.size:
        yield rows.take(at), grams.take(at)
