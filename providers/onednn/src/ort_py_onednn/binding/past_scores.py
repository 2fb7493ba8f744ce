"""The first step of attention to a past: the scores of all rows of a piece, eight keys at a time.

The frame says where queries, keys and scores are. Queries are scaled, not scores: a product of large numbers that is
scaled to a finite score may overflow by itself. Masks and biases come later, in `past_softmax`.
"""

from __future__ import annotations

import itertools

from ort_py_onednn.binding.assembler import (
    R8,
    R9,
    R10,
    R11,
    R12,
    R13,
    R14,
    R15,
    RAX,
    RBP,
    RBX,
    RCX,
    RDI,
    RDX,
    RSI,
    RSP,
    Assembler,
    At,
    Constant,
)
from ort_py_onednn.binding.past_frame import (
    AT_CONSTANTS,
    AT_COUNT,
    AT_END,
    AT_KEYS,
    LINE_BYTES,
    LINES,
    OF_QUERY,
    OF_SCORES,
    masked,
)
from ort_py_onednn.binding.past_table import KEYS, Word

__all__ = ["score"]

_POINTERS = (R8, R9, R10, R11, R12, R13, R14, R15)
"""Registers that hold the addresses of the keys whose scores are computed at once."""


def score(a: Assembler, ones: Constant) -> None:
    """Append code that computes the scores of all rows, eight keys at a time."""
    a.move(RCX, At(RBP, Word.KEY_BYTES))
    a.subtract(RCX, At(RBP, Word.WHOLE_BYTES))
    a.move(R8, AT_CONSTANTS)
    masked(a, 15, ones)
    a.spread(14, At(RBP, Word.SCALE))
    a.move(R8, AT_KEYS)
    a.digits("31db")  # xor ebx, ebx: bytes of scores
    keys = a.size
    a.move(RCX, At(RBP, Word.KEY_BYTES))
    a.move(RDX, AT_COUNT)
    a.subtract(RDX, RBX)
    for number, (before, register) in enumerate(itertools.pairwise(_POINTERS), 1):
        a.move(register, before)
        a.add(register, RCX)
        a.compare_number(RDX, 4 * number)
        a.move_if_at_most(register, before)  # behind the last key it is read again
    a.move(RDX, RSP)
    a.add_number(RDX, LINES)
    a.move(RCX, At(RBP, Word.WHOLE_BYTES))
    row = a.size
    _score_row(a)
    a.add_number(RDX, LINE_BYTES)
    a.compare_whole(RDX, AT_END)
    a.jump_if("less", row)
    a.move(R8, R15)
    a.add(R8, At(RBP, Word.KEY_BYTES))
    a.add_number(RBX, 4 * KEYS)
    a.compare_whole(RBX, AT_COUNT)
    a.jump_if("less", keys)


def _score_row(a: Assembler) -> None:
    """Append code that writes the scores of a row and eight keys: eight sums, then those of their halves."""
    for one in range(KEYS):
        a.do("vxorps", one, one, one)
    a.move(RSI, At(RDX, OF_QUERY))
    a.digits("31c0")  # xor eax, eax
    a.compare_whole(RAX, RCX)
    none = a.jump_if("at least")
    chunk = a.size
    a.do("vmulps", 8, 14, At(RSI, 0, RAX))
    for one, register in enumerate(_POINTERS):
        a.do("vfmadd231ps", one, 8, At(register, 0, RAX))
    a.add_number(RAX, 32)
    a.compare_whole(RAX, RCX)
    a.jump_if("less", chunk)
    a.land(none)
    a.compare_whole(RAX, At(RBP, Word.KEY_BYTES))
    whole = a.jump_if("at least")
    a.read_part(8, 15, At(RSI, 0, RAX))
    a.do("vmulps", 8, 8, 14)
    for one, register in enumerate(_POINTERS):
        a.read_part(9, 15, At(register, 0, RAX))
        a.do("vfmadd231ps", one, 8, 9)
    a.land(whole)
    for first in (0, 2, 4, 6):
        a.do("vhaddps", first, first, first + 1)
    a.do("vhaddps", 0, 0, 2)
    a.do("vhaddps", 4, 4, 6)
    a.join_halves(1, 0, 4, 0x20)
    a.join_halves(0, 0, 4, 0x31)
    a.do("vaddps", 0, 0, 1)
    a.move(RDI, At(RDX, OF_SCORES))
    a.write(0, At(RDI, 0, RBX))
