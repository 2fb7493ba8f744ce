"""Products of one row and fixed weights of 4 or 8 bits with a scale for each block of the row, in machine code.

Comes after `one_row`; `row_few_bits` has the code. It does not know how the weights come into their panels: see
`execution.few_bits_panels`.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from ort_py_onednn.binding._dnnl import ffi
from ort_py_onednn.binding.constants import Argument, Element
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.binding.instructions import AVX2, AVX512
from ort_py_onednn.binding.library import Library
from ort_py_onednn.binding.one_row import Blocks, OneRow
from ort_py_onednn.binding.own_code import placed
from ort_py_onednn.binding.primitive import PostOp
from ort_py_onednn.binding.row_few_bits import ALL_WORDS, COLUMNS, COUNT, ROW, TABLE, code, units

__all__ = ["FewBitsProduct", "has_few_bits", "panels_of"]

_SIZES = 16
"""What the size of a block is a multiple of."""


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
    return size % _SIZES == 0 and bool(_address(library, bits, size))


@functools.cache
def _address(library: Library, bits: int, size: int) -> int:
    """Address of the code; 0 where there is none."""
    return placed(library, code(bits, size, wide=bool(library.isa & AVX512))) if library.isa & AVX2 else 0


class FewBitsProduct(OneRow):
    """The product of a row with panels of weights.

    Args:
        library: The library, for which `has_few_bits` says yes.
        bits: Of a weight: 4 or 8.
        dims: Blocks of the row, the size of a block, and the columns.
        biased: Whether a vector is added in front.
        posts: What is done with the result: nothing, or the addition of a row.

    Raises:
        Unimplemented: More is to be done with the result.
    """

    __slots__ = ("_row_blocks",)

    words = ALL_WORDS

    def __init__(
        self, library: Library, bits: int, dims: tuple[int, int, int], *, biased: bool, posts: Sequence[PostOp]
    ) -> None:
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
        code = _address(library, bits, size)
        super().__init__(library, arguments, code, f"own:row:{bits} bits", blocks, posts)

    def work(self, addresses: Mapping[int, int], threads: int = 1) -> Any:
        """See `OwnCode`."""
        work = super().work(addresses, threads)
        work[COUNT] = self._row_blocks
        for number in range(16):
            ffi.cast("float *", work + TABLE)[number] = number if number < 8 else number - 16
        return work
