"""Small weights in blocked layouts, copied by NumPy.

For each size and layout oneDNN makes a primitive and its code, which takes ten times as long as copying ten thousand
numbers. It depends on layouts only.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ort_py_onednn.binding.descriptors import Desc

__all__ = ["copy_elements"]

_MOST = 1 << 18
"""Elements from which on oneDNN's code, which knows the caches, is the faster way."""

_WORDS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def copy_elements(source: Desc, data: np.ndarray[Any, Any], target: Desc, made: np.ndarray[Any, Any]) -> bool:
    """Write elements as another layout has them, with zeroes where that is padded.

    Args:
        data, made: Bytes in the layouts of `source` and `target`.

    Returns:
        Whether it was done: the layouts are no secrets, have the same type and are not large.
    """
    word = _WORDS.get(source.dtype.nbytes)
    if source.key is None or target.key is None or source.dtype != target.dtype or word is None:
        return False
    padded = target.key[2]
    is_bare = len(target.key) == 7 and target.is_dense and not target.has_offset
    if not is_bare or source.is_blocked or source.key[2] != source.dims or source.has_offset:
        return False
    if not 0 < math.prod(padded) <= _MOST or any(stride < 0 for stride in source.strides):
        return False
    size = source.dtype.nbytes
    steps = [stride * size for stride in source.strides]
    elements = np.ndarray(source.dims, word, data, 0, steps)
    if padded != source.dims:
        whole = np.zeros(padded, word)
        whole[tuple(map(slice, source.dims))] = elements
        elements = whole
    blocks, places = target.blocks
    outer, apart, order = list(padded), [[place] for place in range(len(padded))], list(range(len(padded)))
    for number, (block, place) in enumerate(zip(blocks, places, strict=True)):
        outer[place] //= block
        apart[place].append(len(padded) + number)
    sizes = [*outer, *blocks]
    inner = [math.prod(blocks[number + 1 :]) for number in range(len(blocks))]
    strides = [stride * size for stride in (*target.strides, *inner)]
    cut = [axis for axes in apart for axis in axes]
    order = sorted(range(len(cut)), key=cut.__getitem__)
    placed = np.ndarray(sizes, word, made, 0, strides)
    placed[...] = elements.reshape([sizes[axis] for axis in cut]).transpose(order)
    return True
