"""The circuit breaker: closed, open, half-open, with a clock that the test sets."""

from __future__ import annotations

import threading

from ort_py.fallback.breaker import LONGEST, BreakerState, CircuitBreaker


class Clock:
    """Seconds that pass when the test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_it_opens_at_the_nth_failure() -> None:
    """Failures before that are counted only."""
    breaker = CircuitBreaker(3, 60, Clock())
    assert [breaker.failed() for _ in range(3)] == [False, False, True]
    assert breaker.state is BreakerState.OPEN


def test_old_failures_do_not_count() -> None:
    clock = Clock()
    breaker = CircuitBreaker(2, 60, clock)
    for _ in range(5):
        assert not breaker.failed()
        clock.now += 61


def test_it_may_be_tried_after_the_pause_by_one() -> None:
    """In the half-open state, the first request is allowed and the others are refused."""
    clock = Clock()
    breaker = CircuitBreaker(1, 60, clock)
    breaker.failed()
    clock.now += 59
    assert not breaker.begin_trial()
    clock.now += 1
    assert breaker.state is BreakerState.HALF_OPEN
    assert [breaker.begin_trial() for _ in range(3)] == [True, False, False]


def test_a_trial_that_succeeds_closes_it() -> None:
    """Failures are counted from none again."""
    clock = Clock()
    breaker = CircuitBreaker(2, 60, clock)
    breaker.trip()
    clock.now += 60
    assert breaker.begin_trial()
    breaker.succeeded()
    assert breaker.state is BreakerState.CLOSED
    assert not breaker.failed()


def test_a_trial_that_fails_doubles_the_pause() -> None:
    """Up to an hour; a success begins with the first pause again."""
    clock = Clock()
    breaker = CircuitBreaker(1, 60, clock)
    breaker.failed()
    for pause in (60, 120, 240):
        clock.now += pause - 1
        assert not breaker.begin_trial()
        clock.now += 1
        assert breaker.begin_trial()
        assert breaker.failed()
    for _ in range(10):
        clock.now += LONGEST
        assert breaker.begin_trial()
        breaker.failed()
    clock.now += LONGEST
    breaker.begin_trial()
    breaker.succeeded()
    breaker.failed()
    assert breaker.as_circuit("x").seconds == 60


def test_failures_while_open_change_no_pause() -> None:
    """Runs that began before it opened fail too."""
    clock = Clock()
    breaker = CircuitBreaker(1, 60, clock)
    breaker.failed()
    clock.now += 30
    assert breaker.failed()
    assert breaker.as_circuit("x").seconds == 60


def test_an_abandoned_trial_may_be_begun_by_others() -> None:
    clock = Clock()
    breaker = CircuitBreaker(1, 60, clock)
    breaker.failed()
    clock.now += 60
    assert breaker.begin_trial()
    breaker.abandon()
    assert breaker.begin_trial()


def test_without_a_pause_there_is_no_trial() -> None:
    clock = Clock()
    breaker = CircuitBreaker(1, 0, clock)
    breaker.failed()
    clock.now += 1e9
    assert breaker.state is BreakerState.OPEN


def test_how_it_stands() -> None:
    """Name, state, failures, and the time left."""
    clock = Clock()
    breaker = CircuitBreaker(1, 60, clock)
    breaker.failed()
    clock.now += 20
    circuit = breaker.as_circuit("X")
    assert (circuit.name, circuit.state, circuit.failures, circuit.seconds) == ("X", "open", 1, 40)


def test_of_many_threads_one_may_try() -> None:
    """No two trials at a time."""
    clock = Clock()
    breaker = CircuitBreaker(1, 60, clock)
    breaker.failed()
    clock.now += 60
    allowed: list[bool] = []
    threads = [threading.Thread(target=lambda: allowed.append(breaker.begin_trial())) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(allowed) == 1
