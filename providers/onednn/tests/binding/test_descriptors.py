"""Layouts that are made of others hold every element where the first one does."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from ort_py_onednn.binding._dnnl import ffi
from ort_py_onednn.binding.constants import F32
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.binding.engine import engine

SHAPES = ((3, 1, 8, 6), (3, 3, 4, 6), (2, 16, 3, 1), (3, 1, 1, 1), (3, 20, 2, 2), (3, 1, 6), (2, 5, 3), (1, 3, 2, 2, 2))
TAGS = 1200
"""Numbers below which oneDNN's formats lie."""


def _layouts(shape: tuple[int, ...]) -> list[Desc]:
    """Each of the library's formats that a shape can have, with a key."""
    found = []
    for tag in range(1, TAGS):
        made = ffi.new("md_t *")
        if not engine().c.dnnl_memory_desc_create_with_tag(made, len(shape), list(shape), F32, tag):
            found.append(Desc(made[0], shape))
    return [desc for desc in found if desc.key is not None]


def _offsets(desc: Desc, order: tuple[int, ...] | None = None) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The place of every element, in row-major order of the indices, or of permuted ones; by the definition of blocked
    layouts."""
    assert desc.key is not None
    blocks, places = desc.key[3]
    grid = np.indices(desc.dims)
    if order is not None:
        grid = grid.transpose(0, *[1 + axis for axis in np.argsort(order)])
    index = [one.reshape(-1).copy() for one in grid]
    found: np.ndarray[tuple[int], np.dtype[np.int64]] = np.full(index[0].size, desc.key[4], np.int64)
    inner = 1
    for block, place in reversed(list(zip(blocks, places, strict=True))):
        found += index[place] % block * inner
        index[place] //= block
        inner *= block
    for one, stride in zip(index, desc.strides, strict=True):
        found += one * stride
    return found


def _splits(size: int, shape: tuple[int, ...]) -> set[tuple[int, ...]]:
    """Other dimensions of as many elements: neighbours made one, ones added and dropped."""
    merged = {
        (*shape[:first], math.prod(shape[first:last]), *shape[last:])
        for first in range(len(shape))
        for last in range(first + 1, len(shape) + 1)
    }
    longer = {(*one[:place], 1, *one[place:]) for one in (*merged, shape) for place in range(len(one) + 1)}
    return {one for one in (*merged, *longer, (size,)) if len(one) <= 6}


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_reshaped_layouts_keep_every_element_in_its_place(shape: tuple[int, ...]) -> None:
    """A padded dimension of 1 was forgotten where its neighbours became one dimension."""
    accepted = 0
    for desc in _layouts(shape):
        for dims in _splits(math.prod(shape), shape):
            found = desc.reshaped(dims)
            if found is not None:
                accepted += 1
                np.testing.assert_array_equal(_offsets(found), _offsets(desc), err_msg=f"{desc.key} as {dims}")
    assert accepted > 100


@pytest.mark.parametrize("shape", SHAPES[-3:], ids=str)
def test_permuted_layouts_keep_every_element_in_its_place(shape: tuple[int, ...]) -> None:
    """For all orders of the dimensions."""
    for desc in _layouts(shape):
        for order in itertools.permutations(range(len(shape))):
            found = desc.permuted(order)
            if found is not None:
                np.testing.assert_array_equal(_offsets(found, order), _offsets(desc), err_msg=f"{desc.key} by {order}")
