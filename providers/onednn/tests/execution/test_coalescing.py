"""Buffers that share memory, and copies that are made."""

from __future__ import annotations

from itertools import pairwise

import pytest

from ort_py_onednn.binding import primitives
from ort_py_onednn.binding.constants import Argument, Binary, Eltwise
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.binding.primitive import Function, Primitive
from ort_py_onednn.execution.coalescing import Result, coalesced
from ort_py_onednn.execution.plan import Buffer, Place, Step
from ort_py_onednn.execution.repeat import Repeat, repeated

SRC, DST = Argument.SRC, Argument.DST
ROW = Desc.plain((16,))


def _arena(nbytes: int = ROW.nbytes) -> Buffer:
    return Buffer(Place.ARENA, nbytes)


def _zero(target: Buffer) -> Step:
    return Step(None, {DST: target}, 1, "zeroes")


def _copy(source: Buffer, target: Buffer, *, elidable: bool = True) -> Step:
    return Step(None, {SRC: source, DST: target}, 1, "a copy", elidable=elidable)


def _function(source: Buffer, target: Buffer) -> Step:
    primitive = primitives.eltwise(Function(Eltwise.TANH), ROW, ROW)
    return Step(primitive, {SRC: source, DST: target} | _scratch(primitive), 1, "a function", in_place=SRC)


def _sum(first: Buffer, second: Buffer, target: Buffer) -> Step:
    primitive = primitives.binary(Binary.ADD, ROW, ROW, ROW)
    buffers = {SRC: first, Argument.SRC_1: second, DST: target} | _scratch(primitive)
    return Step(primitive, buffers, 1, "a sum", in_place=SRC)


def _scratch(primitive: Primitive) -> dict[int, Buffer]:
    found = primitive.arguments.get(Argument.SCRATCHPAD)
    return {} if found is None else {Argument.SCRATCHPAD: _arena(found.nbytes)}


def _share(steps: list[Step], first: Buffer, second: Buffer, results: list[Result] | None = None) -> bool:
    done = coalesced(steps, results or ())
    return done.places[first] is done.places[second]


def test_a_chain_of_functions_takes_one_place() -> None:
    """Each writes over what the one before it made."""
    places = [_arena() for _ in range(4)]
    steps = [_zero(places[0]), *(_function(*pair) for pair in pairwise(places))]
    done = coalesced(steps)
    assert len({id(done.places[place]) for place in places}) == 1


def test_what_is_read_later_is_not_written_over() -> None:
    """By a step, by a result, by a later round of a loop, or be it a piece of it."""
    first, second, third = _arena(), _arena(), _arena()
    steps = [_zero(first), _function(first, second)]
    assert _share(steps, first, second)
    assert not _share([*steps, _copy(first, third, elidable=False)], first, second)
    part = Buffer(Place.ARENA, 4, whole=first, start=60)
    assert not _share([*steps, _copy(part, _arena(4), elidable=False)], first, second)
    target = Buffer(Place.OUTPUT, ROW.nbytes)
    assert not _share(steps, first, second, [Result(first, target, lambda: _copy(first, target))])
    assert not _share([_zero(first), repeated([_function(first, second)], 2, {}, "a loop")], first, second)


def test_another_argument_of_the_step_is_not_written_over() -> None:
    """The sum of a value and itself needs a place of its own."""
    first, second, third = _arena(), _arena(), _arena()
    assert _share([_zero(first), _zero(second), _sum(first, second, third)], first, third)
    assert not _share([_zero(first), _sum(first, first, third)], first, third)


def test_arrays_of_the_run_and_constants_are_not_written_over() -> None:
    for place in (Place.INPUT, Place.CONSTANT):
        given, target = Buffer(place, ROW.nbytes), _arena()
        done = coalesced([_function(given, target)])
        assert done.places[target].place is Place.ARENA
        assert done.places[target] is not given


def test_a_larger_place_is_not_kept_for_a_small_result() -> None:
    """It would live longer; a copy, which costs time, is left out all the same."""
    large, small = _arena(640), _arena()
    assert not _share([_zero(large), _function(large, small)], large, small)
    part = Buffer(Place.ARENA, ROW.nbytes, whole=large, start=64)
    done = coalesced([_zero(large), _copy(part, small), _function(small, _arena())])
    assert len(done.steps) == 2
    assert done.places[small].offset == done.places[large].offset + 64


def test_a_copy_is_made_where_its_source_is_read_later() -> None:
    """Else it is left out, and what adds to it adds to the source."""
    first, second, third = _arena(), _arena(), _arena()
    primitive = primitives.eltwise(Function(Eltwise.TANH), ROW, ROW)
    added = Step(primitive, {SRC: third, DST: second} | _scratch(primitive), 1, "adds", accumulates=True)
    steps = [_zero(first), _zero(third), _copy(first, second), added]
    done = coalesced(steps)
    assert [step.title for step in done.steps] == ["zeroes", "zeroes", "adds"]
    assert done.places[first] is done.places[second]
    late = coalesced([*steps, _copy(first, _arena(), elidable=False)])
    assert [step.title for step in late.steps] == ["zeroes", "zeroes", "a copy", "adds", "a copy"]
    assert late.places[first] is not late.places[second]


def test_within_a_round_places_are_taken_too() -> None:
    """Where each round creates what it writes over; copies of a round are left out of it."""
    first, second, third = _arena(), _arena(), _arena()
    body = [_zero(first), _function(first, second), _copy(second, third)]
    done = coalesced([repeated(body, 3, {}, "a loop")])
    assert done.places[first] is done.places[second] is done.places[third]
    (loop,) = done.steps
    assert isinstance(loop, Repeat)
    assert [step.title for step in loop.body] == ["zeroes", "a function"]


@pytest.mark.parametrize("pinned", [False, True])
def test_results_are_written_to_the_runs_arrays(pinned: bool) -> None:
    """Their buffer becomes the array, and whatever shares with it; one that pieces are cut from is copied."""
    first, second = _arena(), _arena()
    target = Buffer(Place.OUTPUT, ROW.nbytes)
    steps = [_zero(first), _function(first, second)]
    if pinned:
        steps.insert(1, _zero(Buffer(Place.ARENA, 4, whole=first, start=0)))
    done = coalesced(steps, [Result(second, target, lambda: _copy(second, target, elidable=False))])
    assert (done.places[first] is target) is not pinned
    assert len(done.steps) == len(steps) + pinned


def test_one_buffer_is_one_array() -> None:
    """A second result of the same buffer is a copy, made when all is done, and the buffer lives until then."""
    first = _arena()
    one, two = (Buffer(Place.OUTPUT, ROW.nbytes, number) for number in range(2))
    results = [Result(first, target, lambda target=target: _function(first, target)) for target in (one, two)]  # type: ignore[misc]
    done = coalesced([_zero(first)], results)
    assert done.places[first] is one
    assert [step.buffers[DST] for step in done.steps] == [one, two]
