"""The stack frame of attention to a past: what its three steps leave for each other, by thread and by row.

It is used by `past_code`, which fills it, and by `past_scores`, `past_softmax` and `past_mixture`.
"""

from __future__ import annotations

from ort_py_onednn.binding.assembler import R8, RAX, RCX, RSP, Assembler, At, Constant
from ort_py_onednn.binding.past_table import ROWS

__all__ = [
    "AT_BASE",
    "AT_BYTES",
    "AT_CONSTANTS",
    "AT_COUNT",
    "AT_END",
    "AT_ENTRY",
    "AT_FIRST",
    "AT_FROM",
    "AT_GROUP",
    "AT_HEAD",
    "AT_KEYS",
    "AT_SCRATCH",
    "AT_TO",
    "AT_VALUES",
    "FRAME",
    "LINES",
    "LINE_BYTES",
    "OF_BIAS",
    "OF_QUERY",
    "OF_RESULT",
    "OF_SCORES",
    "OF_TURN",
    "SEEN",
    "UNSEEN",
    "masked",
]

AT_SCRATCH, AT_CONSTANTS, AT_KEYS, AT_VALUES, AT_COUNT, AT_FROM, AT_TO, AT_END = (
    At(RSP, 8 * place) for place in range(8)
)
"""This thread's scores, constants, keys and values of the heads, bytes of a score times all keys, those of the values
that are mixed at once and of those before, and the end of the rows."""

AT_BYTES = At(RSP, 64)
"""Place for the last bytes of a mask."""

AT_HEAD, AT_ENTRY, AT_GROUP, AT_FIRST, AT_BASE = (At(RSP, place) for place in range(72, 112, 8))
"""The head of keys that a piece of work reads, counted over the batch; the entry of the batch, the head in it, the
first row, and the first key that this row sees."""

LINES = 112
"""Bytes at which the rows of a piece begin."""

LINE_BYTES = 64
FRAME = LINES + LINE_BYTES * ROWS + 8

OF_QUERY, OF_RESULT, OF_BIAS, SEEN, OF_SCORES, OF_TURN, UNSEEN = range(0, 56, 8)
"""Bytes at which a row of a piece has its addresses, the bytes of the scores up to the last that it sees, the bytes in
front of its cosines, and those of the scores in front of the first that it sees."""


def masked(a: Assembler, mask: int, ones: Constant) -> None:
    """Append code that sets a mask of the first bytes of a register, whose number is in rcx; changes rax."""
    a.digits("31c0")  # xor eax, eax
    a.subtract(RAX, RCX)
    a.read(mask, At(R8, ones + 32, RAX))
