"""Pictures padded as far as their windows read."""

from __future__ import annotations

import numpy as np
import pytest

from ort_py.errors import Location
from ort_py_array.pictures import PaddedRows, padded
from ort_py_array.windows import Window


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize("rows", [(0, 3), (1, 2), (1, 3)])
def test_rows_hold_what_the_windows_see(stride: int, dilation: int, rows: tuple[int, int]) -> None:
    """Some output rows' picture equals that part of the picture padded as a whole; scratch may be larger and used."""
    place = Window(Location(), strides=(stride,) * 2, dilations=(dilation,) * 2, pads=(1, 2, 2, 1)).placed(
        (11, 10), (3, 2)
    )
    picture = PaddedRows(place)
    x = np.random.default_rng(0).standard_normal((2, 3, 11, 10)).astype(np.float32)
    full = np.pad(x, ((0, 0), (0, 0), (1, 9), (2, 9)))[..., : place.reach[1]]
    scratch = picture.empty(np, (2, 3), 3, x.dtype)
    picture.fill(x, 0, 3, scratch)
    start, stop = rows
    seen = picture.fill(x, start, stop, scratch)
    first = start * stride
    np.testing.assert_array_equal(seen, full[:, :, first : first + picture.read(stop - start)])
    assert seen.shape[2:] == (picture.read(stop - start), picture.row)


@pytest.mark.parametrize("strides", [(1, 1), (2, 2)])
def test_a_picture_without_padding_is_not_copied(strides: tuple[int, int]) -> None:
    """Not even where the last columns are read by no window."""
    picture = PaddedRows(Window(Location(), strides=strides).placed((6, 6), (3, 3)))
    x = np.zeros((1, 1, 6, 6), np.float32)
    assert picture.plain
    assert picture.empty(np, (1, 1), 2, x.dtype) is None
    assert np.shares_memory(picture.fill(x, 0, 2, None), x)


def test_padded_cuts_what_no_window_reads() -> None:
    """Stride 2 over six columns reads five."""
    place = Window(Location(), strides=(2,)).placed((6,), (3,))
    x = np.arange(6.0).reshape(1, 1, 6)
    np.testing.assert_array_equal(padded(np, x, place, 0), x[..., :5])
