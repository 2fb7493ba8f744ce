"""When runs take one thread because somebody else has the processors: judged from times that are made up."""

from __future__ import annotations

import pytest

from ort_py_onednn.execution.crowding import Crowding


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time that the judgement sees; tests move it."""
    now = [100.0]
    monkeypatch.setattr("ort_py_onednn.execution.crowding.time.perf_counter", lambda: now[0])
    return now


def test_runs_that_waited_are_followed_by_one_thread(clock: list[float]) -> None:
    """Three in a row that were off the processor for longer than a second thread saves; two are not enough."""
    judge = Crowding()
    for _ in range(2):
        judge.note(0.010, 0.004, 2)
    assert judge.threads(2) == 2
    judge.note(0.010, 0.004, 2)
    assert judge.threads(2) == 1
    clock[0] += 1.0
    assert judge.threads(2) == 2


def test_a_run_that_did_not_wait_is_forgiven_all(clock: list[float]) -> None:
    """Its thread worked for most of the time, so strikes before it do not count."""
    judge = Crowding()
    for _ in range(2):
        judge.note(0.010, 0.004, 2)
    judge.note(0.006, 0.006, 2)
    for _ in range(2):
        judge.note(0.010, 0.004, 2)
    assert judge.threads(2) == 2


def test_the_pause_grows_while_nothing_changes(clock: list[float]) -> None:
    """A quarter of a second, then twice as long for each try that fails, at most four seconds; a good one ends it."""
    judge = Crowding()
    for _ in range(3):
        judge.note(0.010, 0.001, 2)
    pauses = []
    for _ in range(6):
        begun = clock[0]
        while judge.threads(2) == 1:
            clock[0] += 0.05
        pauses.append(clock[0] - begun)
        judge.note(0.010, 0.001, 2)
    assert pauses == pytest.approx([0.25, 0.5, 1.0, 2.0, 4.0, 4.0], abs=0.06)
    clock[0] += 5.0
    judge.note(0.010, 0.010, 2)
    judge.note(0.010, 0.001, 2)
    assert judge.threads(2) == 2


def test_many_threads_must_have_lost_more(clock: list[float]) -> None:
    """With eight, a run that was off the processor for half of its time still is faster than one thread."""
    judge = Crowding()
    for _ in range(5):
        judge.note(0.010, 0.005, 8)
    assert judge.threads(8) == 8


def test_runs_of_microseconds_say_nothing(clock: list[float]) -> None:
    """Clocks of processors tick too slowly for them."""
    judge = Crowding()
    for _ in range(5):
        judge.note(0.00005, 0.0, 2)
    assert judge.threads(2) == 2
