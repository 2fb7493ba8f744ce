"""Parts of the code for products of several rows of bytes with weights of few bits and AVX2 alone.

Weights become half bytes in the memory of a thread, whose products with bytes fit in pairs into 16 bits, as
`row_few_pairs` explains. Those of 8 bits are two halves, which are multiplied one after the other. `rows_few_bytes`
puts the parts together.
"""

from __future__ import annotations

from ort_py_onednn.binding.assembler import R9, R10, R11, R12, R13, R15, RAX, RBP, RCX, RDI, Assembler, At
from ort_py_onednn.binding.row_few_bits import ROW
from ort_py_onednn.binding.row_few_bytes import OFFSET, SCALE
from ort_py_onednn.binding.row_few_pairs import chunk_of
from ort_py_onednn.binding.rows_few_bits import RowsWords, weights_place

__all__ = ["become_halves", "tile"]

_FOUR = 4
_REGISTER, _LANES = 32, 2
"""Bytes of a register, and registers of the columns whose sums are made at once."""

_FACTORS, _SPREAD, _REST = 12, 14, 15
"""First register of weights, that of numbers of a row in all places, and one for what is in between."""

_TOGETHER = 4
"""Numbers of the row in a word."""


def become_halves(a: Assembler, bits: int, size: int) -> None:
    """Append code that makes half bytes of a block's weights at r11, and leaves there the place behind them."""
    weights_place(a, R9)
    a.set_number(RAX, size * bits // 32)
    again = a.size
    for one in range(ROW // _REGISTER):
        a.read(0, At(R11, _REGISTER * one))
        a.shift_down(1, 0, _FOUR)
        for half in range(2):
            a.do("vandps", half, half, At(RDI, 8 * RowsWords.LOW))
            a.write(half, At(R9, ROW * half + _REGISTER * one))
    a.add_number(R9, 2 * ROW)
    a.add_number(R11, ROW)
    a.add_number(RAX, -1)
    a.jump_if("greater", again)


def tile(a: Assembler, rows: int, bits: int, size: int, stride: int) -> None:
    """Append code that adds the products of rows with a block: see `rows_few_bits.tiles`.

    Half bytes of the weights are at r12, and scales at r11.

    Args:
        a: The code.
        rows: Number of rows.
        bits: Of a weight: 4 or 8.
        size: Of a block.
        stride: Bytes from a row to the next.
    """
    chunk = chunk_of(size)
    alone = chunk == size
    step = ROW * (bits // _FOUR)
    for columns in range(0, ROW, _REGISTER * _LANES):
        if not alone:
            _add_offsets(a, rows, size, stride, columns)
        for half in range(bits // _FOUR):
            a.move(RBP, R12)
            a.move(R13, R10)
            a.set_number(RCX, size // chunk)
            chunks = a.size
            for one in range(_LANES * rows):
                a.do("vxorps", one, one, one)
            a.set_number(RAX, chunk // (2 * _TOGETHER))
            again = a.size
            for word in range(2):
                _word(a, rows, At(RBP, step * word + ROW * half + columns), At(R13, _TOGETHER * word), stride)
            a.add_number(RBP, 2 * step)
            a.add_number(R13, 2 * _TOGETHER)
            a.add_number(RAX, -1)
            a.jump_if("greater", again)
            factors = At(RDI, 8 * (RowsWords.SIXTEENS if half else RowsWords.ONES))
            for row in range(rows):
                if alone and not half:
                    a.spread(_FACTORS, At(R10, stride * row + size + OFFSET))
                for one in range(_LANES):
                    sums = _LANES * row + one
                    a.do("vpmaddwd", sums, sums, factors)
                    if alone and not half:
                        a.do("vpaddd", sums, sums, _FACTORS)
                    _add(a, sums, row, columns + _REGISTER * one, At(R10, stride * row + size + SCALE))
            a.add_number(RCX, -1)
            a.jump_if("greater", chunks)


def _word(a: Assembler, rows: int, weights: At, source: At, stride: int) -> None:
    """Append code for four numbers of each row."""
    for one in range(_LANES):
        a.read(_FACTORS + one, At(weights.base, weights.behind + _REGISTER * one))
    for row in range(rows):
        a.spread(_SPREAD, At(source.base, source.behind + stride * row))
        for one in range(_LANES):
            a.do("vpmaddubsw", _REST, _FACTORS + one, _SPREAD)
            a.do("vpaddw", _LANES * row + one, _LANES * row + one, _REST)


def _add_offsets(a: Assembler, rows: int, size: int, stride: int, columns: int) -> None:
    """Append code that adds what belongs to all numbers of a block."""
    for row in range(rows):
        for one in range(_LANES):
            a.spread(0, At(R10, stride * row + size + OFFSET))
            _add(a, 0, row, columns + _REGISTER * one, At(R10, stride * row + size + SCALE))


def _add(a: Assembler, sums: int, row: int, columns: int, scale: At) -> None:
    """Append code that adds sums of a block, which are whole numbers, times both scales to those of all blocks."""
    total = _FACTORS + 1
    a.change("vcvtdq2ps", sums, sums)
    a.spread(_SPREAD, scale)
    a.do("vmulps", _REST, _SPREAD, At(R11, columns))
    a.read(total, At(R15, ROW * row + columns))
    a.do("vfmadd231ps", total, sums, _REST)
    a.write(total, At(R15, ROW * row + columns))
