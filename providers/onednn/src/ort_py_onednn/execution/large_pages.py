"""Memory of packed weights in large pages, because a processor that looks for pages reads memory at half its speed.

Weights of a few hundred kilobytes are pieces of blocks that the system is asked to back with pages of 2 MiB; it does so
for larger arrays of NumPy anyway. A block goes with its last piece, so pieces that are made one after the other should
last equally long. It does not know what weights are.
"""

from __future__ import annotations

import mmap
import weakref
from typing import Any

import numpy as np

from ort_py.platform.forks import ProcessLock
from ort_py_onednn.binding.room import leave_room

__all__ = ["aligned", "lasting"]

_ALIGNMENT = 64
_PAGE = 2 << 20
_BLOCK = 8 * _PAGE
_LEAST, _MOST = 16 << 10, 4 << 20
"""Bytes of arrays that become pieces. NumPy asks for large pages itself for arrays of 4 MiB."""

_USUAL = 8 << 20
"""Bytes that a process gets in pages of the usual size before: small models do not have a large page that is half
empty."""

_HUGE: int | None = getattr(mmap, "MADV_HUGEPAGE", None)

Array = np.ndarray[Any, Any]


def aligned(nbytes: int) -> Array:
    """Uninitialised bytes at an address that every implementation likes.

    Raises:
        MemoryError: There is too little memory.
    """
    leave_room(nbytes)
    block = np.empty(nbytes + _ALIGNMENT, np.uint8)
    start = -block.ctypes.data % _ALIGNMENT
    return block[start : start + nbytes]


def lasting(nbytes: int) -> Array:
    """The same for bytes that are kept, and read again and again.

    Raises:
        MemoryError: There is too little memory.
    """
    if _HUGE is None or not _LEAST <= nbytes < _MOST:
        return aligned(nbytes)
    piece = _blocks.piece(nbytes)
    return aligned(nbytes) if piece is None else piece


class _Blocks:
    """The block that pieces are taken from now."""

    def __init__(self) -> None:
        self._lock = ProcessLock()
        self._small = 0
        self._block: weakref.ref[mmap.mmap] | None = None
        self._next = self._end = 0

    def piece(self, nbytes: int) -> Array | None:
        with self._lock.held():
            if self._small + nbytes <= _USUAL:
                self._small += nbytes
                return None
            block = None if self._block is None else self._block()
            if block is None or self._next + nbytes > self._end:
                block, self._next = _made()
                self._block, self._end = weakref.ref(block), self._next + _BLOCK
            # Made so, an array refers to the block, and is an array of its own where memory is counted.
            piece: Array = np.ndarray((nbytes,), np.uint8, block, self._next)
            self._next += -(-nbytes // _ALIGNMENT) * _ALIGNMENT
            return piece


def _made() -> tuple[mmap.mmap, int]:
    """A block, and where in it the first large page begins.

    Raises:
        MemoryError: There is too little memory.
    """
    leave_room(_BLOCK + _PAGE)
    try:
        # A copy of nothing is this process's own: by default, a forked child would write into its parent's weights, and
        # the system has no large pages for memory that processes share.
        memory = mmap.mmap(-1, _BLOCK + _PAGE, access=mmap.ACCESS_COPY)
    except OSError as error:
        raise MemoryError(str(error)) from error
    start = -np.frombuffer(memory, np.uint8, 1).ctypes.data % _PAGE
    if _HUGE is not None:
        memory.madvise(_HUGE, start, _BLOCK)
    return memory, start


_blocks = _Blocks()
