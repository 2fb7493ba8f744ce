"""Memory of strings: arrays of strings hold pointers, and this module counts what they point to.

Used wherever bytes of arrays are counted. Copying an array of strings shares the strings, so who adds up several arrays
passes one set for all of them.
"""

from __future__ import annotations

import sys
from typing import Any

from ort_py.limits.running_time import check_time

_STRETCH = 1 << 18
"""Strings that are counted at a time."""


def array_memory(array: Any, seen: set[int] | None = None) -> int:
    """Bytes of an array, those of its strings included.

    Args:
        seen: Identities of the strings that are counted already; gets those of this array. None: each element counts.
    """
    size = int(array.nbytes)
    if not getattr(getattr(array, "dtype", None), "hasobject", False):
        return size
    flat = array.reshape(-1)
    for start in range(0, flat.size, _STRETCH):
        check_time()  # to count a hundred million strings takes half a minute
        texts = flat[start : start + _STRETCH].tolist()
        if seen is None:
            size += sum(map(sys.getsizeof, texts))
            continue
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
