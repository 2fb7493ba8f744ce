"""A file of marshalled parts and a table that says where they are, of which a process maps what it needs.

What processes keep beside the bytecode for later ones has this form. The table and each part carry a checksum, because
the interpreter dies of some bytes that `marshal` did not write. It is for damage, not for attackers, who could write
modules as well: CRC-32 takes a third of the time of the interpreter's own hash. Must not know what the parts are.

A leaf that `ort_py` loads before everything else: it imports next to nothing.
"""

from __future__ import annotations

import itertools
import marshal
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from mmap import ACCESS_READ, mmap
from typing import Any
from zlib import crc32

HEADER = 32
"""Bytes before the first part: the versions of the interpreter and of the format, where the table begins, the size of
the file, and the checksum of the table."""

Part = tuple[int, int, int]
"""Where a part begins and ends, and its checksum."""

UNREADABLE = (OSError, EOFError, TypeError, ValueError)
"""Exceptions that reading such a file raises where it is absent, damaged, or of another interpreter or format."""


def open_parts(path: str, number: int) -> tuple[mmap, Any]:
    """Map a file.

    Args:
        path: The file.
        number: The version of the format, which is raised whenever the table or the parts change.

    Returns:
        Its content, and its table.

    Raises:
        OSError, EOFError, TypeError, ValueError: See `UNREADABLE`.
    """
    with open(path, "rb") as file:
        content = mmap(file.fileno(), 0, access=ACCESS_READ)
    made_by, begin, size, checksum = (int.from_bytes(content[at : at + 8], "little") for at in range(0, HEADER, 8))
    if (made_by, size) != (_version(number), len(content)):
        raise ValueError
    return content, read_part(content, (begin, size, checksum))


def read_part(content: mmap | bytes, part: Part) -> Any:
    """One part.

    Raises:
        EOFError, TypeError, ValueError: It is not what was written.
    """
    begin, end, checksum = part
    found = memoryview(content)[begin:end]
    if crc32(found) != checksum:
        raise ValueError
    return marshal.loads(found)  # noqa: S302 - as of a `.pyc`


def write_parts(path: str, number: int, parts: Iterable[Any], table: Callable[[Sequence[Part]], Any]) -> None:
    """Put a file in its place once it is written whole.

    Nothing is left where a folder must not be written or a disk is full: later processes do without the file.

    Args:
        path: The file.
        number: The version of the format.
        parts: Values that `marshal` writes.
        table: Makes the table from where they will be.
    """
    contents = [marshal.dumps(part) for part in parts]
    ends = list(itertools.accumulate(map(len, contents), initial=HEADER))
    places = [(*place, crc32(part)) for place, part in zip(itertools.pairwise(ends), contents, strict=True)]
    last = marshal.dumps(table(places))
    numbers = (_version(number), ends[-1], ends[-1] + len(last), crc32(last))
    header = b"".join(one.to_bytes(8, "little") for one in numbers)
    temporary = f"{path}.{os.getpid()}"
    try:
        with open(temporary, "xb") as file:
            file.writelines([header, *contents, last])
        os.replace(temporary, path)
    except OSError:
        with suppress(OSError):
            os.remove(temporary)


def _version(number: int) -> int:
    """The version of the interpreter, and behind it that of the format."""
    return sys.hexversion << 8 | number
