"""Sequences of a packed batch over a cache in pages: the tokens of each sequence and the places of their rows. On the
host.

Tokens of all sequences stand one behind the other; a sequence has rows in a cache already, and its new tokens follow
them. A table names the pages of each sequence, in order. All of it is numbers on the host, checked here, so that a
wrong one raises and never leads to a read beyond a cache. It is independent of caches and attention.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelContext
from ort_py.errors import InvalidArgument
from ort_py.lazy_dataclass import dataclass
from ort_py_array.checks import shape_error

__all__ = ["Integers", "Sequences", "pages_of", "sequences_of", "slots_of"]

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Sequences:
    """One entry per sequence.

    Attributes:
        begins: Its first token in the batch.
        counts: Its new tokens; may be none.
        starts: Rows that it had in the cache before.
    """

    begins: Integers
    counts: Integers
    starts: Integers

    @property
    def totals(self) -> Integers:
        """Rows of each sequence, the new ones included."""
        return self.starts + self.counts

    @property
    def owners(self) -> Integers:
        """The sequence of each token."""
        return np.repeat(np.arange(self.counts.size, dtype=np.int64), self.counts)

    @property
    def positions(self) -> Integers:
        """The place of each token in its sequence."""
        owners = self.owners
        return np.arange(owners.size, dtype=np.int64) - self.begins[owners] + self.starts[owners]

    def by_count(self) -> list[Integers]:
        """Sequences with new tokens, those with equally many together."""
        return [np.flatnonzero(self.counts == count) for count in np.unique(self.counts) if count]


def sequences_of(ctx: KernelContext, tokens: int, cumulative: Any, past: Any) -> Sequences:
    """The sequences of a call.

    Args:
        ctx: Context of the node.
        tokens: Tokens of the batch.
        cumulative: The input cumulative_sequence_length ``(batch + 1,)``, on the host.
        past: The input past_seqlens ``(batch,)``, on the host.

    Raises:
        InvalidArgument: Shapes that do not fit, sums that fall or do not end at `tokens`, or a negative past.
    """
    ends, starts = (np.asarray(one, dtype=np.int64) for one in (cumulative, past))
    if ends.ndim != 1 or ends.size < 2 or starts.shape != (ends.size - 1,):
        raise shape_error(
            "cumulative_sequence_length must be (batch + 1) and past_seqlens (batch), with one sequence at least.",
            ctx.node.location,
            [ends.shape, starts.shape],
        )
    counts = np.diff(ends)
    if ends[0] != 0 or ends[-1] != tokens or counts.min() < 0 or starts.min() < 0:
        raise InvalidArgument(
            f"cumulative_sequence_length is {_some(ends)} and past_seqlens {_some(starts)} for {tokens} tokens.",
            where=ctx.node.location,
            fix="The sums begin with 0, never fall, and end with the number of tokens; lengths are not negative.",
        )
    return Sequences(ends[:-1], counts, starts)


def pages_of(ctx: KernelContext, table: Any, sequences: Sequences, blocks: int, rows: int) -> Integers:
    """The pages of each sequence ``(batch, pages of the longest)``; 0 behind a sequence's last.

    Args:
        ctx: Context of the node.
        table: The input block_table, on the host.
        sequences: The sequences.
        blocks: Pages of the cache.
        rows: Rows of a page.

    Raises:
        InvalidArgument: Another number of sequences, too few pages for one, or a page that the cache does not have.
    """
    found = np.asarray(table, dtype=np.int64)
    needed = -(-sequences.totals // rows)
    longest = int(needed.max())
    if found.ndim != 2 or found.shape[0] != needed.size or found.shape[1] < longest:
        raise shape_error(
            f"block_table must be ({needed.size}, {longest} or more): one row per sequence, of pages of {rows} rows.",
            ctx.node.location,
            [found.shape],
        )
    used = np.arange(longest) < needed[:, None]
    pages = np.where(used, found[:, :longest], 0)
    if pages.size and not 0 <= pages.min() <= pages.max() < blocks:
        raise InvalidArgument(
            f"block_table names the page {pages.min() if pages.min() < 0 else pages.max()}.",
            where=ctx.node.location,
            fix=f"The cache has the pages 0 to {blocks - 1}.",
        )
    return pages


def slots_of(
    ctx: KernelContext, mapping: Array | None, sequences: Sequences, pages: Integers, blocks: int, rows: int
) -> Integers:
    """Place for each token's key and value: row of the cache as if its pages were one; -1 for nowhere.

    Args:
        ctx: Context of the node.
        mapping: The input slot_mapping, on the host; None where the table says it.
        sequences: The sequences.
        pages: From `pages_of`.
        blocks: Pages of the cache.
        rows: Rows of a page.

    Raises:
        InvalidArgument: Another number of tokens, or a row that the cache does not have.
    """
    owners, positions = sequences.owners, sequences.positions
    if mapping is None:
        return np.asarray(pages[owners, positions // rows] * rows + positions % rows, np.int64)
    found = np.asarray(mapping, dtype=np.int64)
    if found.shape != owners.shape:
        raise shape_error(f"slot_mapping must have {owners.size} entries.", ctx.node.location, [found.shape])
    if found.size and not -1 <= found.min() <= found.max() < blocks * rows:
        raise InvalidArgument(
            f"slot_mapping has the entry {found.min() if found.min() < -1 else found.max()}.",
            where=ctx.node.location,
            fix=f"Entries are rows of the cache, 0 to {blocks * rows - 1}, or -1 for what is not to be stored.",
        )
    return found


def _some(values: Integers) -> str:
    """Entries as text, the middle ones left out where there are many."""
    return np.array2string(values, threshold=8, edgeitems=3, separator=", ")
