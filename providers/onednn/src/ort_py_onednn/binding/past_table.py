"""The table that `past_code` reads: all sizes of an attention to a past."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from ort_py.lazy_dataclass import dataclass

__all__ = ["ENTRY_BYTES", "KEYS", "ROWS", "UNBOUNDED", "Grown", "Sizes", "Word"]

ROWS = 8
"""Rows of queries of a piece of work."""

KEYS = 8
"""Keys whose scores are computed at once."""


class Word(IntEnum):
    """Bytes at which a table has its words. Those up to `BIAS` are addresses; steps are those of the batch, a
    head and a row."""

    QUERY = 0
    PRESENT_KEY = 8
    PRESENT_VALUE = 16
    PAST_KEY = 24
    PAST_VALUE = 32
    NEW_KEY = 40
    NEW_VALUE = 48
    RESULT = 56
    BIAS = 64
    SCRATCH = 72
    NEXT_COPY = 80
    NEXT_SLOT = 88
    GROWN = 96
    NEXT_PIECE = 104
    NEW = 120
    GROUP = 128
    KEY_HEADS = 136
    PIECES = 144
    COPIES = 152
    BLOCKS = 160
    KEY_BYTES = 168
    VALUE_BYTES = 176
    ALL_ROWS = 184
    QUERY_STEPS = 192
    RESULT_STEPS = 216
    BIAS_STEPS = 240
    CAUSAL = 264
    SCALE = 272
    KEY_STEPS = 280
    VALUE_STEPS = 304
    SLOT_BYTES = 328
    WHOLE_BYTES = 336
    BOOLEAN = 344
    COSINES = 352
    SINES = 360
    HALF_BYTES = 376
    NEIGHBOURS = 384
    QUERIES_BEHIND = 392
    ENTRY_BYTES = 400
    TOGETHER = 408
    WINDOW = 416
    GIVEN = 424


class Grown(IntEnum):
    """Bytes at which `Word.GROWN` points to what a run says of its past: rows that each head has of the past and of the
    present; and for each entry of the batch, or once for all of them, the rows of the past that count, and those of the
    present. New rows stand behind the former."""

    HELD = 0
    LENGTH = 8
    START = 16
    COUNT = 24


UNBOUNDED = 1 << 40
"""Keys of a window that hides none."""

ENTRY_BYTES = 16
"""Bytes from an entry's numbers in `Grown` to the next one's."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of an attention.

    Attributes:
        batch, heads, groups, rows: Entries, heads of queries, heads of keys, and new rows of both.
        size, each: Columns of a key's head and of a value's head.
        most: Past keys that there are at most.
        steps: Numbers from an entry of the batch, a head and a row to the next: of queries, the result, new keys and
            new values; and of a bias whose last axis has one element.
        scale: Factor of scores.
        boolean: Whether the bias is one of bytes: 0 where a key is hidden.
        causal: Whether a new row sees only itself and what is before it.
        pairs: Pairs of numbers that are turned in each head of queries and of new keys; 0 where none are.
        neighbours: Whether a pair is two neighbours, or one of the first half and one of the second.
        positions: Rows of the cosines and sines; 0 where nothing is turned.
        counted: Whether each entry of the batch has a number of keys of its own.
        window: Keys that a row sees at most, the last ones; 0 for all.
    """

    batch: int
    heads: int
    groups: int
    rows: int
    size: int
    each: int
    most: int
    steps: Mapping[str, tuple[int, int, int]]
    scale: float
    causal: bool
    boolean: bool = False
    pairs: int = 0
    neighbours: bool = False
    positions: int = 0
    counted: bool = False
    window: int = 0

    @property
    def line(self) -> int:
        """Scores that there is place for in a row."""
        return -(-(self.most + self.rows) // KEYS) * KEYS

    @property
    def blocks(self) -> int:
        """Pieces of work of a head of keys."""
        return -(-self.rows * (self.heads // self.groups) // ROWS)
