"""Memory of strings: arrays of strings hold pointers, and this module counts what they point to.

Used wherever bytes of arrays are counted. Copying an array of strings shares the strings, so who adds up several arrays
passes one set for all of them.
"""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["array_memory", "longest_text"]


def array_memory(array: Any, seen: set[int] | None = None) -> int:
    """Bytes of an array, those of its strings included.

    Args:
        array: An array of any device.
        seen: Identities of the strings that are counted already; gets those of this array. None: each element counts.
    """
    size = int(array.nbytes)
    if not getattr(getattr(array, "dtype", None), "hasobject", False):
        return size
    texts = array.reshape(-1).tolist()
    if seen is None:
        return size + sum(map(sys.getsizeof, texts))
    for text in texts:
        if id(text) not in seen:
            seen.add(id(text))
            size += sys.getsizeof(text)
    return size


def longest_text(array: Any) -> int:
    """Bytes of the largest string of an array; 0 where it holds no strings."""
    if array is None or not array.dtype.hasobject:
        return 0
    return max(map(sys.getsizeof, array.reshape(-1).tolist()), default=0)
