"""A provider that was left out is tried again: by one run, after a pause, and kept where it works."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest

import ort_py
from core.tests.driving import floats
from core.tests.engine.recovery.faulty_sessions import FAULTY, HOST, expected, faulty_session
from core.tests.fallback.test_breaker import Clock
from ort_py.errors import OptionError
from ort_py.fallback.circuits import Circuits, circuits_of
from ort_py.fallback.policy import SessionState
from ort_py_kit.faults import Faults

X = floats(4, 3)


@pytest.fixture
def faults() -> Faults:
    """Those of the session below."""
    return Faults()


@pytest.fixture
def clock() -> Clock:
    """The time of the session below."""
    return Clock()


@pytest.fixture
def session(faults: Faults, clock: Clock) -> Iterator[ort_py.InferenceSession]:
    """A session whose breakers open at the first failure, for a minute."""
    with faulty_session(faults) as made:
        made.engine.recovery.circuits = Circuits(1, 60, clock)
        yield made


def run(session: ort_py.InferenceSession) -> None:
    """One run, whose result is right."""
    np.testing.assert_array_equal(session.run(None, {"x": X})[0], expected(X))


def test_it_is_used_again_where_the_trial_succeeds(
    session: ort_py.InferenceSession, faults: Faults, clock: Clock
) -> None:
    """After the pause a run tries it; then the session is as it was, on the path without any looks."""
    faults.fail()
    run(session)
    assert session.state == "degraded"
    clock.now += 59
    run(session)
    assert session.placement.counts() == {HOST: 3}
    clock.now += 1
    run(session)
    assert session.placement.counts() == {FAULTY: 3}
    assert session.state is SessionState.READY
    assert not session.engine.observed
    assert [one.action for one in session.fallback_report] == ["left out", "tried again"]


def test_a_trial_that_fails_costs_no_result(session: ort_py.InferenceSession, faults: Faults, clock: Clock) -> None:
    """The run that tried is repeated without it; the next trial is later."""
    faults.fail(math.inf)
    run(session)
    runner = session.engine.runner
    clock.now += 60
    run(session)
    assert session.placement.counts() == {HOST: 3}
    assert session.engine.runner is runner, "the program without it was made again"
    assert session.fallback_report.circuits[0].seconds == 120
    (record,) = session.fallback_report
    assert (record.action, record.count) == ("left out", 2)
    calls = faults.calls
    clock.now += 119
    run(session)
    assert faults.calls == calls


def test_a_trial_that_cannot_be_planned(
    session: ort_py.InferenceSession, faults: Faults, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A provider that fails while it is asked stays left out, and the run goes on."""
    faults.fail()
    run(session)

    def refuse(left_out: object) -> None:
        raise RuntimeError("cannot plan")

    monkeypatch.setattr(session.engine, "plan_again", refuse)
    clock.now += 60
    run(session)
    assert session.placement.counts() == {HOST: 3}
    assert session.fallback_report.circuits[0].state == "open"


def test_failures_before_the_nth_are_answered_by_running_again(
    session: ort_py.InferenceSession, faults: Faults, clock: Clock
) -> None:
    """A provider may be given more than one chance; each is on record."""
    session.engine.recovery.circuits = Circuits(3, 60, clock)
    for _ in range(2):
        faults.fail()
        run(session)
        assert session.placement.counts() == {FAULTY: 3}
        assert session.state is SessionState.READY
    (record,) = session.fallback_report
    assert (record.action, record.count) == ("run again", 2)
    faults.fail()
    run(session)
    assert session.placement.counts() == {HOST: 3}


def test_a_run_that_fails_for_good_uses_up_the_chances(
    session: ort_py.InferenceSession, faults: Faults, clock: Clock
) -> None:
    """All in one run: its chances, then the others."""
    session.engine.recovery.circuits = Circuits(3, 60, clock)
    faults.fail(math.inf)
    run(session)
    assert faults.calls == 3
    assert session.placement.counts() == {HOST: 3}


def test_no_trial_where_the_pause_is_zero(faults: Faults) -> None:
    """Config entry ``"0"``: what is left out stays left out, and runs do not look at any breaker."""
    with faulty_session(faults, entries={"session.fallback_retry_seconds": "0"}) as session:
        faults.fail()
        run(session)
        assert not session.engine.observed
        assert session.state is SessionState.DEGRADED


@pytest.mark.parametrize(
    ("entries", "reason"),
    [
        ({"session.fallback_failures": "0"}, "a whole number, 1 or more"),
        ({"session.fallback_failures": "1.5"}, "a whole number, 1 or more"),
        ({"session.fallback_retry_seconds": "-1"}, "a number of seconds, or 0 for never"),
        ({"session.fallback_retry_seconds": "soon"}, "a number of seconds, or 0 for never"),
    ],
)
def test_wrong_config_entries(entries: dict[str, str], reason: str) -> None:
    """Refused by name when the session is made."""
    with pytest.raises(OptionError, match=reason), faulty_session(Faults(), entries=entries):
        pass


def test_config_entries_are_honoured() -> None:
    """Failures and seconds arrive in the breakers."""
    circuits = circuits_of("2", "30")
    assert [circuits.of("x").failed() for _ in range(2)] == [False, True]
    assert 29 < circuits.seen()[0].seconds <= 30
