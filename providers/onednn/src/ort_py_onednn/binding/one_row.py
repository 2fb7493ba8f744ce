"""A product of one row in machine code, in the place of a primitive: its arguments, and what its threads claim.

Comes after `own_code`. The code has the frame of `row_frame`; who makes it knows the layout of the weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ort_py.light_tuple import NamedTuple
from ort_py_onednn.binding._dnnl import ffi
from ort_py_onednn.binding.constants import Argument, Binary
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.binding.library import Library
from ort_py_onednn.binding.own_code import OwnCode
from ort_py_onednn.binding.primitive import Accumulate, Operand, PostOp, Unimplemented
from ort_py_onednn.binding.row_frame import MASK, RUN, WORDS

__all__ = ["Blocks", "OneRow"]

_LONGEST_RUN, _RUN_BYTES = 16, 400_000
"""Memory is read faster the longer it is read in one place: of short blocks 1.4 times as fast, until other places wait
too long."""

_UNIT_BYTES = 256
"""Bytes of a block for each unit of its depth."""


class Blocks(NamedTuple):
    """Blocks in which threads claim the weights.

    Attributes:
        columns: Of a block.
        depth: Of a block, in units of 256 bytes.
        together: Blocks that are read side by side.
    """

    columns: int
    depth: int
    together: int


class OneRow(OwnCode):
    """The product of a row.

    Args:
        library: The library.
        arguments: Layouts by argument code: the row, the weights, the result, and perhaps a bias.
        code: Address of the function.
        implementation: Its name.
        blocks: How the weights are claimed.
        posts: What is done with the result: nothing, or the addition of a row.
        words: Words of the work.

    Raises:
        Unimplemented: More is to be done with the result.
    """

    __slots__ = ("_blocks", "_rest", "_words", "bound")

    def __init__(
        self,
        library: Library,
        arguments: Mapping[int, Desc],
        code: int,
        implementation: str,
        blocks: Blocks,
        posts: Sequence[PostOp],
        words: int = WORDS,
    ) -> None:
        result = arguments[Argument.DST]
        columns = result.dims[1]
        added = _added(posts, columns)
        if added == Argument.post_op(0):
            arguments = {**arguments, added: Desc.plain((1, columns))}
        super().__init__(library, arguments, code, implementation, columns // blocks.columns)
        self._blocks, self._rest, self._words = blocks, columns % blocks.columns, words
        self.bound = ((1, Argument.SRC), (2, Argument.DST))
        if added is not None:
            self.bound = (*self.bound, (3, added))

    def work(self, addresses: Mapping[int, int], threads: int = 1) -> Any:
        """See `OwnCode`."""
        work = ffi.new("intptr_t[]", self._words)
        work[2] = self._count
        for one in range(self._rest):
            ffi.cast("int32_t *", work + MASK)[one] = -1
        work[5], work[6] = addresses[Argument.WEIGHTS], addresses.get(Argument.BIAS, 0)
        work[7] = self._blocks.depth
        work[RUN] = self._run(threads)
        return work

    def _run(self, threads: int) -> int:
        """Blocks that a thread claims at once: threads should have several pieces each, of the same size."""
        found, pieces, together = _LONGEST_RUN, 1 if threads == 1 else 3 * threads, self._blocks.together
        size = self._blocks.depth * _UNIT_BYTES
        while found > 1 and (found * size > _RUN_BYTES or found * together * pieces > self._count):
            found //= 2
        return found * together


def _added(posts: Sequence[PostOp], columns: int) -> int | None:
    """The code of the argument that is added behind the product; None where nothing is.

    Raises:
        Unimplemented: It is not the addition of a row.
    """
    if not posts:
        return None
    (post,) = posts if len(posts) == 1 else (None,)
    if post == Accumulate():
        return Argument.DST
    if isinstance(post, Operand) and post.algorithm == Binary.ADD and post.desc.dims == (1, columns):
        return Argument.post_op(0)
    raise Unimplemented("more behind the product of a row than an addition")
