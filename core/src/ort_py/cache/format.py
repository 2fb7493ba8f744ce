"""The form of a cached file: a head with checksums, a description, and blocks of bytes to be mapped.

Comes before `store`, which decides where files are. The description is whatever its reader wants, JSON for models; the
blocks start on 64-byte boundaries, so that arrays can be used where they lie. Every byte is covered by a checksum: the
description by a hash, the blocks, which may be gigabytes, by sums, which are ten times as fast and find damage as
well; neither protects against an attacker who can write to the folder. Nothing is ever unpickled.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

import numpy as np

from ort_py.hashing import blake2b

ALIGNMENT = 64
CACHE_MAGIC = b"ort-py cache 2\n\0"
_HEAD = struct.Struct("<16sQQI4x24s")  # magic, bytes of the description, bytes after it, their checksum, hash
HEAD_BYTES = _HEAD.size
_ROW = 32 << 10
_CHUNK = 128 * _ROW


def write_file(file: BinaryIO, description: bytes, blocks: Iterable[Any], magic: bytes = CACHE_MAGIC) -> None:
    """Write a cached file from its start.

    Args:
        file: Empty, seekable.
        description: Any bytes.
        blocks: Objects with the buffer protocol, C-contiguous; each starts on a boundary, counted from the first one
            at 0.
        magic: The first 16 bytes, which tell what the file is.

    Raises:
        OSError: The disk is full or gone.
    """
    file.write(bytes(HEAD_BYTES))
    file.write(description)
    rest, checksum = 0, Checksum()
    checksum.update(description[len(description) - len(description) % ALIGNMENT :])
    for part in _padded(len(description), blocks):
        file.write(part)
        checksum.update(part)
        rest += len(part)
    file.seek(0)
    found = checksum.value()
    head = _HEAD.pack(magic, len(description), rest, found, bytes(24))
    file.write(_HEAD.pack(magic, len(description), rest, found, _hash(head, description)))


def _padded(position: int, blocks: Iterable[Any]) -> Iterator[Any]:
    for block in blocks:
        yield bytes(-position % ALIGNMENT)
        view = memoryview(block).cast("B")
        position += -position % ALIGNMENT + len(view)
        yield view


def read_checked(file: BinaryIO) -> tuple[bytes, str]:
    """The content of a cached file and what is wrong with it, as `damage` says; of a wrong one, nothing but its head.

    Args:
        file: At its start.
    """
    head = file.read(HEAD_BYTES)
    size = os.fstat(file.fileno()).st_size
    wrong = _wrong_head(head, size)
    if wrong:
        return head, wrong
    content = head + file.read(size - HEAD_BYTES)
    return content, damage(content)


def head_digest(content: Any) -> bytes:
    """The value that distinguishes the content of an undamaged file from any other: the checksum of all checksums in
    its head.

    Args:
        content: The whole file, with the buffer protocol.
    """
    return bytes(memoryview(content)[HEAD_BYTES - 24 : HEAD_BYTES])


def damage(content: Any) -> str:
    """Describe the damage of a cached file; ``""`` if there is none."""
    return damage_of_description(content) or damage_of_blocks(content)


def damage_of_blocks(content: Any) -> str:
    """Describe the damage of the blocks of a file whose description is undamaged; ``""`` if there is none.

    Args:
        content: The whole file, with the buffer protocol.
    """
    view = memoryview(content)
    _, length, _, expected, _ = _HEAD.unpack(view[:HEAD_BYTES])
    # With the end of the description, so that words of the file are words in memory.
    found = checksum_of(view[HEAD_BYTES + length - length % ALIGNMENT :])
    return "" if found == expected else "its content was changed after it was written"


class Checksum:
    """A checksum of bytes that come in parts: CRC-32 of the sums of rows and of columns of a table of 64-bit words.

    The sums are taken at the speed of memory, which is five times that of a CRC of everything. A change of one, two or
    three words always changes one of the sums, and a change of more words leaves all of them as they were only if it
    is made for that.
    """

    def __init__(self) -> None:
        self._rows: list[bytes] = []
        self._columns = np.zeros(_ROW // 8, np.uint64)
        self._rest = bytearray()

    def update(self, part: Any) -> None:
        """Add a part: anything with the buffer protocol, C-contiguous."""
        view = memoryview(part).cast("B")
        if self._rest:
            missing = _ROW - len(self._rest)
            self._rest += view[:missing]
            view = view[missing:]
            if len(self._rest) < _ROW:
                return
            self._add(self._rest)
            self._rest = bytearray()
        whole = len(view) - len(view) % _ROW
        for at in range(0, whole, _CHUNK):
            self._add(view[at : min(at + _CHUNK, whole)])
        self._rest += view[whole:]

    def value(self) -> int:
        """The checksum of all parts; nothing may be added afterwards."""
        crc = zlib.crc32(self._rest)
        return zlib.crc32(b"".join([*self._rows, self._columns.tobytes()]), crc) if self._rows else crc

    def _add(self, rows: Any) -> None:
        words = np.frombuffer(rows, np.uint64).reshape(-1, _ROW // 8)
        self._rows.append(np.add.reduce(words, axis=1).tobytes())
        self._columns += np.add.reduce(words, axis=0)


def checksum_of(content: Any) -> int:
    """The `Checksum` of bytes that are there at once."""
    found = Checksum()
    found.update(content)
    return found.value()


def damage_of_description(content: Any, magic: bytes = CACHE_MAGIC) -> str:
    """Describe the damage of a cached file as far as its head and description show it; ``""`` if there is none.

    Args:
        content: The whole file, with the buffer protocol; its blocks are not read.
        magic: Its first 16 bytes, as they should be.
    """
    view = memoryview(content)
    wrong = _wrong_head(view[:HEAD_BYTES], len(view), magic)
    if wrong:
        return wrong
    _, length, rest, crc, found = _HEAD.unpack(view[:HEAD_BYTES])
    head = _HEAD.pack(magic, length, rest, crc, bytes(24))
    if _hash(head, view[HEAD_BYTES : HEAD_BYTES + length]) != found or bytes(view[:HEAD_BYTES]) != head[:40] + found:
        return "its description was changed after it was written"
    return ""


def _wrong_head(head: Any, size: int, expected: bytes = CACHE_MAGIC) -> str:
    """Describe what the head shows to be wrong with a file of this size; ``""`` if nothing is."""
    if len(head) < HEAD_BYTES:
        return "it is truncated"
    magic, length, rest, _, _ = _HEAD.unpack(head)
    if magic != expected:
        return "it is not a file of this version's form"
    return "" if size == HEAD_BYTES + length + rest else f"it has {size} bytes and not {HEAD_BYTES + length + rest}"


def description_of(content: Any) -> tuple[bytes, int]:
    """The description of an undamaged file, and where its first block starts."""
    _, length, *_ = _HEAD.unpack(memoryview(content)[:HEAD_BYTES])
    end = HEAD_BYTES + length
    return bytes(memoryview(content)[HEAD_BYTES:end]), end + -end % ALIGNMENT


def _hash(head: bytes, description: Any) -> bytes:
    digest = blake2b(head, digest_size=24)
    digest.update(description)
    return digest.digest()
