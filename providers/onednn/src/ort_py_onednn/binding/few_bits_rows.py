"""Products of several rows and fixed weights of 4 or 8 bits with a scale for each block of the row, in machine code.

They read the panels of `few_bits`, whose products are of one row. Comes after it; `rows_few_bits` has the code, and
`rows_few_bytes` that for rows that are rounded.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Mapping, Sequence
from typing import Any

from ort_py_onednn.binding import rows_few_bits, rows_few_bytes
from ort_py_onednn.binding._dnnl import ffi
from ort_py_onednn.binding.calls import Call, CallList
from ort_py_onednn.binding.constants import Argument, Binary, Element
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.binding.few_bits import FLIPS, constants_of, has_dots, panels_of
from ort_py_onednn.binding.library import Library
from ort_py_onednn.binding.own_code import OwnCode, placed
from ort_py_onednn.binding.primitive import Accumulate, Operand, PostOp, Unimplemented
from ort_py_onednn.binding.row_few_bits import COLUMNS
from ort_py_onednn.binding.row_few_bytes import COUNT, TABLE, WorkWords
from ort_py_onednn.binding.row_frame import RUN
from ort_py_onednn.binding.rows_few_bits import TILE, RowsWords, scratch_bytes

__all__ = ["FewBitsRows", "RoundedRows"]

_MOST = 36
"""Rows of a group: their sums, and weights of a block, stay in the first cache."""

_NEXT_CALL = CallList.place(1, 0) - CallList.place(0, 0)


@functools.cache
def _exact(library: Library, bits: int, size: int, count: int) -> int:
    return placed(library, rows_few_bits.code(bits, size, count))


@functools.cache
def _rounded(library: Library, bits: int, size: int, count: int, *, wide: bool) -> int:
    return placed(library, rows_few_bytes.code(bits, size, count, wide=wide))


@functools.cache
def _rounding(library: Library, bits: int, size: int, count: int) -> int:
    return placed(library, rows_few_bytes.rounding(bits, size, count))


class RoundedRows(OwnCode):
    """Rows as bytes, each block relative to its largest number.

    Args:
        library: The library, for which `has_few_bits` says yes.
        bits: Of a weight: 4 or 8.
        rows: Number of rows.
        count: Blocks of a row.
        size: Of a block.
    """

    __slots__ = ("_bits", "_row_blocks")

    def __init__(self, library: Library, bits: int, rows: int, count: int, size: int) -> None:
        arguments = {
            Argument.SRC: Desc.plain((rows, count * size)),
            Argument.DST: Desc.plain((rows, rows_few_bytes.row_bytes(size, count)), Element.U8),
        }
        address = _rounding(library, bits, size, count)
        super().__init__(library, arguments, address, "own:rows as bytes", rows)
        self._bits, self._row_blocks = bits, count

    def work(self, addresses: Mapping[int, int], threads: int = 1) -> Any:
        """See `OwnCode`."""
        work = ffi.new("intptr_t[]", WorkWords.SCRATCH)
        work[2], work[COUNT] = self._count, self._row_blocks
        work[RUN] = -(-self._count // (1 if threads == 1 else 3 * threads))
        constants = constants_of(self._bits)
        ffi.memmove(work + TABLE, constants, len(constants))
        return work


class FewBitsRows(OwnCode):
    """The product of rows with panels of weights.

    Args:
        library: The library, for which `has_few_bits` says yes.
        bits: Of a weight: 4 or 8.
        rows: Number of rows.
        dims: Blocks of a row, the size of a block, and the columns.
        rounded: Whether it reads `RoundedRows`, too, as its second argument.
        biased: Whether a vector is added in front.
        posts: What is done with the result: nothing, or the addition of a matrix of its size.
        threads: Threads that may run it.

    Raises:
        Unimplemented: More is to be done with the result.
    """

    __slots__ = ("_bits", "_columns", "_group", "_rows", "_scratch", "bound")

    def __init__(
        self,
        library: Library,
        bits: int,
        rows: int,
        dims: tuple[int, int, int],
        *,
        rounded: bool,
        biased: bool,
        posts: Sequence[PostOp],
        threads: int,
    ) -> None:
        count, size, columns = dims
        groups = -(-rows // _MOST)
        self._bits, self._rows, self._columns = bits, rows, columns
        self._group = -(-rows // (groups * TILE)) * TILE
        result = Desc.plain((rows, columns))
        arguments = {
            Argument.SRC: Desc.plain((rows, count * size)),
            Argument.WEIGHTS: panels_of(bits, dims),
            Argument.DST: result,
            Argument.SCRATCHPAD: Desc.plain((threads, scratch_bytes(size, self._group) // 4)),
        }
        if rounded:
            arguments[Argument.SRC_1] = Desc.plain((rows, rows_few_bytes.row_bytes(size, count)), Element.U8)
        if biased:
            arguments[Argument.BIAS] = Desc.plain((1, columns))
        added = _added(posts, result)
        if added == Argument.post_op(0):
            arguments[added] = result
        if rounded:
            address = _rounded(library, bits, size, count, wide=has_dots(library))
        else:
            address = _exact(library, bits, size, count)
        name = f"own:rows:{bits} bits{' of bytes' if rounded else ''}"
        super().__init__(library, arguments, address, name, -(-columns // COLUMNS))
        self.bound = ((1, Argument.SRC), (2, Argument.DST))
        if added is not None:
            self.bound = (*self.bound, (3, added))
        if rounded:
            self.bound = (*self.bound, (_NEXT_CALL + 1, Argument.SRC_1))

    def work(self, addresses: Mapping[int, int], threads: int = 1) -> Any:
        """See `OwnCode`."""
        work = ffi.new("intptr_t[]", RowsWords.COUNT)
        work[2] = self._count
        work[RowsWords.WEIGHTS], work[RowsWords.BIAS] = addresses[Argument.WEIGHTS], addresses.get(Argument.BIAS, 0)
        work[RowsWords.ROWS], work[RowsWords.GROUP] = self._rows, self._group
        work[RowsWords.STRIDE], work[RowsWords.SCRATCH] = 4 * self._columns, addresses[Argument.SCRATCHPAD]
        work[RowsWords.WHOLE], work[RowsWords.RUN] = self._columns // COLUMNS, 1
        for one in range(self._columns % COLUMNS):
            ffi.cast("int32_t *", work + RowsWords.MASK)[one] = -1
        words = FLIPS[self._bits], 0x0F0F0F0F
        constants = b"".join(struct.pack("<I", word) * 16 for word in words)
        constants += b"".join(struct.pack("<H", number) * 16 for number in (1, 16))
        ffi.memmove(work + RowsWords.FLIP, constants, len(constants))
        return work

    def calls(self, addresses: Mapping[int, int], threads: int) -> Sequence[Call]:
        """See `OwnCode`."""
        prepare, call = super().calls(addresses, threads)
        work = prepare[1][0]
        given = tuple(addresses[code] for place, code in self.bound if place < _NEXT_CALL)
        rounded = addresses.get(Argument.SRC_1, 0)
        return (
            (self._prepare, (work, *given), False),
            (self._prepare, (work + RowsWords.LATER, rounded, 0, 0), False),
            call,
        )


def _added(posts: Sequence[PostOp], result: Desc) -> int | None:
    """The code of the argument that is added behind the product; None where nothing is.

    Raises:
        Unimplemented: It is not the addition of a matrix of the result's size.
    """
    if not posts:
        return None
    (post,) = posts if len(posts) == 1 else (None,)
    if post == Accumulate():
        return Argument.DST
    if isinstance(post, Operand) and post.algorithm == Binary.ADD and post.desc.same(result):
        return Argument.post_op(0)
    raise Unimplemented("more behind a product of few bits than an addition")
