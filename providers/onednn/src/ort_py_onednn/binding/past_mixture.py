"""The third step of attention to a past: the values of the keys that a row sees, mixed by their weights.

The frame says where weights, values and results are.
"""

from __future__ import annotations

from collections.abc import Callable

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
    AT_FROM,
    AT_TO,
    AT_VALUES,
    LINE_BYTES,
    LINES,
    OF_RESULT,
    OF_SCORES,
    SEEN,
    UNSEEN,
    masked,
)
from ort_py_onednn.binding.past_table import Word

__all__ = ["mix"]

_Step = Callable[[Assembler], None]

_TOGETHER = 256
"""Bytes of the scores of keys whose values are mixed at once: 64 keys."""


def mix(a: Assembler, ones: Constant) -> None:
    """Append code that adds up the values of each row, where there are several rows so many keys at a time that their
    values stay in the cache: 32 columns, and then eight or fewer."""
    a.digits("31c0")  # xor eax, eax
    a.keep(RAX, AT_FROM)
    a.move(R12, AT_COUNT)
    a.move(RAX, RSP)
    a.add_number(RAX, LINES + LINE_BYTES)
    a.compare_whole(RAX, AT_END)
    one_row = a.jump_if("equal")
    a.set_number(R12, _TOGETHER)
    a.land(one_row)
    a.keep(R12, AT_TO)
    a.move(RDI, At(RBP, Word.VALUE_BYTES))
    part = a.size
    a.move(RDX, RSP)
    a.add_number(RDX, LINES)
    row = a.size
    a.move(R9, At(RDX, OF_SCORES))
    a.move(R10, At(RDX, OF_RESULT))
    a.move(R11, At(RDX, SEEN))
    a.move(RAX, AT_TO)
    a.compare_whole(RAX, R11)
    a.move_if_at_most(R11, RAX)
    a.move(R15, AT_FROM)
    a.move(RAX, At(RDX, UNSEEN))
    a.compare_whole(R15, RAX)
    a.move_if_at_most(R15, RAX)
    a.compare_whole(R15, R11)
    unseen = a.jump_if("at least")
    _mix_row(a, ones)
    a.land(unseen)
    a.add_number(RDX, LINE_BYTES)
    a.compare_whole(RDX, AT_END)
    a.jump_if("less", row)
    a.move(RAX, AT_TO)
    a.keep(RAX, AT_FROM)
    a.add_number(RAX, _TOGETHER)
    a.keep(RAX, AT_TO)
    a.move(RAX, RDI)
    a.shift(RAX, 6)
    a.add(RAX, AT_VALUES)
    a.keep(RAX, AT_VALUES)
    a.move(RAX, AT_FROM)
    a.compare_whole(RAX, AT_COUNT)
    a.jump_if("less", part)


def _mix_row(a: Assembler, ones: Constant) -> None:
    """Append code that adds the values of the keys from r15 up to r11, in bytes of scores, to a row's result."""
    a.digits("31db")  # xor ebx, ebx: bytes of columns
    wide = a.size
    a.move(RAX, RBX)
    a.add_number(RAX, 128)
    a.compare_whole(RAX, RDI)
    rest = a.jump_if("greater")
    for one in range(8):
        a.do("vxorps", one, one, one)
    first = _if_first(a)
    for one in range(4):
        a.read(one, At(R10, 32 * one, RBX))
    a.land(first)
    _over_keys(a, 2, (_pair, 2), _one_key)
    for one in range(4):
        a.do("vaddps", one, one, one + 4)
        a.write(one, At(R10, 32 * one, RBX))
    a.add_number(RBX, 128)
    a.repeat(wide)
    a.land(rest)
    a.move(R8, AT_CONSTANTS)
    narrow = a.size
    a.move(RCX, RDI)
    a.subtract(RCX, RBX)
    a.compare_number(RCX, 0)
    done = a.jump_if("at most")
    a.set_number(RAX, 32)
    a.compare_whole(RAX, RCX)
    a.move_if_at_most(RCX, RAX)
    masked(a, 15, ones)
    for one in range(4):
        a.do("vxorps", one, one, one)
    first = _if_first(a)
    a.read_part(0, 15, At(R10, 0, RBX))
    a.land(first)
    _over_keys(a, 4, (_four_keys, 4), _narrow_key)
    for one in (0, 2):
        a.do("vaddps", one, one, one + 1)
    a.do("vaddps", 0, 0, 2)
    a.write_part(0, 15, At(R10, 0, RBX))
    a.add_number(RBX, 32)
    a.repeat(narrow)
    a.land(done)


def _if_first(a: Assembler) -> int:
    """Append a jump over what reads the sums so far, where there are none."""
    a.compare_whole(R15, At(RDX, UNSEEN))
    return a.jump_if("equal")


def _over_keys(a: Assembler, together: int, several: tuple[_Step, int], single: _Step) -> None:
    """Append code that visits the keys that a row sees: rax counts bytes of scores, rsi goes along the values."""
    several_code, count = several
    a.move(RSI, R15)
    a.subtract(RSI, AT_FROM)
    a.multiply(RSI, RDI)
    a.shift(RSI, -2)
    a.add(RSI, AT_VALUES)
    a.add(RSI, RBX)
    a.move(R13, R11)
    a.add_number(R13, -4 * together)
    a.move(RAX, R15)
    a.compare_whole(RAX, R13)
    few = a.jump_if("greater")
    again = a.size
    several_code(a)
    for _ in range(count):
        a.add(RSI, RDI)
    a.add_number(RAX, 4 * together)
    a.compare_whole(RAX, R13)
    a.jump_if("at most", again)
    a.land(few)
    left = a.size
    a.compare_whole(RAX, R11)
    end = a.jump_if("at least")
    single(a)
    a.add(RSI, RDI)
    a.add_number(RAX, 4)
    a.repeat(left)
    a.land(end)


def _pair(a: Assembler) -> None:
    a.spread(8, At(R9, 0, RAX))
    a.spread(9, At(R9, 4, RAX))
    for one in range(4):
        a.do("vfmadd231ps", one, 8, At(RSI, 32 * one))
    for one in range(4):
        a.do("vfmadd231ps", 4 + one, 9, At(RSI, 32 * one, RDI))


def _one_key(a: Assembler) -> None:
    a.spread(8, At(R9, 0, RAX))
    for one in range(4):
        a.do("vfmadd231ps", one, 8, At(RSI, 32 * one))


def _four_keys(a: Assembler) -> None:
    a.move(R14, RSI)
    a.add(R14, RDI)
    a.add(R14, RDI)
    for one, place in enumerate((At(RSI), At(RSI, 0, RDI), At(R14), At(R14, 0, RDI))):
        a.spread(8, At(R9, 4 * one, RAX))
        a.read_part(9, 15, place)
        a.do("vfmadd231ps", one, 8, 9)


def _narrow_key(a: Assembler) -> None:
    a.spread(8, At(R9, 0, RAX))
    a.read_part(9, 15, At(RSI))
    a.do("vfmadd231ps", 0, 8, 9)
