"""Rows that gate others: x · sigmoid(alpha · x) · y in machine code for AVX2.

oneDNN has two primitives for it. Where a model reads many weights between them, what a primitive needs is no longer in
the cache, and the two take 11 µs for 1,536 numbers instead of 2; this is one call, and takes one. Comes after
`own_rows`; the exponential is that of `past_softmax`.
"""

from __future__ import annotations

import functools

from ort_py_onednn.binding.assembler import R9, R12, RAX, RCX, RDI, RDX, RSI, Assembler, At
from ort_py_onednn.binding.constants import Argument
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.binding.instructions import AVX2
from ort_py_onednn.binding.library import Library
from ort_py_onednn.binding.own_code import CLEAR, ENTER, LEAVE, placed
from ort_py_onednn.binding.own_rows import MASK, PART, PLACES, ROW, WHOLE, OwnRows, claim, part_of, read, write
from ort_py_onednn.binding.past_softmax import LEAST, exponential

__all__ = ["RowGate", "has_row_gates"]

_ZERO, _X, _SIGMOID, _VALUE, _SCALED, _ONE, _Y, _LEAST = 0, 1, 2, 3, 5, 6, 7, 8
"""Registers; `exponential` knows the first, the fourth and the last, and changes others."""

_PLACES = ((RSI, Argument.SRC), (RDX, Argument.DST), (R9, Argument.SRC_1))


def _gate(a: Assembler, partly: bool, alpha: float) -> None:
    """Append code for eight numbers. The exponential is that of a number below 0, of whichever sign the argument is."""
    read(a, _X, At(RSI, 0, RAX), partly)
    a.do("vmulps", _SCALED, _X, a.number(alpha))
    a.do("vorps", _VALUE, _SCALED, a.word(0x80000000))
    exponential(a)
    a.choose(_SIGMOID, _ONE, _VALUE, _SCALED)
    a.do("vaddps", _VALUE, _VALUE, _ONE)
    a.do("vdivps", _SIGMOID, _SIGMOID, _VALUE)
    a.do("vmulps", _X, _X, _SIGMOID)
    read(a, _Y, At(R9, 0, RAX), partly)
    a.do("vmulps", _X, _X, _Y)
    write(a, _X, At(RDX, 0, RAX), partly)


def _code(alpha: float) -> bytes:
    """Code of ``void gate(struct work *)`` (`own_code`): threads take several rows at once."""
    a = Assembler()
    a.digits(ENTER)
    a.digits("4c8d05")  # lea r8, [constants]
    constants = a.jump()
    a.move(RCX, At(RDI, 8 * WHOLE))
    a.read(PART, At(RDI, 8 * MASK))
    a.do("vxorps", _ZERO, _ZERO, _ZERO)
    a.load(_ONE, a.number(1))
    a.load(_LEAST, a.number(LEAST))
    again = a.size
    end = claim(a)
    a.multiply(RAX, At(RDI, 8 * ROW))
    for register, code in _PLACES:
        a.move(register, At(RDI, 8 * PLACES[code]))
        a.add(register, RAX)
    row = a.size
    a.set_number(RAX, 0)
    part_of(a, functools.partial(_gate, alpha=alpha), At(RDI, 8 * ROW))
    for register, _ in _PLACES:
        a.add(register, At(RDI, 8 * ROW))
    a.add_number(R12, -1)
    a.jump_if("greater", row)
    a.repeat(again)
    a.land(end)
    a.digits(CLEAR + LEAVE)
    return a.finished(constants)


@functools.lru_cache(8)
def _address(library: Library, alpha: float) -> int:
    return placed(library, _code(alpha)) if library.isa & AVX2 else 0


def has_row_gates(library: Library) -> bool:
    """Return whether there is such code here: it needs AVX2, and memory that can be executed."""
    return _address(library, 1.0) != 0


class RowGate(OwnRows):
    """Rows (``SRC``) times their sigmoid and other rows (``SRC_1``); the result may take the place of the former.

    Args:
        library: The library, which has the code.
        rows: Layout of all three: plain, of float32, with two dimensions.
        alpha: What a number is multiplied with in the sigmoid.
    """

    __slots__ = ()

    def __init__(self, library: Library, rows: Desc, alpha: float) -> None:
        arguments = dict.fromkeys((Argument.SRC, Argument.SRC_1, Argument.DST), rows)
        super().__init__(library, arguments, _address(library, alpha), "own:gate:avx2", *rows.dims)
