"""Accesses of steps: their bytes, their times, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import ort_py as ort
from ort_py_onednn.binding import primitives
from ort_py_onednn.binding.constants import Argument, Eltwise
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.binding.primitive import Function
from ort_py_onednn.execution.plan import Buffer, Place, Step
from ort_py_onednn.execution.repeat import repeated
from ort_py_onednn.execution.timeline import Timeline

SRC, DST = Argument.SRC, Argument.DST


def _arena(nbytes: int, *, carried: bool = False) -> Buffer:
    return Buffer(Place.ARENA, nbytes, carried=carried)


def _piece(whole: Buffer, start: int, nbytes: int) -> Buffer:
    return Buffer(Place.ARENA, nbytes, whole=whole, start=start)


def _zero(target: Buffer) -> Step:
    return Step(None, {DST: target}, 1, "zeroes")


def _copy(source: Buffer, target: Buffer) -> Step:
    return Step(None, {SRC: source, DST: target}, 1, "a copy")


def _function(desc: Desc, source: Buffer, target: Buffer) -> Step:
    primitive = primitives.eltwise(Function(Eltwise.TANH), desc, desc)
    buffers = {SRC: source, DST: target}
    if Argument.SCRATCHPAD in primitive.arguments:
        buffers[Argument.SCRATCHPAD] = _arena(primitive.arguments[Argument.SCRATCHPAD].nbytes)
    return Step(primitive, buffers, 1, "a function")


@pytest.mark.parametrize("dims", [(3,), (2, 5), (2, 3, 4)])
def test_the_reach_of_strides(dims: tuple[int, ...]) -> None:
    """From the first element to behind the last, whatever parts or orders are taken, as NumPy's views have it."""
    array = np.arange(np.prod([dim + 3 for dim in dims]), dtype=np.float32).reshape([dim + 3 for dim in dims])
    whole = Desc.plain(array.shape)
    found = whole.part(dims, (1,) * len(dims))
    assert found is not None
    view = array[tuple(slice(1, 1 + dim) for dim in dims)]
    assert found.reach == (int(view.min()) * 4, int(view.max() + 1) * 4)
    turned = found.permuted(tuple(reversed(range(len(dims)))))
    assert turned is not None
    assert turned.reach == found.reach
    assert whole.reach == (0, array.nbytes)


def test_the_reach_of_repeated_and_empty_data() -> None:
    """Strides of 0 read one element again; of nothing, nothing is read."""
    assert Desc.strided((4, 3), (0, 1)).reach == (0, 12)
    assert Desc.plain((0, 3)).reach == (0, 0)


def test_pieces_are_bytes_of_their_whole() -> None:
    """And what moves in a loop takes all bytes that it comes by, forwards or backwards, as long as the loop runs."""
    source, target = _arena(640), _arena(640)
    forth, back = _piece(source, 0, 64), _piece(target, 576, 64)
    line = Timeline([_zero(source), repeated([_copy(forth, back)], 10, {forth: 64, back: -64}, "a loop")])
    assert [(one.begin, one.end, one.first, one.last) for one in line.of(source)] == [(0, 640, 0, 0), (0, 640, 1, 2)]
    assert [(one.begin, one.end) for one in line.of(target)] == [(0, 640)]


def test_times_within_a_round() -> None:
    """A value that a round writes before it reads it lives within the round; one that it reads first lives as long as
    the loop.
    """
    found, made, used = _arena(64), _arena(64), _arena(64, carried=True)
    body = [_copy(found, made), _copy(made, used), _copy(used, used)]
    line = Timeline([_zero(found), repeated(body, 3, {}, "a loop")], [used])
    assert line.life(made) == (1, 2)
    assert line.life(found) == (0, 4)
    assert line.life(used) == (1, 5)


def test_a_layout_that_reaches_outside_is_refused() -> None:
    """It must stay within its buffer, and within the whole that its piece belongs to."""
    desc = Desc.plain((16,))
    with pytest.raises(ort.EPFail, match="from byte 0 to byte 64 of a place of 63 bytes"):
        Timeline([_function(desc, _arena(63), _arena(64))])
    whole = _arena(100)
    with pytest.raises(ort.EPFail, match="from byte 40 to byte 104 of a place of 100 bytes"):
        Timeline([_function(desc, _piece(whole, 40, 64), _arena(64))])


def test_a_piece_that_moves_outside_is_refused() -> None:
    """Behind the end, or in front of the begin."""
    for start, stride in ((0, 64), (576, -64)):
        whole = _arena(640)
        moves = _piece(whole, start, 64)
        Timeline([repeated([_zero(moves)], 10, {moves: stride}, "a loop")])
        with pytest.raises(ort.EPFail, match="would reach"):
            Timeline([repeated([_zero(moves)], 11, {moves: stride}, "a loop")])


def test_writing_what_was_read_is_refused() -> None:
    """Unless other bytes were read, or it is a loop's state."""
    whole, other = _arena(128), _arena(64)
    first, second = _piece(whole, 0, 64), _piece(whole, 64, 64)
    Timeline([_zero(first), _copy(first, other), _zero(second)])
    with pytest.raises(ort.EPFail, match="'zeroes' would write over"):
        Timeline([_zero(first), _copy(first, other), _zero(first)])
    with pytest.raises(ort.EPFail, match="'a function' would write over"):
        Timeline([_zero(first), _function(Desc.plain((16,)), first, first)])
    whole.carried = True
    Timeline([_zero(first), _copy(first, other), _zero(first)])


@pytest.mark.parametrize("place", [Place.INPUT, Place.CONSTANT])
def test_writing_what_is_given_is_refused(place: Place) -> None:
    """Inputs and constants must not be written to."""
    with pytest.raises(ort.EPFail, match="would write over"):
        Timeline([_zero(Buffer(place, 64))])


def test_accesses_since_a_time() -> None:
    """Whatever times are asked about, in whatever order, none that lasts until then is left out."""
    whole = _arena(64)
    timeline = Timeline([_zero(whole), *[_copy(whole, _arena(64)) for _ in range(5)]], [whole])
    for time in (0, 3, 2, 6, 1, 4):
        assert [one.first for one in timeline.since(whole, time)] == list(range(time, 7))
