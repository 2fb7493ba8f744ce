"""Steps that repeat: what moves, what stays, and how many threads they take."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ort_py_onednn.binding import primitives
from ort_py_onednn.binding.calls import CallList
from ort_py_onednn.binding.constants import Argument, Binary
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.binding.engine import engine
from ort_py_onednn.binding.openmp import threads
from ort_py_onednn.execution.coalescing import coalesced
from ort_py_onednn.execution.large_pages import aligned
from ort_py_onednn.execution.plan import Buffer, Place, Plan, Step
from ort_py_onednn.execution.repeat import repeated
from ort_py_onednn.execution.work import Memories, work_of

WIDTH, COUNT = 16, 5
ROW = Desc.plain((1, WIDTH))


def _piece(whole: Buffer, row: int) -> Buffer:
    return Buffer(Place.ARENA, ROW.nbytes, whole=whole, start=row * ROW.nbytes)


def _sum(first: Buffer, second: Buffer, count: int) -> Step:
    with threads(engine().library, count):
        made = primitives.binary(Binary.ADD, ROW, ROW, ROW)
    buffers = {Argument.SRC: first, Argument.SRC_1: second, Argument.DST: first}
    scratch = made.arguments.get(Argument.SCRATCHPAD)
    if scratch is not None:
        buffers[Argument.SCRATCHPAD] = Buffer(Place.ARENA, scratch.nbytes)
    return Step(made, buffers, count, "a sum")


class _Machine:
    """Steps with an arena, run as a frame does."""

    def __init__(self, steps: list[Step]) -> None:
        done = coalesced(steps)
        self._places = done.places
        self._arena = aligned(done.arena_bytes)
        self._arena[:] = 0
        self._memories = Memories(engine(), self._arena)
        self.work = work_of(engine(), Plan(done.steps, self._arena.nbytes, (), ()), self._memories)
        self._calls = CallList(self.work.calls, self.work.titles)

    def rows(self, buffer: Buffer) -> np.ndarray[Any, Any]:
        """Content of a buffer."""
        place = self._places[buffer]
        part = self._arena[place.offset : place.offset + place.nbytes]
        return part.view(np.float32).reshape(-1, WIDTH)

    def run(self) -> None:
        """One run, on one thread afterwards."""
        with threads(engine().library, 1):
            self._calls.run()


@pytest.mark.parametrize("counts", [(1, 1), (1, 2), (2, 1), (2, 2)])
def test_sums_of_rows(counts: tuple[int, int]) -> None:
    """A total goes from one time to the next, rows move on and the copies of the total back, and a second run begins
    where the first did; whatever the threads of each step."""
    rows, totals = (Buffer(Place.ARENA, COUNT * ROW.nbytes) for _ in range(2))
    total, row, noted = Buffer(Place.ARENA, ROW.nbytes, carried=True), _piece(rows, 0), _piece(totals, COUNT - 1)
    once, twice = _sum(total, row, counts[0]), _sum(total, row, counts[1])
    copied = Step(None, {Argument.SRC: total, Argument.DST: noted}, 1, "a copy")
    strides = {row: ROW.nbytes, noted: -ROW.nbytes}
    begun = Step(None, {Argument.DST: total}, 1, "zeroes")
    machine = _Machine([begun, repeated([once, twice, copied], COUNT, strides, "sums")])
    for seed in range(2):
        given = np.random.default_rng(seed).normal(size=(COUNT, WIDTH)).astype(np.float32)
        machine.rows(rows)[:] = given
        machine.run()
        np.testing.assert_allclose(machine.rows(totals)[::-1], 2 * given.cumsum(axis=0), rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(machine.rows(total)[0], machine.rows(totals)[0])


def test_all_of_it_is_one_step_of_the_plan() -> None:
    """Its buffers are counted once, and what each round creates shares places; it takes as many threads as the most
    of its steps."""
    first, second, third = (Buffer(Place.ARENA, 64) for _ in range(3))
    source, target = Argument.SRC, Argument.DST
    body = [Step(None, {target: first, source: second}, 1, ""), Step(None, {target: third, source: second}, 2, "")]
    found = repeated(body, COUNT, {}, "")
    assert list(found.buffers.values()) == [first, second, third]
    assert found.threads == 2
    assert coalesced([found]).arena_bytes == 2 * 64


def test_zeroes_and_copies_say_where_their_arrays_are() -> None:
    """The number of a call that fills an array of the run counts what repeats each time."""
    array, own, other = Buffer(Place.OUTPUT, 64), Buffer(Place.ARENA, 64), Buffer(Place.ARENA, 64)
    copied = Step(None, {Argument.SRC: own, Argument.DST: other}, 1, "a copy")
    filled = Step(None, {Argument.DST: array}, 1, "zeroes")
    work = _Machine([repeated([copied, copied], COUNT, {}, ""), filled]).work
    assert work.bound == [(2 * COUNT, 0, array)]
    assert work.records == 2 * COUNT + 1
