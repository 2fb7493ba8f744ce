"""Tasks made of steps: every step once, nothing before what it waits for, chains whole, tiny steps not handed over."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from ort_py.planning.dependencies import Dependencies
from ort_py.planning.lanes import Arrangement, arrange


@st.composite
def dependencies(draw: st.DrawFn) -> Dependencies:
    """Any order among up to forty steps, some of them pinned and in order."""
    count = draw(st.integers(1, 40))
    waits = [draw(st.sets(st.integers(0, step - 1), max_size=3)) if step else set() for step in range(count)]
    pinned = sorted(draw(st.sets(st.integers(0, count - 1), max_size=5)))
    for before, step in pairwise(pinned):
        waits[step].add(before)
    return Dependencies(tuple(tuple(sorted(one)) for one in waits), frozenset(pinned))


@settings(derandomize=True, max_examples=300, deadline=None)
@given(dependencies(), st.integers(1, 4), st.integers(0, 50_000), st.data())
def test_tasks_respect_what_waits_for_what(order: Dependencies, lanes: int, exchange: int, data: st.DataObject) -> None:
    """Every step is in one task; what it waits for is earlier in it, or in a task that its task waits for."""
    count = len(order.waits)
    times = data.draw(st.lists(st.integers(0, 2_000_000), min_size=count, max_size=count))
    tasks = arrange(order, times, lanes, exchange).tasks
    assert sorted(step for task in tasks for step in task.steps) == list(range(count))
    place = {step: (number, index) for number, task in enumerate(tasks) for index, step in enumerate(task.steps)}
    for number, task in enumerate(tasks):
        assert all(before < number for before in task.waits)
        assert task.pinned == (not order.pinned.isdisjoint(task.steps))
        for index, step in enumerate(task.steps):
            for before in order.waits[step]:
                at, position = place[before]
                assert (at == number and position < index) or at in task.waits


def branches(length: int, time: int, lanes: int = 2, exchange: int = 40_000) -> Arrangement:
    """Two chains and a step that reads both ends."""
    waits: list[tuple[int, ...]] = [(step - 2,) if step > 1 else () for step in range(2 * length)]
    waits.append((2 * length - 2, 2 * length - 1))
    return arrange(Dependencies(tuple(waits), frozenset()), [time] * len(waits), lanes, exchange)


def test_balanced_branches_take_a_lane_each() -> None:
    """Two chains of 10 steps, 30 µs each: two tasks side by side, then the step that joins them."""
    made = branches(10, 30_000)
    assert sorted(len(task.steps) for task in made.tasks) == [1, 10, 10]
    assert made.span < 0.7 * 21 * 30_000


def test_long_tasks_are_cut() -> None:
    """So that a thread that has nothing to do may take the rest: independent steps on a lane are separate tasks."""
    tasks = arrange(Dependencies(((),) * 20, frozenset()), [100_000] * 20, 2, 0).tasks
    assert max(len(task.steps) for task in tasks) <= 6


def test_tiny_steps_stay_together() -> None:
    """Branches shorter than the time it takes to hand something over are one task."""
    (task,) = branches(10, 500).tasks
    assert len(task.steps) == 21


def test_one_lane_makes_one_after_another() -> None:
    """With one thread nothing is gained, and the sum of all is what it takes."""
    assert branches(3, 1000, lanes=1).span == 7000


def test_pinned_steps_are_on_one_lane() -> None:
    """Two pinned chains do not run side by side, however long they are."""
    waits = ((), (0,), (1,), (2,))
    made = arrange(Dependencies(waits, frozenset(range(4))), [100_000] * 4, 2, 0)
    assert all(task.pinned for task in made.tasks)
    assert made.span == 400_000


def test_no_step_no_task() -> None:
    """An empty plan has an empty arrangement."""
    assert arrange(Dependencies((), frozenset()), [], 2, 0) == Arrangement((), 0)
