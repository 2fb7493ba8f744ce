"""Failures while many threads run: one plan, right results, nothing that hangs or is left behind."""

from __future__ import annotations

import gc
import math
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ort_py
from core.tests.driving import floats
from core.tests.engine.recovery.faulty_sessions import FAULTY, HOST, counted_plans, expected, faulty_session
from core.tests.fallback.test_breaker import Clock
from ort_py.engine.recovery import answers
from ort_py.fallback.circuits import Circuits
from ort_py.fallback.failure import failure_of
from ort_py.fallback.policy import SessionState
from ort_py_kit.fake_device import FakeBehaviour, FakeDevice, FakeFactory
from ort_py_kit.fake_region import FakeRegion
from ort_py_kit.faults import Faults

X = floats(4, 3)


def in_threads(count: int, work: Callable[[int], None]) -> None:
    """Run a function in threads, begun together; raises what the first of them raises."""
    failures: list[BaseException] = []
    begin = threading.Barrier(count)

    def call(number: int) -> None:
        begin.wait(30)
        try:
            work(number)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=call, args=(number,), daemon=True) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "a thread hangs"
    if failures:
        raise failures[0]


class SlowRun:
    """A run of `X` on a thread of its own that is inside a step, and stays there until its result is asked for."""

    def __init__(self, session: ort_py.InferenceSession, faults: Faults) -> None:
        inside, self._go_on = threading.Event(), threading.Event()
        original = faults.before_call

        def before_call(inputs: object) -> None:
            if threading.current_thread() is self._thread:
                inside.set()
                assert self._go_on.wait(30)
            else:
                original(inputs)  # type: ignore[arg-type]  # as it is called

        faults.before_call = before_call  # type: ignore[method-assign]  # what instances call
        self._results: list[np.ndarray] = []
        self._thread = threading.Thread(target=lambda: self._results.append(session.run(None, {"x": X})[0]))
        self._thread.start()
        assert inside.wait(30)

    def result(self) -> np.ndarray:
        """Let it go on to its end."""
        self._go_on.set()
        self._thread.join(30)
        return self._results[0]


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch) -> list[FakeRegion]:
    """Regions of fake devices that were closed."""
    found: list[FakeRegion] = []

    def close(self: FakeRegion) -> None:
        found.append(self)

    monkeypatch.setattr(FakeRegion, "close", close)
    return found


@pytest.mark.parametrize("compiles", [False, True], ids=["kernels", "region"])
@pytest.mark.parametrize("after", [0, 7, 40])
def test_eight_threads_and_one_plan(monkeypatch: pytest.MonkeyPatch, compiles: bool, after: int) -> None:
    """A provider fails under all of them: the session plans once, and every result is right."""
    faults = Faults()
    with faulty_session(faults, compiles=compiles) as session:
        plans = counted_plans(session, monkeypatch)
        faults.fail(math.inf, after=after)

        def work(number: int) -> None:
            x = floats(5, 3, seed=number)
            for _ in range(20):
                np.testing.assert_array_equal(session.run(None, {"x": x})[0], expected(x))

        in_threads(8, work)
        assert plans == [{FAULTY}]
        (record,) = session.fallback_report
        assert (record.action, record.count) == ("left out", 1)
        assert len(session.engine.retired) == 0


def test_another_run_leaves_the_provider_out_while_a_failure_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run whose provider is left out by another run, between its failure and its answer, goes on without it."""
    faults = Faults()
    with faulty_session(faults) as session:
        faults.fail(math.inf)
        nested: list[object] = []

        def reading(*arguments: Any) -> Any:
            if not nested:
                nested.append(None)
                nested[0] = session.run(None, {"x": X})
            return failure_of(*arguments)

        monkeypatch.setattr(answers, "failure_of", reading)
        np.testing.assert_array_equal(session.run(None, {"x": X})[0], expected(X))
        assert [record.action for record in session.fallback_report] == ["left out"]


def test_eight_threads_and_a_provider_that_comes_and_goes() -> None:
    """Trials that fail and trials that succeed, under load: every result is right."""
    faults, clock = Faults(), Clock()
    with faulty_session(faults) as session:
        session.engine.recovery.circuits = Circuits(1, 1, clock)

        def work(number: int) -> None:
            x = floats(5, 3, seed=number)
            for turn in range(40):
                if number == 0 and turn % 5 == 0:
                    faults.fail(3 if turn % 10 else 30, after=turn)
                    clock.now += 3
                np.testing.assert_array_equal(session.run(None, {"x": x})[0], expected(x))

        in_threads(8, work)
        assert len(session.engine.retired) == 0
        assert session.state in (SessionState.READY, SessionState.DEGRADED)


def test_eight_threads_and_a_lost_device() -> None:
    """One reset, one plan for all of them."""
    faults = Faults()
    faults.resets = 1
    with faulty_session(faults) as session:
        faults.lose_device(after=30)

        def work(number: int) -> None:
            x = floats(5, 3, seed=number)
            for _ in range(20):
                np.testing.assert_array_equal(session.run(None, {"x": x})[0], expected(x))

        in_threads(8, work)
        assert faults.reset_calls == 1
        assert session.placement.counts() == {FAULTY: 3}


def test_eight_threads_short_of_memory() -> None:
    """Large and small runs at the same time, split where they must be."""
    faults = Faults()
    faults.memory_bytes = 200
    options = ort_py.RunOptions()
    options.batch_axis = 0
    with faulty_session(faults) as session:

        def work(number: int) -> None:
            x = floats(3 + 8 * number, 3, seed=number)
            for _ in range(5):
                np.testing.assert_array_equal(session.run(None, {"x": x}, options)[0], expected(x))

        in_threads(8, work)
        assert session.placement.counts() == {FAULTY: 3}


def test_the_program_that_failed_is_released(closed: list[FakeRegion]) -> None:
    """Its frames, instances, region and constants are gone while the session lives."""
    owner = FakeDevice()
    factory = FakeFactory(behaviour=FakeBehaviour(compiles=True), owner=owner)
    faults = Faults()
    with faulty_session(faults, device=factory) as session:
        session.run(None, {"x": X})
        program = weakref.ref(session.engine.assembled.program)  # type: ignore[union-attr]  # it is open
        pool = weakref.ref(session.engine.runner.pool)  # type: ignore[union-attr]  # as above
        (region,) = factory.created[0].regions
        assert region not in closed
        faults.fail()
        session.run(None, {"x": X})
        session.run(None, {"x": X})
        gc.collect()
        assert (program(), pool()) == (None, None)
        assert closed == [region]
        assert all(instance.closed for instance in region.instances)
        factory.created[0].regions.clear()  # the fakes remember what they made, for tests
        closed.clear()
        del region
        gc.collect()
        assert owner.stats.bytes_in_use == 0
        assert len(session.engine.retired) == 0


def test_a_program_is_released_when_its_last_run_has_ended(closed: list[FakeRegion]) -> None:
    """Not before: a run of another thread goes on in it to its end."""
    faults = Faults()
    factory = FakeFactory(behaviour=FakeBehaviour(compiles=True))
    with faulty_session(faults, device=factory) as session:
        slow = SlowRun(session, faults)
        faults.fail()
        np.testing.assert_array_equal(session.run(None, {"x": X})[0], expected(X))
        (region,) = factory.created[0].regions
        assert region not in closed
        assert len(session.engine.retired) == 1
        np.testing.assert_array_equal(slow.result(), expected(X))
        assert closed == [region]
        assert len(session.engine.retired) == 0


def test_closing_waits_for_runs_in_a_program_that_was_replaced() -> None:
    """Nothing is released under a run."""
    faults = Faults()
    factory = FakeFactory(behaviour=FakeBehaviour(compiles=True))
    with faulty_session(faults, device=factory) as session:
        slow = SlowRun(session, faults)
        faults.fail()
        session.run(None, {"x": X})
        closer = threading.Thread(target=session.close)
        closer.start()
        closer.join(0.2)
        assert closer.is_alive()
        np.testing.assert_array_equal(slow.result(), expected(X))
        closer.join(30)
        assert not closer.is_alive()


def test_recoveries_leave_nothing_behind() -> None:
    """A provider that is left out and tried again many times: no frame, program or array stays."""
    faults, clock = Faults(), Clock()
    with faulty_session(faults) as session:
        session.engine.recovery.circuits = Circuits(1, 1, clock)

        def cycle() -> None:
            faults.fail()
            session.run(None, {"x": X})
            assert session.placement.counts() == {HOST: 3}
            clock.now += 2
            session.run(None, {"x": X})
            assert session.placement.counts() == {FAULTY: 3}

        for _ in range(3):
            cycle()
        gc.collect()
        before = len(gc.get_objects())
        for _ in range(20):
            cycle()
        gc.collect()
        assert len(gc.get_objects()) - before < 50
        assert [one.count for one in session.fallback_report] == [23, 23]


def test_the_state_is_recovering_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread that reads the state while the session plans again sees this."""
    faults = Faults()
    with faulty_session(faults) as session:
        seen: list[str] = []
        original = session.engine.plan_again

        def plan_again(left_out: object) -> object:
            asking = threading.Thread(target=lambda: seen.append(session.state))
            asking.start()
            asking.join(30)
            return original(left_out)  # type: ignore[arg-type]  # as it is called

        monkeypatch.setattr(session.engine, "plan_again", plan_again)
        faults.fail()
        session.run(None, {"x": X})
        assert seen == ["recovering"]
        assert session.state == "degraded"
