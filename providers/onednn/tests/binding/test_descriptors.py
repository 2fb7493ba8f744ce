"""Layouts that are made of others hold every element where the first one does."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from ort_py_onednn.binding import primitives
from ort_py_onednn.binding._dnnl import ffi
from ort_py_onednn.binding.constants import F32, Argument
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.binding.engine import engine
from ort_py_onednn.binding.remembered import forget
from ort_py_onednn.execution.packed_weights import _run_once

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


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_parts_with_fewer_dimensions_keep_every_element_in_its_place(shape: tuple[int, ...]) -> None:
    """They are made of strides and a begin, whatever the larger layout had behind the dimensions that are left."""
    accepted = 0
    for desc in (Desc.channels_last(shape), Desc.plain(shape)):
        for axis in range(len(shape)):
            sizes = [size - (place == axis and size > 1) for place, size in enumerate(shape)]
            part = desc.part(sizes, [size - left for size, left in zip(shape, sizes, strict=True)])
            assert part is not None
            for dims in _splits(math.prod(sizes), tuple(sizes)):
                found = part.reshaped(dims)
                if found is not None:
                    accepted += len(dims) < len(shape)
                    np.testing.assert_array_equal(_offsets(found), _offsets(part), err_msg=f"{part.key} as {dims}")
    assert accepted > 2


@pytest.mark.parametrize("slopes", [(1, 1, 4), (12, 1, 4), (1, 3, 4), (12, 1, 1)])
def test_nothing_stays_behind_the_dimensions_of_a_reshaped_layout(slopes: tuple[int, ...]) -> None:
    """oneDNN's reference code for PRelu read the fourth size of a layout that has three, and left its arrays."""
    rng = np.random.default_rng(3)
    x, s = (rng.standard_normal(shape).astype(np.float32) for shape in ((12, 3, 4), slopes))
    desc = Desc.channels_last((12, 3, 1, 4)).reshaped((12, 3, 4))
    assert desc is not None
    forget()  # another test may have had the same primitive made, which oneDNN remembers
    arrays = {
        Argument.SRC: np.ascontiguousarray(x.transpose(0, 2, 1)),
        Argument.WEIGHTS: np.concatenate([s.reshape(-1), np.full(4096, 777, np.float32)]),
        Argument.DST: np.zeros((12, 4, 3), np.float32),
    }
    wanted = np.where(x < 0, x * s, x).transpose(0, 2, 1)
    _run_once(primitives.prelu(desc, Desc.plain(slopes), desc), arrays)
    np.testing.assert_array_equal(arrays[Argument.DST], wanted)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_parts_keep_every_element_in_its_place(shape: tuple[int, ...]) -> None:
    """In each format, a part has the elements of the whole at their places, or it is not described at all."""
    accepted = 0
    for desc in _layouts(shape):
        places = _offsets(desc).reshape(shape)
        for axis, size in enumerate(shape):
            for first, count in ((0, 1), (size - 1, 1), (0, size // 2), (size // 2, size - size // 2)):
                if not count:
                    continue
                begin = [first if place == axis else 0 for place in range(len(shape))]
                dims = [count if place == axis else one for place, one in enumerate(shape)]
                found = desc.part(dims, begin)
                if found is None:
                    continue
                accepted += 1
                wanted = np.take(places, range(first, first + count), axis).reshape(-1)
                np.testing.assert_array_equal(_offsets(found), wanted, err_msg=f"{desc.key} {begin} {dims}")
                assert (found.reach[0], found.reach[1]) <= (int(wanted.min()) * 4, desc.nbytes)
                assert found.reach[0] >= 0
    assert accepted > 100


@pytest.mark.parametrize("dims", [(3, 1, 5), (2, 3, 1, 7), (16, 1, 8, 4), (1, 4, 1, 3)])
def test_a_primitives_plain_layout_has_the_usual_strides(dims: tuple[int, ...]) -> None:
    """Though its descriptor, or an equal one of another primitive, has others for dimensions of 1: with such strides
    oneDNN's functions of two values write nothing where the second value broadcasts."""
    usual = Desc.plain(dims)
    strides = [97 if size == 1 else stride for size, stride in zip(dims, usual.strides, strict=True)]
    made = ffi.new("md_t *")
    assert not engine().c.dnnl_memory_desc_create_with_strides(made, len(dims), list(dims), F32, strides)
    odd = Desc(made[0], dims)
    assert odd.strides == tuple(strides)
    for handle in (odd.handle, usual.handle):
        found = Desc.borrowed(handle)
        assert found is not None
        assert found.strides == usual.strides


@pytest.mark.parametrize("shape", [(2, 16, 5), (2, 24, 3, 4), (1, 8, 2, 3, 2)], ids=str)
def test_eight_channels_of_a_pixel_lie_together(shape: tuple[int, ...]) -> None:
    """Blocks of channels lie outside of pixels."""
    batch, channels, *spatial = shape
    order = (0, 1, *range(3, 3 + len(spatial)), 2)  # (batch, blocks, pixels, eight channels)
    places = np.arange(math.prod(shape)).reshape(batch, channels // 8, *spatial, 8)
    assert np.array_equal(_offsets(Desc.blocked(shape)), places.transpose(np.argsort(order)).reshape(-1))
