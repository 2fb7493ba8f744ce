"""Attention to keys and values of the past in machine code for AVX2, whose number each run gives: what a decoder
computes for a word.

The past and the new keys and values are copied behind each other, which makes the present; where both are one memory,
only the new ones are written. Each piece of the work is eight rows of queries that read the same keys: scores, a
softmax, and the mixture of the values. Queries and new keys may be turned by the angles of their positions first. The
code takes all sizes from a table, so that it serves every model, and the rows of the past from memory that each run
fills (`Grown`), so that a plan serves every word. Comes after `own_code`.

A key whose bias is -infinity takes no part, whatever its score. A row that sees no key becomes zeroes; one that sees
keys whose scores are all -infinity becomes not-a-number, as one with a score of +infinity or not-a-number does.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Mapping, Sequence
from typing import Any

from ort_py_onednn.binding._dnnl import ffi
from ort_py_onednn.binding.calls import Call, CallList
from ort_py_onednn.binding.constants import F32, Argument
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.binding.instructions import AVX2
from ort_py_onednn.binding.library import Library
from ort_py_onednn.binding.openmp import allowed
from ort_py_onednn.binding.own_code import OwnCode, placed, putting
from ort_py_onednn.binding.past_code import attend_code, copy_code
from ort_py_onednn.binding.past_table import ENTRY_BYTES, ROWS, UNBOUNDED, Grown, Sizes, Word

__all__ = ["PastAttention", "has_past_attention"]

_PUTS = (
    (Word.QUERY, (Argument.SRC, Argument.DST_1, Argument.DST_2)),
    (Word.PAST_KEY, (Argument.WEIGHTS, Argument.WEIGHTS_1, Argument.SRC_1)),
    (Word.NEW_VALUE, (Argument.SRC_2, Argument.DST, Argument.BIAS)),
    (Word.SCRATCH, (Argument.SCRATCHPAD,)),
    (Word.COSINES, (Argument.SCALE, Argument.SHIFT)),
    (Word.GROWN, ()),
)
"""What the first calls write to the table, three words each, by argument code: the past is `WEIGHTS`, keys first."""

_NEXT_CALL = CallList.place(1, 0) - CallList.place(0, 0)
"""What numbers of arguments grow by from call to call, where they are counted on."""


@functools.cache
def _codes(library: Library) -> tuple[int, int, int]:
    """Addresses of what writes to the table, copies and attends; zeroes where there are none."""
    if not library.isa & AVX2:
        return 0, 0, 0
    copy, attend = placed(library, copy_code()), placed(library, attend_code())
    put = putting(library) if attend else 0
    return (put, copy, attend) if put and copy else (0, 0, 0)


def has_past_attention(library: Library) -> bool:
    """Return whether there is such code here: it needs AVX2, and memory that can be executed."""
    return _codes(library)[0] != 0


class PastAttention(OwnCode):
    """Attention to a past.

    Its arguments are the queries (``SRC``), new keys and values (``SRC_1``, ``SRC_2``), those of the past
    (``WEIGHTS``, ``WEIGHTS_1``), a bias (``BIAS``), cosines and sines (``SCALE``, ``SHIFT``), the result (``DST``), all
    keys and all values (``DST_1``, ``DST_2``), and memory for scores. Layouts of what grows are those of the most past
    keys that there may be.

    Args:
        library: The library.
        arguments: Layouts by argument code.
        sizes: The sizes.
        threads: Threads that may run it.
    """

    __slots__ = ("bound", "grows", "length", "sizes")

    def __init__(self, library: Library, arguments: Mapping[int, Desc], sizes: Sizes, threads: int) -> None:
        scratch = Desc.plain((threads, ROWS, sizes.line + (sizes.size if sizes.pairs else 0)), F32)
        whole = {**arguments, Argument.SCRATCHPAD: scratch}
        super().__init__(library, whole, _codes(library)[2], "own:past:avx2", 1)
        self.sizes = sizes
        self.grows = (sizes.batch if sizes.counted else 0, sizes.rows, sizes.positions)
        self.length = _NEXT_CALL * (len(_PUTS) - 1) + 1 if Argument.WEIGHTS in whole else None
        self.bound = tuple(
            (_NEXT_CALL * call + place, code)
            for call, (_, codes) in enumerate(_PUTS)
            for place, code in enumerate(codes, 1)
            if code in whole
        )

    @property
    def reach(self) -> tuple[tuple[int, int, int, bool], ...]:
        """See `OwnCode`."""
        return tuple((code, *desc.reach, code in Argument.WRITTEN) for code, desc in self.arguments.items())

    def _address(self, code: int, addresses: Mapping[int, int]) -> int:
        address = addresses.get(code, 0)
        return address + self.arguments[code].reach[0] if address else 0

    def work(self, addresses: Mapping[int, int], threads: int = 1) -> Any:
        """The table."""
        one = self.sizes
        rows = one.rows * (one.heads // one.groups)
        blocks = one.blocks
        words: dict[int, int] = {
            Word.NEW: one.rows,
            Word.GROUP: one.heads // one.groups,
            Word.KEY_HEADS: one.groups,
            Word.PIECES: one.batch * one.groups * blocks,
            Word.COPIES: 2 * one.batch * one.groups,
            Word.BLOCKS: blocks,
            Word.KEY_BYTES: 4 * one.size,
            Word.VALUE_BYTES: 4 * one.each,
            Word.ALL_ROWS: rows,
            Word.CAUSAL: one.causal,
            Word.SCALE: struct.unpack("<I", struct.pack("<f", one.scale))[0],
            Word.SLOT_BYTES: 4 * ROWS * self.arguments[Argument.SCRATCHPAD].dims[2],
            Word.WHOLE_BYTES: 4 * one.size // 32 * 32,
            Word.BOOLEAN: one.boolean,
            Word.HALF_BYTES: 4 * one.pairs,
            Word.NEIGHBOURS: one.neighbours,
            Word.QUERIES_BEHIND: 4 * ROWS * one.line,
            Word.ENTRY_BYTES: ENTRY_BYTES if one.counted else 0,
            Word.TOGETHER: self._together,
            Word.WINDOW: one.window or UNBOUNDED,
            Word.GIVEN + Grown.HELD: one.most,
            Word.GIVEN + Grown.LENGTH: one.most + one.rows,
            Word.GIVEN + Grown.START: one.most,
            Word.GIVEN + Grown.COUNT: one.most + one.rows,
        }
        for first, name in (
            (Word.QUERY_STEPS, "query"),
            (Word.RESULT_STEPS, "result"),
            (Word.BIAS_STEPS, "bias"),
            (Word.KEY_STEPS, "key"),
            (Word.VALUE_STEPS, "value"),
        ):
            nbytes = 1 if name == "bias" and one.boolean else 4
            words |= {first + 8 * axis: nbytes * step for axis, step in enumerate(one.steps[name])}
        table = ffi.new("intptr_t[]", max(words) // 8 + 1)
        for place, word in words.items():
            table[place // 8] = word
        return table

    @property
    def _together(self) -> bool:
        """Whether no two pieces of work read the same keys: then each makes the present that it reads."""
        return self.sizes.blocks == 1

    def calls(self, addresses: Mapping[int, int], threads: int) -> Sequence[Call]:
        """See `OwnCode`."""
        put, copy, attend = _codes(self._library)
        table = self.work(addresses)
        start = int(ffi.cast("intptr_t", table))
        made: list[Call] = []
        for word, codes in _PUTS:
            values = (*(self._address(code, addresses) for code in codes), 0, 0, 0)[:3]
            made.append((put, (start + word, *values), False))
        made[-1] = (put, (start + Word.GROWN, start + Word.GIVEN, 0, 0), False)
        threads = allowed(threads) if self._library.threaded else 1
        for code in (attend,) if self._together else (copy, attend):
            if threads > 1:
                made.append((self._library.c.GOMP_parallel, (code, table, threads, 0), False))
            else:
                made.append((code, (table,), False))
        return made
