"""Geometry of windows: padding, output sizes and refusals."""

from __future__ import annotations

import re

import pytest

from ort_py.errors import InvalidArgument, Location
from ort_py_array.windows import Window

WHERE = Location(node="n", op_type="Conv")


def test_explicit_pads_are_taken_before_and_after() -> None:
    """Four pads of a 2-D window are two begins, then two ends."""
    place = Window(WHERE, pads=(1, 2, 3, 4)).placed((5, 5), (3, 3))
    assert (place.begin, place.end, place.out) == ((1, 2), (3, 4), (7, 9))


@pytest.mark.parametrize(("auto_pad", "begin"), [("SAME_UPPER", 0), ("SAME_LOWER", 1)])
def test_same_puts_the_odd_padding_on_its_side(auto_pad: str, begin: int) -> None:
    """SAME_UPPER pads more after, SAME_LOWER more before."""
    place = Window(WHERE, auto_pad=auto_pad).placed((4,), (2,))
    assert (place.begin, place.out) == ((begin,), (4,))


def test_valid_ignores_pads() -> None:
    """auto_pad VALID means no padding whatever `pads` says."""
    assert Window(WHERE, pads=(1, 1), auto_pad="VALID").placed((5,), (3,)).out == (3,)


def test_ceil_mode_drops_windows_that_start_in_the_padding() -> None:
    """A last window that sees no picture does not count."""
    window = Window(WHERE, kernel=(2,), strides=(2,), pads=(0, 1), ceil_mode=True)
    assert window.placed((4,)).out == (2,)


def test_ceil_mode_keeps_a_window_larger_than_the_picture() -> None:
    """Rounding up makes room for one window where rounding down makes none."""
    assert Window(WHERE, kernel=(4,), strides=(2,), ceil_mode=True).placed((3,)).out == (1,)


def test_ceil_mode_makes_no_window_of_nothing() -> None:
    """A window over a picture without columns would start behind its end, though it is larger by less than a stride."""
    assert Window(WHERE, kernel=(1,), strides=(2,), ceil_mode=True, clipped=True).placed((0,)).out == (0,)


def test_reach_is_what_windows_read() -> None:
    """Stride 2 leaves the last column of six unread; dilation stretches the kernel."""
    assert Window(WHERE, strides=(2,)).placed((6,), (3,)).reach == (5,)
    assert Window(WHERE, dilations=(2,)).placed((6,), (3,)).reach == (6,)


@pytest.mark.parametrize(
    ("window", "kernel", "text"),
    [
        ({}, (7,), "spans 7 positions (kernel 7, dilation 1), the input has 5 + 0 + 0 = 5"),
        ({"dilations": (3,)}, (3,), "spans 7 positions (kernel 3, dilation 3)"),
        ({"strides": (1, 1)}, (3,), "strides is [1, 1], but the input has 1 spatial axes"),
        ({"pads": (1,)}, (3,), "pads is [1]"),
        ({"kernel": (2,)}, (3,), "kernel_shape is [2], but the weights' spatial shape is [3]"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_numbers(
    window: dict[str, tuple[int, ...]], kernel: tuple[int, ...], text: str
) -> None:
    """Every refusal names the attribute, the numbers and the node."""
    with pytest.raises(InvalidArgument, match=re.escape(text)) as caught:
        Window(WHERE, **window).placed((5,), kernel)  # type: ignore[arg-type]  # a table of attributes
    assert caught.value.location == WHERE


@pytest.mark.parametrize(
    ("attributes", "text"),
    [
        ({"auto_pad": "SAME"}, "auto_pad is 'SAME'"),
        ({"strides": (0,)}, "strides is [0]; every entry must be at least 1"),
        ({"dilations": (0, 1)}, "dilations is [0, 1]"),
        ({"pads": (-1, 0)}, "pads is [-1, 0]; no entry may be negative"),
    ],
)
def test_impossible_attributes_are_refused_at_once(attributes: dict[str, object], text: str) -> None:
    """They need no input to be wrong."""
    with pytest.raises(InvalidArgument, match=re.escape(text)):
        Window(WHERE, **attributes)  # type: ignore[arg-type]  # a table of attributes


@pytest.mark.parametrize(("size", "stride", "out"), [(1, 2, 1), (1, 1, 0), (0, 2, 0), (0, 1, None)], ids=str)
def test_a_clipped_window_may_reach_past_the_picture(size: int, stride: int, out: int | None) -> None:
    """By less than a stride: it sees what there is. By less than two: there is none. By more it is refused."""
    window = Window(WHERE, kernel=(2,), strides=(stride,), clipped=True)
    if out is not None:
        assert window.placed((size,)).out == (out,)
    else:
        with pytest.raises(InvalidArgument, match="larger than the padded input"):
            window.placed((size,))
