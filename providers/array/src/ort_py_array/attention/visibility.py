"""The keys that a query sees: the causal frontier, sliding windows and per-entry lengths, as limits on positions.

All three are intervals of key positions, so a block of query rows needs only the keys between the least and the
greatest limit of its rows, and a mask only where the limits of its rows differ. Everything here is a number of the
host, decided before any array is touched. Comes before `core`; knows no heads and no scores.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.lazy_dataclass import dataclass

__all__ = ["Visibility"]


@dataclass(frozen=True, slots=True)
class Visibility:
    """Limits on the keys of each batch entry: query `i` is at position ``offset + i`` and sees keys near it.

    Attributes:
        offsets: Position of the first query, one per batch entry; a negative one leaves leading queries without keys.
        lengths: Number of keys that exist, one per batch entry.
        left: Keys before a query's position that it sees; None is all.
        right: Keys after it, 0 for causal attention; None is all.
    """

    offsets: tuple[int, ...]
    lengths: tuple[int, ...]
    left: int | None = None
    right: int | None = None

    def keys(self, entries: range, rows: range) -> tuple[int, int]:
        """(start, stop) of the keys that any query of `rows` of these batch entries sees; equal where there is none."""
        if self.left is self.right is None:
            return 0, max(self.lengths[entries.start : entries.stop])
        start, stop = self.lengths[entries[0]], 0
        for entry in entries:
            first, last = 0, self.lengths[entry]
            if self.left is not None:
                first = max(0, rows[0] + self.offsets[entry] - self.left)
            if self.right is not None:
                last = min(last, rows[-1] + self.offsets[entry] + self.right + 1)
            if first < last:
                start, stop = min(start, first), max(stop, last)
        return (start, stop) if start < stop else (0, 0)

    def hide(self, xp: Any, scores: Array, entries: range, rows: range, keys: tuple[int, int]) -> None:
        """Set the scores of keys out of sight to -inf, in place.

        Args:
            xp: Array module.
            scores: Shape ``(entries, heads, group, rows, keys)``.
            entries: Batch entries that the scores belong to.
            rows: Their query rows.
            keys: (start, stop) of their keys.
        """
        start, stop = keys
        offsets = self._of(self.offsets, entries)
        lengths = self._of(self.lengths, entries)
        certain = min(lengths)  # keys before this one are below the upper limit of every row
        if self.right is not None:
            certain = min(certain, rows[0] + min(offsets) + self.right + 1)
        certain = max(certain, start)
        if certain < stop:
            positions = xp.arange(certain, stop)
            limit = _per_entry(xp, lengths)
            if self.right is not None:
                frontier = self._positions(xp, offsets, rows) + (self.right + 1)
                limit = xp.minimum(frontier, limit)
            xp.copyto(scores[..., certain - start :], -xp.inf, where=xp.greater_equal(positions, limit))
        if self.left is not None:
            doubtful = min(rows[-1] + max(offsets) - self.left, stop)
            if doubtful > start:
                positions = xp.arange(start, doubtful)
                limit = self._positions(xp, offsets, rows) - self.left
                xp.copyto(scores[..., : doubtful - start], -xp.inf, where=xp.less(positions, limit))

    @staticmethod
    def _of(values: tuple[int, ...], entries: range) -> tuple[int, ...]:
        """The values of these entries, one where all are the same."""
        chosen = values[entries.start : entries.stop]
        return chosen[:1] if len(set(chosen)) == 1 else chosen

    @staticmethod
    def _positions(xp: Any, offsets: Sequence[int], rows: range) -> Array:
        return xp.arange(rows.start, rows.stop).reshape((-1, 1)) + _per_entry(xp, offsets)


def _per_entry(xp: Any, values: Sequence[int]) -> Any:
    """One number per batch entry, of rank 5; the bare number where there is one."""
    return values[0] if len(values) == 1 else xp.asarray(values).reshape((-1, 1, 1, 1, 1))
