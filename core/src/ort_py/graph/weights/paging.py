"""Files read through a mapping whose pages leave the process as soon as they were used.

A file that is read once, front to back or tensor by tensor, need not be in this process's memory beside what is made of
it: its pages stay in the system's cache, where other processes find them too. Only Linux and macOS have the call;
elsewhere the pages stay until the mapping goes. It does not depend on models.
"""

from __future__ import annotations

import mmap
from typing import Any, BinaryIO

import numpy as np

_FORGET = getattr(mmap, "MADV_DONTNEED", None)

_MAPPED_FROM = 1 << 20
"""Bytes from which a file is mapped: a smaller one is read sooner than mapped."""


def mapped(file: BinaryIO, size: int) -> memoryview:
    """The content of an open file, read-only. The file may be closed, and must not be cut short, while it is used."""
    if size < _MAPPED_FROM:
        return memoryview(file.read(size))
    return memoryview(mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ))


def forget_pages(content: memoryview, start: int, stop: int) -> None:
    """Take the pages inside a range out of this process's memory; reading them again brings them back.

    Args:
        content: The result of `mapped`, or any other bytes, of which nothing is forgotten.
    """
    buffer: Any = content.obj
    if _FORGET is None or not isinstance(buffer, mmap.mmap) or start >= stop:
        return
    if content.nbytes != len(buffer):  # a part of the mapping
        offset = _address(content) - _address(buffer)
        start, stop = start + offset, stop + offset
    first = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE
    length = stop - first
    if length > 0:
        buffer.madvise(_FORGET, first, length)


def _address(content: Any) -> int:
    return int(np.frombuffer(content, np.uint8).ctypes.data)
