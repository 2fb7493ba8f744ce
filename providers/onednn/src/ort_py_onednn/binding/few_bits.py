"""Products of one row and fixed weights of 4 or 8 bits with a scale for each block of the row, in machine code.

Comes after `one_row`; `row_few_bits` has the code. It does not know how the weights come into their panels: see
`execution.few_bits_panels`.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Mapping, Sequence
from typing import Any

from ort_py_onednn.binding._dnnl import ffi
from ort_py_onednn.binding.constants import Argument, Element
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.binding.instructions import AVX2, AVX512, AVX512_VNNI
from ort_py_onednn.binding.library import Library
from ort_py_onednn.binding.one_row import Blocks, OneRow
from ort_py_onednn.binding.own_code import placed
from ort_py_onednn.binding.primitive import PostOp
from ort_py_onednn.binding.row_few_bits import COLUMNS, ROW, code, units
from ort_py_onednn.binding.row_few_bytes import COUNT, TABLE, WorkWords, scratch_bytes

__all__ = ["FLIPS", "FewBitsProduct", "constants_of", "has_dots", "has_few_bits", "panels_of"]

_SIZES = 16
"""What the size of a block is a multiple of."""

FLIPS = {4: 0x88888888, 8: 0x80808080}
"""The highest bit of each weight of a word, by bits of a weight."""

_ORDERS = {4: (0, 2, 4, 6, 1, 3, 5, 7), 8: range(8)}
"""Places of eight numbers of a row as words of weights have them: of half bytes the lower ones first."""

_ROUNDING = 127, 2.0**-119
"""The largest byte, and the least number that is told from 0."""


def panels_of(bits: int, dims: tuple[int, int, int]) -> Desc:
    """The layout of weights: panels, and bytes of a panel.

    Args:
        bits: Of a weight: 4 or 8.
        dims: Blocks of the row, the size of a block, and the columns.
    """
    count, size, columns = dims
    return Desc.plain((-(-columns // COLUMNS), count * units(bits, size) * ROW), Element.U8)


def has_few_bits(library: Library, bits: int, size: int) -> bool:
    """Return whether there is code for blocks of a size here."""
    return size % _SIZES == 0 and bool(_address(library, bits, size, rounded=False))


def has_dots(library: Library) -> bool:
    """Return whether there are products of bytes that are added up in 32 bits, for registers of 512 bits."""
    return bool(library.isa & AVX512 and library.isa & AVX512_VNNI)


@functools.cache
def _address(library: Library, bits: int, size: int, *, rounded: bool) -> int:
    """Address of the code; 0 where there is none."""
    if not library.isa & AVX2:
        return 0
    wide = bool(library.isa & AVX512) and (not rounded or has_dots(library))
    return placed(library, code(bits, size, wide=wide, rounded=rounded))


class FewBitsProduct(OneRow):
    """The product of a row with panels of weights.

    Args:
        library: The library, for which `has_few_bits` says yes.
        bits: Of a weight: 4 or 8.
        dims: Blocks of the row, the size of a block, and the columns.
        coarse: Whether numbers of the row may be rounded to bytes, relative to the largest of their block.
        biased: Whether a vector is added in front.
        posts: What is done with the result: nothing, or the addition of a row.

    Raises:
        Unimplemented: More is to be done with the result.
    """

    __slots__ = ("_bits", "_row_blocks")

    def __init__(
        self,
        library: Library,
        bits: int,
        dims: tuple[int, int, int],
        *,
        coarse: bool,
        biased: bool,
        posts: Sequence[PostOp],
    ) -> None:
        self._bits = bits
        self._row_blocks, size, columns = dims
        result = Desc.plain((1, columns))
        arguments = {
            Argument.SRC: Desc.plain((1, self._row_blocks * size)),
            Argument.WEIGHTS: panels_of(bits, dims),
            Argument.DST: result,
        }
        if biased:
            arguments[Argument.BIAS] = result
        blocks = Blocks(COLUMNS, self._row_blocks * units(bits, size), 1)
        code = _address(library, bits, size, rounded=coarse)
        name = f"own:row:{bits} bits{' of bytes' if coarse else ''}"
        words = WorkWords.SCRATCH + (-(-scratch_bytes(self._row_blocks, size) // 8) if coarse else 0)
        super().__init__(library, arguments, code, name, blocks, posts, words)

    def work(self, addresses: Mapping[int, int], threads: int = 1) -> Any:
        """See `OwnCode`."""
        work = super().work(addresses, threads)
        work[COUNT] = self._row_blocks
        constants = constants_of(self._bits)
        ffi.memmove(work + TABLE, constants, len(constants))
        return work


def constants_of(bits: int) -> bytes:
    """Words of the work from `TABLE` on. The least number has a scale that is a normal number, too."""
    return b"".join(
        (
            struct.pack("<16f", *range(-8, 8)),
            struct.pack("<I", FLIPS[bits]) * 16,
            struct.pack("<I", 0x0F0F0F0F) * 16,
            struct.pack("<I", 0x7FFFFFFF) * 8,
            struct.pack("<8I", *_ORDERS[bits]),
            struct.pack("<2f", *_ROUNDING),
            struct.pack("<16H", *(1,) * 16),
            struct.pack("<16H", *(16,) * 16),
        )
    )
