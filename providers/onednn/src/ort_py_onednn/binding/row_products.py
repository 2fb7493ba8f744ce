"""Products of one row and fixed weights of float32 in machine code, for CPUs with AVX2.

The weights have the layout that oneDNN chose for products of many rows, so that all runs hold one form of them. There
is code for two layouts: `row_narrow_blocks` reads that of pointwise convolutions with AVX2, `row_wide_blocks` that of
products of matrices with AVX-512. A vector is added in front, and another one behind, where they are wanted.

Comes after `one_row` and `picture_products`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ort_py.light_tuple import NamedTuple
from ort_py_onednn.binding import row_narrow_blocks as narrow
from ort_py_onednn.binding import row_wide_blocks as wide
from ort_py_onednn.binding.constants import F32, Argument
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.binding.instructions import AVX2
from ort_py_onednn.binding.library import Library
from ort_py_onednn.binding.one_row import Blocks, OneRow
from ort_py_onednn.binding.own_code import placed
from ort_py_onednn.binding.primitive import PostOp, Primitive, Unimplemented

__all__ = ["RowProduct"]


class _Form(NamedTuple):
    """A layout that there is code for.

    Attributes:
        columns: Of a block.
        rows: Numbers of the row in a unit of a block's depth.
        multiple: What the numbers of the row are a multiple of.
        together: Blocks that are read side by side, in each place several of them.
        key: The key of a layout of weights by columns and numbers of the row, as `Desc.key`.
        code: Makes the code.
    """

    columns: int
    rows: int
    multiple: int
    together: int
    key: Callable[[int, int], tuple[Any, ...]]
    code: Callable[[], bytes]


def _narrow(columns: int, depth: int) -> tuple[Any, ...]:
    """Blocks of eight columns and eight numbers of each, the columns innermost."""
    dims, whole = (columns, depth, 1, 1), (-(-columns // 8) * 8, depth, 1, 1)
    steps = tuple(0 if size == 1 else step for size, step in zip(dims, (8 * depth, 64, 0, 0), strict=True))
    return dims, steps, whole, ((8, 8), (1, 0)), 0, 4 * math.prod(whole), F32


def _wide(columns: int, depth: int) -> tuple[Any, ...]:
    """Blocks of 64 columns and sixteen numbers of each, the columns innermost."""
    whole = depth, -(-columns // 64) * 64
    return (depth, columns), (1024, 64 * depth), whole, ((16, 64), (0, 1)), 0, 4 * math.prod(whole), F32


_FORMS = (
    _Form(narrow.COLUMNS, narrow.ROWS, 8, narrow.TOGETHER, _narrow, narrow.code),
    _Form(wide.COLUMNS, wide.ROWS, 16, 1, _wide, wide.code),
)


@functools.cache
def _address(library: Library, form: _Form) -> int:
    """Address of the code; 0 where there is none."""
    return placed(library, form.code()) if library.isa & AVX2 else 0


class RowProduct(OneRow):
    """The product of a row, in the place of the primitive whose weights it reads.

    Args:
        library: The library.
        form: The layout of the weights.
        arguments: Those of the primitive, by code.
        posts: What is done with the result: nothing, or the addition of a row.

    Raises:
        Unimplemented: More is to be done with the result.
    """

    __slots__ = ()

    def __init__(self, library: Library, form: _Form, arguments: Mapping[int, Desc], posts: Sequence[PostOp]) -> None:
        depth = arguments[Argument.SRC].dims[1] // form.rows
        blocks = Blocks(form.columns, depth, form.together)
        super().__init__(library, arguments, _address(library, form), f"own:row:{form.columns}:avx2", blocks, posts)

    @classmethod
    def made(cls, library: Library, product: Primitive, posts: Sequence[PostOp]) -> RowProduct | None:
        """What computes a product in its place; None where there is no code for it.

        Args:
            library: The library.
            product: Made without functions behind it.
            posts: What is done with the result: nothing, or the addition of a row.
        """
        arguments = {code: desc for code, desc in product.arguments.items() if code != Argument.SCRATCHPAD}
        src, dst = arguments[Argument.SRC], arguments[Argument.DST]
        if len(src.dims) != 2 or src.dims[0] != 1 or {src.dtype, dst.dtype} != {F32}:
            return None
        if not (src.is_plain and dst.is_plain):
            return None
        depth, columns = src.dims[1], dst.dims[1]
        key = arguments[Argument.WEIGHTS].key
        form = next((one for one in _FORMS if depth % one.multiple == 0 and key == one.key(columns, depth)), None)
        if key is None or form is None or not _address(library, form):
            return None
        try:
            return cls(library, form, arguments, posts)
        except Unimplemented:
            return None
