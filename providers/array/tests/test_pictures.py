"""Phase-split pictures: every tap of a window is a run."""

from __future__ import annotations

import numpy as np
import pytest

from ort_py.errors import Location
from ort_py_array.pictures import PhasedPicture, padded
from ort_py_array.windows import Window


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize("rows", [(0, 3), (1, 2)])
def test_runs_hold_what_the_taps_see(stride: int, dilation: int, rows: tuple[int, int]) -> None:
    """The run of a tap, cut to the output's width, equals the padded picture's strided slice."""
    place = Window(Location(), strides=(stride,) * 2, dilations=(dilation,) * 2, pads=(1, 2, 2, 1)).placed(
        (11, 10), (3, 2)
    )
    picture = PhasedPicture(place)
    x = np.random.default_rng(0).standard_normal((2, 3, 11, 10)).astype(np.float32)
    start, stop = rows
    phases = picture.fill(x, start, stop, picture.empty(np, (2, 3), stop - start, x.dtype))
    full = np.pad(x, ((0, 0), (0, 0), (1, 9), (2, 9)))
    for tap, (phase, offsets) in enumerate(picture.taps):
        i, j = divmod(tap, 2)
        flat = phases[:, :, phase].reshape(2, 3, -1)
        run = flat[..., picture.offset(offsets) :][..., : picture.span(stop - start)]
        wanted = full[:, :, i * dilation :: stride, j * dilation :: stride][:, :, start:stop, : place.out[1]]
        for row in range(stop - start):
            np.testing.assert_array_equal(run[..., row * picture.row :][..., : place.out[1]], wanted[:, :, row])


def test_a_picture_without_padding_and_strides_is_not_copied() -> None:
    """Then the picture is its own only phase."""
    picture = PhasedPicture(Window(Location()).placed((5, 5), (3, 3)))
    x = np.zeros((1, 1, 5, 5), np.float32)
    assert picture.plain
    assert np.shares_memory(picture.fill(x, 0, 3, None), x)


def test_padded_cuts_what_no_window_reads() -> None:
    """Stride 2 over six columns reads five."""
    place = Window(Location(), strides=(2,)).placed((6,), (3,))
    x = np.arange(6.0).reshape(1, 1, 6)
    np.testing.assert_array_equal(padded(np, x, place, 0), x[..., :5])
