"""Products of several rows and fixed weights of 4 or 8 bits with a scale for each block of the row, in machine code.

They read the panels of `few_bits`, whose products are of one row. Comes after it; `rows_few_bits` has the code.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Mapping, Sequence
from typing import Any

from ort_py_onednn.binding._dnnl import ffi
from ort_py_onednn.binding.calls import Call, CallList
from ort_py_onednn.binding.constants import Argument, Binary
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.binding.few_bits import FLIPS, panels_of
from ort_py_onednn.binding.library import Library
from ort_py_onednn.binding.own_code import OwnCode, placed
from ort_py_onednn.binding.primitive import Accumulate, Operand, PostOp, Unimplemented
from ort_py_onednn.binding.row_few_bits import COLUMNS
from ort_py_onednn.binding.rows_few_bits import TILE, RowsWords, code, scratch_bytes

__all__ = ["FewBitsRows"]

_MOST = 36
"""Rows of a group: their sums, and weights of a block, stay in the first cache."""

_NEXT_CALL = CallList.place(1, 0) - CallList.place(0, 0)


@functools.cache
def _address(library: Library, bits: int, size: int, count: int) -> int:
    return placed(library, code(bits, size, count))


class FewBitsRows(OwnCode):
    """The product of rows with panels of weights.

    Args:
        library: The library, for which `has_few_bits` says yes.
        bits: Of a weight: 4 or 8.
        rows: Number of rows.
        dims: Blocks of a row, the size of a block, and the columns.
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
        if biased:
            arguments[Argument.BIAS] = Desc.plain((1, columns))
        added = _added(posts, result)
        if added == Argument.post_op(0):
            arguments[added] = result
        address = _address(library, bits, size, count)
        super().__init__(library, arguments, address, f"own:rows:{bits} bits", -(-columns // COLUMNS))
        self.bound = ((1, Argument.SRC), (2, Argument.DST))
        if added is not None:
            self.bound = (*self.bound, (3, added))

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
        constants = struct.pack("<I", FLIPS[self._bits]) * 16 + struct.pack("<I", 0x0F0F0F0F) * 16
        ffi.memmove(work + RowsWords.FLIP, constants, len(constants))
        return work

    def calls(self, addresses: Mapping[int, int], threads: int) -> Sequence[Call]:
        """See `OwnCode`."""
        prepare, call = super().calls(addresses, threads)
        work = prepare[1][0]
        return prepare, (self._prepare, (work + RowsWords.LATER, 0, 0, 0), False), call


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
