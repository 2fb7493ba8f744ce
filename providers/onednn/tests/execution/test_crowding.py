"""When runs of a region take one thread because several do not pay: judged from times that are made up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ort_py as ort
from ort_py_onednn.execution import instance
from ort_py_onednn.execution.crowding import Pace
from providers.onednn.tests.models import PROVIDER, model, node

Machine = Callable[[int], tuple[float, float]]
"""What a run on so many threads takes, and for how long the calling thread works."""


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time that the judgement sees; runs move it."""
    now = [100.0]
    monkeypatch.setattr("ort_py_onednn.execution.crowding.time.perf_counter", lambda: now[0])
    return now


def _taken(
    clock: list[float],
    pace: Pace,
    machine: Machine,
    runs: int,
    cores: int = 2,
    size: int = 100,
    idle: float = 0.0,
) -> list[int]:
    """The numbers of threads of some runs, each a while after the last."""
    found = []
    for _ in range(runs):
        found.append(pace.threads(cores))
        elapsed, worked = machine(found[-1])
        clock[0] += idle + elapsed
        pace.note(found[-1], elapsed, worked, size, idle)
    return found


def _quiet(count: int) -> tuple[float, float]:
    return 0.003 / count, 0.003 / count


def _crowded(count: int) -> tuple[float, float]:
    return (0.0031, 0.003) if count == 1 else (0.007, 0.002)


def _uneven(count: int) -> tuple[float, float]:
    """The calling thread has little to do, sleeps, and all are faster for it."""
    return (0.003, 0.003) if count == 1 else (0.002, 0.0005)


def test_runs_that_wait_and_are_slower_are_followed_by_one_thread(clock: list[float]) -> None:
    """Three in a row that were off the processor for longer than a second thread saves are a suspicion, three runs on
    one thread confirm it."""
    pace = Pace()
    assert _taken(clock, pace, _crowded, 12) == [2, 2, 2, *[1] * 9]


def test_a_thread_that_sleeps_is_not_crowded(clock: list[float]) -> None:
    """Where several threads wait and are the faster all the same they stay, and are trusted for a while."""
    pace = Pace()
    assert _taken(clock, pace, _uneven, 100) == [2, 2, 2, 1, 1, 1, *[2] * 94]


def _wakened(count: int) -> tuple[float, float]:
    """Work of 0.2 ms, of which waking a thread takes half again; the calling one works all the time."""
    return (0.0002, 0.0002) if count == 1 else (0.0003, 0.0003)


def test_short_runs_that_wake_threads_are_compared_at_once(clock: list[float]) -> None:
    """Where an interpreter works between them, one thread is found to be faster after nine runs."""
    pace = Pace()
    assert _taken(clock, pace, _wakened, 27, idle=0.0004) == [*[2] * 9, *[1] * 18]


def test_short_runs_in_a_row_wake_nobody(clock: list[float]) -> None:
    """Nothing is suspicious where the other threads still wait in their loop."""
    pace = Pace()
    assert _taken(clock, pace, _wakened, 27, idle=0.00001) == [2] * 27


def test_long_runs_may_wake_threads(clock: list[float]) -> None:
    """What that takes is a small part of them."""
    pace = Pace()
    assert _taken(clock, pace, _quiet, 27, idle=0.0004) == [2] * 27


def test_short_runs_that_pay_for_waking_keep_their_threads(clock: list[float]) -> None:
    """They are compared, and then trusted for a while."""
    pace = Pace()
    found = _taken(clock, pace, lambda count: (0.0004 / count + 0.00005, 0.0002), 100, idle=0.0004)
    assert found == [*[2] * 9, *[1] * 9, *[2] * 82]


def _spinning(count: int) -> tuple[float, float]:
    """Threads that never sleep while they wait, and are slower than one."""
    return (0.003, 0.003) if count == 1 else (0.004, 0.0039)


def test_threads_that_spin_are_compared_once_the_region_has_run_for_a_while(clock: list[float]) -> None:
    """One thread is found to be faster although nothing was suspicious."""
    pace = Pace()
    found = _taken(clock, pace, _spinning, 250)
    first = found.index(1)
    assert 0.5 <= first * 0.004 <= 0.51
    assert found[first:].count(2) < 0.3 * len(found[first:])


def test_threads_that_pay_are_compared_more_and_more_rarely(clock: list[float]) -> None:
    """The comparisons take place after half a second of running and after five."""
    pace = Pace()
    found = _taken(clock, pace, _quiet, 5000)
    assert [place for place, count in enumerate(found) if count == 1] == pytest.approx(
        [333, 334, 335, 3336, 3337, 3338], abs=10
    )


def test_runs_are_compared_when_that_costs_a_twentieth(clock: list[float]) -> None:
    pace = Pace()
    assert _taken(clock, pace, lambda count: (0.04 / count, 0.04 / count), 80).index(1) >= 60


def test_long_runs_are_not_compared_without_a_suspicion(clock: list[float]) -> None:
    pace = Pace()
    assert _taken(clock, pace, lambda count: (0.05 / count, 0.05 / count), 500) == [2] * 500


def test_a_run_that_did_not_wait_is_forgiven_all(clock: list[float]) -> None:
    """Its thread worked for most of the time, so strikes before it do not count."""
    pace = Pace()
    for machine in (_crowded, _crowded, _quiet, _crowded, _crowded, _quiet):
        assert _taken(clock, pace, machine, 1) == [2]


def test_several_threads_are_back_soon_after_the_neighbour_has_gone(clock: list[float]) -> None:
    """After a tenth of a second at most where a run takes milliseconds, and it was crowded for a moment only."""
    pace = Pace()
    _taken(clock, pace, _crowded, 7)
    begun = clock[0]
    while _taken(clock, pace, _quiet, 1) == [1]:
        assert clock[0] - begun < 0.1
    assert _taken(clock, pace, _quiet, 50) == [2] * 50


def test_what_failed_tries_cost_stays_a_twentieth(clock: list[float]) -> None:
    pace = Pace()
    _taken(clock, pace, _crowded, 6)
    begun = clock[0]
    tries = _taken(clock, pace, _crowded, 2000).count(2)
    assert 0 < tries * 0.004 < 0.05 * (clock[0] - begun)


def test_the_first_run_after_a_pause_may_be_slow(clock: list[float]) -> None:
    """Threads that slept deeply and cold caches are not a sign of a busy neighbour: the next runs of a try decide."""
    pace = Pace()
    _taken(clock, pace, _crowded, 6)
    while pace.threads(2) == 1:
        _taken(clock, pace, _crowded, 1)
    assert _taken(clock, pace, _crowded, 1) == [2]
    assert _taken(clock, pace, _quiet, 50) == [2] * 50


def test_a_region_for_which_threads_do_not_pay_says_nothing_of_others(clock: list[float]) -> None:
    """Small work that wakes a thread each time is slower on two anywhere."""
    pace, other = Pace(), Pace()
    _taken(clock, pace, _crowded, 6)
    assert pace.threads(2) == 1
    assert _taken(clock, other, _quiet, 5) == [2] * 5


def test_sizes_may_change_from_run_to_run(clock: list[float]) -> None:
    """Times are compared an element: longer runs of larger inputs are not slower."""
    pace = Pace()
    sizes = [100, 200, 400, 800, 1600, 3200, 6400]
    found = []
    for size in sizes:

        def machine(count: int, factor: int = size) -> tuple[float, float]:
            elapsed, worked = _uneven(count)
            return elapsed * factor / 100, worked * factor / 100

        found += _taken(clock, pace, machine, 1, size=size)
    assert found == [2, 2, 2, 1, 1, 1, 2]


def test_many_threads_must_have_lost_more(clock: list[float]) -> None:
    """With eight, a run that was off the processor for half of its time still is faster than one thread."""
    pace = Pace()
    assert _taken(clock, pace, lambda _: (0.010, 0.005), 5, cores=8) == [8] * 5


def test_runs_of_microseconds_say_nothing(clock: list[float]) -> None:
    """Clocks of processors tick too slowly for them."""
    pace = Pace()
    assert _taken(clock, pace, lambda _: (0.00005, 0.0), 5) == [2] * 5


def _waking(count: int) -> tuple[float, float]:
    """Work of a few microseconds, for which a sleeping thread is waked."""
    return (0.00002, 0.00002) if count == 1 else (0.00005, 0.00004)


def test_runs_of_microseconds_are_compared_soon(clock: list[float]) -> None:
    """After a twentieth of a second of them. One thread is kept, but for a few runs that try again."""
    pace = Pace()
    found = _taken(clock, pace, _waking, 20_000)
    assert found.index(1) == pytest.approx(1000, abs=10)
    assert found[1000:].count(2) * 0.00003 < 0.06 * len(found[1000:]) * 0.00002


def test_runs_of_microseconds_that_threads_shorten_keep_them(clock: list[float]) -> None:
    pace = Pace()
    found = _taken(clock, pace, lambda count: (0.00004 / count, 0.00004 / count), 20_000)
    assert found.count(1) < 30


def test_one_short_run_says_nothing(clock: list[float]) -> None:
    """Of the few that try again, a single fast one may be a whim of the clock."""
    pace = Pace()
    _taken(clock, pace, _waking, 1100)
    while pace.threads(2) == 1:
        _taken(clock, pace, _waking, 1)
    assert _taken(clock, pace, lambda _: (0.00001, 0.00001), 1) == [2]
    assert _taken(clock, pace, _waking, 10) == [2, 2, *[1] * 8]


def test_several_threads_are_back_where_short_runs_became_faster_by_them(clock: list[float]) -> None:
    """As when other work between them no longer lets the threads sleep."""
    pace = Pace()
    _taken(clock, pace, _waking, 2000)
    found = _taken(clock, pace, lambda count: (0.00002 / count, 0.00002 / count), 10_000)
    assert found.count(1) < 500


@pytest.mark.parametrize("deterministic", [False, True])
def test_deterministic_sessions_keep_their_threads(monkeypatch: pytest.MonkeyPatch, deterministic: bool) -> None:
    """`use_deterministic_compute`: sums are added in an order that depends on the number of threads, so it stays."""

    monkeypatch.setattr(Pace, "threads", lambda *_: 1)
    counts: list[tuple[int, int]] = []
    planned = instance.DnnlInstance._form_for

    def noted(one: instance.DnnlInstance, *arguments: Any) -> instance._Form:
        form = planned(one, *arguments)
        counts.append((max(step.threads for step in form.plan.steps), one._threads))
        return form

    monkeypatch.setattr(instance.DnnlInstance, "_form_for", noted)
    rng = np.random.default_rng(5)
    feeds = {"x": rng.standard_normal((512, 512), np.float32)}
    data = model([node("MatMul", "x w", "y")], feeds, {"w": rng.standard_normal((512, 512), np.float32)})
    options = ort.SessionOptions()
    options.intra_op_num_threads = 2
    options.use_deterministic_compute = deterministic
    with ort.InferenceSession(data, options, providers=[PROVIDER, "CPUExecutionProvider"]) as session:
        for _ in range(2):
            session.run(None, feeds)
    assert counts
    assert all(taken == (given if deterministic else 1) for taken, given in counts)


@pytest.mark.parametrize(
    ("columns", "threads", "looked"), [(4, [2, 1, 2, 1, 2], 1), (512, [2] * 5, 1), (512, [2, 1, 1, 2, 2], 3)]
)
def test_plans_are_looked_up_where_the_number_of_threads_changes(
    monkeypatch: pytest.MonkeyPatch, columns: int, threads: list[int], looked: int
) -> None:
    """And only there; work that no threads share has one plan."""
    calls: list[int] = []
    found = instance.DnnlInstance._form_for

    def noted(one: instance.DnnlInstance, *arguments: Any) -> instance._Form:
        calls.append(1)
        return found(one, *arguments)

    monkeypatch.setattr(instance.DnnlInstance, "_form_for", noted)
    now = threads[:1]
    monkeypatch.setattr(Pace, "threads", lambda *_: now[0])
    feeds = {"x": np.ones((columns, columns), np.float32)}
    data = model([node("MatMul", "x w", "y")], feeds, {"w": np.ones((columns, columns), np.float32)})
    options = ort.SessionOptions()
    options.intra_op_num_threads = 2
    options.cost_model = "always"
    with ort.InferenceSession(data, options, providers=[PROVIDER, "CPUExecutionProvider"]) as session:
        for now[0] in threads:
            session.run(None, feeds)
    assert len(calls) == looked
