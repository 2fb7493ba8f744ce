"""Products of one row and fixed weights of float32 in machine code, for CPUs with AVX2.

The weights have the layout that oneDNN chose for products of many rows, so that all runs hold one form of them. There
is code for two layouts: `row_narrow_blocks` reads that of pointwise convolutions with AVX2, `row_wide_blocks` that of
products of matrices with AVX-512. A vector is added in front, and another one behind, where they are wanted.

Comes after `own_code` and `picture_products`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ort_py.light_tuple import NamedTuple
from ort_py_onednn.binding import row_narrow_blocks as narrow
from ort_py_onednn.binding import row_wide_blocks as wide
from ort_py_onednn.binding._dnnl import ffi
from ort_py_onednn.binding.constants import F32, Argument, Binary
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.binding.instructions import AVX2
from ort_py_onednn.binding.library import Library
from ort_py_onednn.binding.own_code import OwnCode, placed
from ort_py_onednn.binding.primitive import Accumulate, Operand, PostOp, Primitive
from ort_py_onednn.binding.row_frame import MASK, RUN, WORDS

__all__ = ["RowProduct"]

_LONGEST_RUN, _RUN_BYTES = 16, 400_000
"""Memory is read faster the longer it is read in one place: of short blocks 1.4 times as fast, until other places wait
too long."""

_UNIT_BYTES = 256
"""Bytes of a block for each unit of its depth."""


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


class RowProduct(OwnCode):
    """The product of a row, in the place of the primitive whose weights it reads.

    Args:
        library: The library.
        form: The layout of the weights.
        arguments: Those of the primitive, by code.
        added: The code of what is added behind; None where nothing is.
    """

    __slots__ = ("_depth", "_form", "_rest", "bound")

    def __init__(self, library: Library, form: _Form, arguments: Mapping[int, Desc], added: int | None) -> None:
        depth, columns = arguments[Argument.SRC].dims[1], arguments[Argument.DST].dims[1]
        code = _address(library, form)
        super().__init__(library, arguments, code, f"own:row:{form.columns}:avx2", columns // form.columns)
        self._form = form
        self._depth, self._rest = depth // form.rows, columns % form.columns
        self.bound = ((1, Argument.SRC), (2, Argument.DST))
        if added is not None:
            self.bound = (*self.bound, (3, added))

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
        if not posts:
            return cls(library, form, arguments, None)
        (post,) = posts if len(posts) == 1 else (None,)
        if post == Accumulate():
            return cls(library, form, arguments, Argument.DST)
        if isinstance(post, Operand) and post.algorithm == Binary.ADD and post.desc.dims == (1, columns):
            code = Argument.post_op(0)
            return cls(library, form, arguments | {code: Desc.plain((1, columns))}, code)
        return None

    def work(self, addresses: Mapping[int, int], threads: int = 1) -> Any:
        """See `OwnCode`."""
        work = ffi.new("intptr_t[]", WORDS)
        work[2] = self._count
        for one in range(self._rest):
            ffi.cast("int32_t *", work + MASK)[one] = -1
        work[5], work[6], work[7] = addresses[Argument.WEIGHTS], addresses.get(Argument.BIAS, 0), self._depth
        work[RUN] = self._run(threads)
        return work

    def _run(self, threads: int) -> int:
        """Blocks that a thread claims at once: threads should have several pieces each, of the same size."""
        found, pieces, together = _LONGEST_RUN, 1 if threads == 1 else 3 * threads, self._form.together
        while found > 1 and (found * self._depth * _UNIT_BYTES > _RUN_BYTES or found * together * pieces > self._count):
            found //= 2
        return found * together
