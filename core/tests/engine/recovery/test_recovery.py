"""Runs of a provider that fails: repeated by others, once, on record; and what is never answered."""

from __future__ import annotations

import json
import logging
import math

import numpy as np
import pytest

import ort_py
from core.tests.driving import floats, model_of
from core.tests.engine.recovery.faulty_sessions import FAULTY, HOST, counted_plans, expected, faulty_session
from ort_py.errors import DeviceReset, EPFail, ExecutionError, KernelInputError
from ort_py.fallback.policy import SessionState
from ort_py.hooks import FallbackEvent, hookimpl
from ort_py_kit.faults import Faults

X = floats(4, 3)


@pytest.mark.parametrize("compiles", [False, True], ids=["kernels", "region"])
@pytest.mark.parametrize("nth", [1, 2, 3, 5])
def test_a_failure_in_the_nth_call_is_answered(compiles: bool, nth: int) -> None:
    """Whichever call of a kernel or region fails: all results are right, one event is on record."""
    faults = Faults()
    with faulty_session(faults, compiles=compiles) as session:
        faults.fail(math.inf, after=nth - 1)
        for _ in range(6):
            np.testing.assert_array_equal(session.run(None, {"x": X})[0], expected(X))
        (record,) = session.fallback_report
        assert (record.kind, record.provider, record.replacement, record.action) == ("run", FAULTY, HOST, "left out")
        assert record.reason == "RuntimeError: set to fail"
        assert session.state is SessionState.DEGRADED
        assert session.placement.counts() == {HOST: 3}


def test_the_provider_is_not_called_any_more() -> None:
    """Its breaker is open: runs go past it, on the path without any looks."""
    faults = Faults()
    with faulty_session(faults) as session:
        faults.fail()
        session.run(None, {"x": X})
        calls = faults.calls
        session.run(None, {"x": X})
        assert faults.calls == calls
        assert not session.engine.observed
        (circuit,) = session.fallback_report.circuits
        assert (circuit.name, circuit.state, circuit.failures) == (FAULTY, "open", 1)


def test_feeds_are_not_written_to() -> None:
    """A run that is repeated reads what the first one read."""
    faults = Faults()
    with faulty_session(faults) as session:
        before = X.copy()
        X.flags.writeable = False
        faults.fail(after=1)
        session.run(None, {"x": X})
        np.testing.assert_array_equal(X, before)


def test_failures_in_turns() -> None:
    """Two providers fail in one run: the third runs it, both are on record with who took over."""
    faults = Faults()
    with faulty_session(faults, others=("SecondExecutionProvider", HOST)) as session:
        faults.fail(math.inf)
        second = session.engine.providers.created[1]
        with pytest.MonkeyPatch().context() as patch:
            patch.setattr(type(second), "on_run_start", _fails_for("SecondExecutionProvider"))
            session.engine.observe()
            np.testing.assert_array_equal(session.run(None, {"x": X})[0], expected(X))
        told = [(one.provider, one.replacement) for one in session.fallback_report]
        assert told == [("SecondExecutionProvider", FAULTY), (FAULTY, HOST)]
        assert session.placement.counts() == {HOST: 3}


def _fails_for(name: str) -> object:
    def on_run_start(self: object) -> None:
        if getattr(self, "name", "") == name:
            raise RuntimeError("cannot begin")

    return on_run_start


def test_a_failing_callback_is_its_providers_failure() -> None:
    """`on_run_start` that raises has its provider left out."""
    faults = Faults()
    with faulty_session(faults) as session, pytest.MonkeyPatch().context() as patch:
        patch.setattr(type(session.engine.providers.created[0]), "on_run_start", _fails_for(FAULTY), raising=False)
        session.engine.observe()
        np.testing.assert_array_equal(session.run(None, {"x": X})[0], expected(X))
        (record,) = session.fallback_report
        assert (record.provider, record.reason) == (FAULTY, "RuntimeError: cannot begin")


def test_an_explicit_list_without_cpu_raises() -> None:
    """The completing provider was not asked for; the state says so until a run succeeds, and every run tries again."""
    faults = Faults()
    with faulty_session(faults, others=()) as session:
        faults.fail(2)
        for _ in range(2):
            with pytest.raises(ExecutionError, match="set to fail"):
                session.run(None, {"x": X})
            assert session.state is SessionState.FAILED
        (record,) = session.fallback_report
        assert (record.action, record.count) == ("raised", 2)
        assert "only CPUExecutionProvider could take over, and this provider was not requested" in record.reason
        np.testing.assert_array_equal(session.run(None, {"x": X})[0], expected(X))
        assert session.state is SessionState.READY
        assert not session.engine.observed


def test_a_failure_of_the_last_provider_is_raised() -> None:
    """No other provider is left, so nothing fell back and the error is raised."""
    x, w = floats(4), floats(3)
    model = model_of(BROADCAST).SerializeToString()
    with ort_py.InferenceSession(model, providers=["CPUExecutionProvider"]) as session:
        with pytest.raises(ort_py.OrtPyError, match="broadcast"):
            session.run(None, {"x": x, "w": w})
        assert session.fallback_report == []


@pytest.mark.parametrize("strict", ["provider", "node"])
def test_strict_raises(strict: str) -> None:
    """In strict mode nothing is answered, and nothing is on record: the error says it all."""
    faults = Faults()
    with faulty_session(faults, strict=strict) as session:
        faults.fail()
        with pytest.raises(ExecutionError, match="set to fail"):
            session.run(None, {"x": X})
        assert (session.state, session.fallback_report) == ("ready", [])


def test_fallback_can_be_switched_off() -> None:
    """`disable_fallback` and `enable_fallback`, as onnxruntime has them."""
    faults = Faults()
    with faulty_session(faults) as session:
        faults.fail(2)
        session.disable_fallback()
        with pytest.raises(ExecutionError, match="set to fail"):
            session.run(None, {"x": X})
        session.enable_fallback()
        np.testing.assert_array_equal(session.run(None, {"x": X})[0], expected(X))


CALLERS = "g (float[n] x, int64[k] i) => (float[k] y) { a = Neg(x) y = Gather<axis = 0>(a, i) }"


@pytest.mark.parametrize(
    ("feed", "kind"),
    [
        ({}, ort_py.InvalidArgument),
        ({"x": X.astype(np.float64)}, ort_py.InvalidArgument),
        ({"x": X, "other": X}, ort_py.InvalidArgument),
        ({"x": X[0]}, ort_py.InvalidArgument),
    ],
    ids=["missing", "dtype", "unknown", "rank"],
)
def test_a_callers_mistake_is_no_fallback(feed: dict[str, np.ndarray], kind: type[Exception]) -> None:
    """Bad feeds are raised at once; the provider keeps its nodes, and no breaker counts."""
    with faulty_session(Faults()) as session:
        with pytest.raises(kind):
            session.run(None, feed)
        assert (session.state, session.fallback_report, session.fallback_report.circuits) == ("ready", [], ())


def test_a_kernels_refusal_is_no_fallback() -> None:
    """An error of the caller would occur on every provider."""
    faults = Faults()
    with faulty_session(faults) as session:
        faults.fail(error=lambda: ort_py.InvalidArgument("The index is out of range."))
        with pytest.raises(KernelInputError, match="out of range"):
            session.run(None, {"x": X})
        assert (session.state, session.fallback_report) == ("ready", [])


def test_an_unknown_output_is_no_fallback() -> None:
    """A wrong name is found after the run: no reason to run again."""
    faults = Faults()
    with faulty_session(faults) as session:
        with pytest.raises(ort_py.InvalidArgument, match="no output 'z'"):
            session.run(["z"], {"x": X})
        assert faults.calls == 3


BROADCAST = "g (float[n] x, float[m] w) => (float[k] y) { a = Neg(x) y = Add(a, w) }"


@pytest.fixture
def unexplained(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table of constraints has no reason for what kernels refuse."""
    monkeypatch.setattr("ort_py.constraints.single.violated", lambda *_: "")


def test_inputs_that_break_a_constraint_are_not_tried_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """No provider can add shapes that do not broadcast."""
    with faulty_session(Faults(), BROADCAST) as session:
        planned = counted_plans(session, monkeypatch)
        with pytest.raises(KernelInputError, match="sizes 3 and 4 do not broadcast"):
            session.run(None, {"x": floats(4), "w": floats(3)})
        assert planned == []
        assert session.state is SessionState.READY


@pytest.mark.usefixtures("unexplained")
def test_what_fails_everywhere_is_nobodys_failure(caplog: pytest.LogCaptureFixture) -> None:
    """Shapes that no provider can add: the plan comes back, the error says that it was tried, later runs are right."""
    x, w = floats(4), floats(3)
    with faulty_session(Faults(), BROADCAST) as session:
        for _ in range(5):
            with pytest.raises(ExecutionError, match="broadcast") as caught:
                session.run(None, {"x": x, "w": w})
        assert session.fallback_report == []
        assert session.state is SessionState.READY
        assert session.placement.counts() == {FAULTY: 2}
        np.testing.assert_array_equal(session.run(None, {"x": x, "w": x})[0], np.zeros(4, np.float32))
        assert not [one for one in caplog.records if one.levelno >= logging.WARNING]
        assert caught.value.location.provider == FAULTY


@pytest.mark.usefixtures("unexplained")
def test_what_fails_everywhere_is_planned_for_a_few_times_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """A caller who goes on and on does not make the session plan each time."""
    x, w = floats(4), floats(3)
    with faulty_session(Faults(), BROADCAST) as session:
        planned = counted_plans(session, monkeypatch)
        notes = []
        for _ in range(10):
            with pytest.raises(ExecutionError) as caught:
                session.run(None, {"x": x, "w": w})
            notes.append(getattr(caught.value, "__notes__", []))
        assert len(planned) == 3
        assert "No attempt to recover helped" in notes[0][0]
        assert notes[-1] == []


def test_the_first_error_is_raised_with_its_cause() -> None:
    """The user sees the provider's own exception."""
    faults = Faults()
    with faulty_session(faults, others=()) as session:
        faults.fail(error=lambda: OSError("the cable is out"))
        with pytest.raises(ExecutionError) as caught:
            session.run(None, {"x": X})
        assert isinstance(caught.value.__cause__, OSError)


@pytest.mark.parametrize("error", [EPFail("x"), DeviceReset("x"), NotImplementedError("x"), ZeroDivisionError("x")])
def test_whatever_a_provider_raises(error: Exception) -> None:
    """Errors of ort-py and any others are answered alike."""
    faults = Faults()
    with faulty_session(faults) as session:
        faults.fail(math.inf, error=lambda: error)
        np.testing.assert_array_equal(session.run(None, {"x": X})[0], expected(X))
        assert session.state is SessionState.DEGRADED


def test_it_is_logged_and_observed_once(caplog: pytest.LogCaptureFixture) -> None:
    """One warning and one event of the hook for each event in the report."""
    faults, seen = Faults(), []

    class Observer:
        @hookimpl
        def ort_py_fallback(self, event: FallbackEvent) -> None:
            seen.append(event)

    with faulty_session(faults) as session:
        session.engine.hooks.register(Observer(), "observer")
        try:
            faults.fail()
            for _ in range(3):
                session.run(None, {"x": X})
        finally:
            session.engine.hooks.unregister("observer")
        warnings = [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]
        assert len(warnings) == 1
        assert "FaultyExecutionProvider" in warnings[0]
        assert "set to fail" in warnings[0]
        (event,) = seen
        assert (event.kind, event.provider, event.replacement) == ("run", FAULTY, HOST)


def test_the_report_is_json() -> None:
    """Events and breakers as plain data, with the time of each."""
    faults = Faults()
    with faulty_session(faults) as session:
        faults.fail()
        session.run(None, {"x": X})
        told = json.loads(json.dumps(session.fallback_report.to_dict()))
        (event,), (circuit,) = told["events"], told["circuits"]
        assert event["action"] == "left out"
        assert event["time"] > 1.7e9
        assert circuit == {"name": FAULTY, "state": "open", "failures": 1, "seconds": circuit["seconds"]}
        assert "set to fail" in str(session.fallback_report)


def test_a_closed_session_says_so() -> None:
    faults = Faults()
    with faulty_session(faults) as session:
        faults.fail()
        session.run(None, {"x": X})
    assert (session.state, str(session.state)) == (SessionState.CLOSED, "closed")
    assert len(session.fallback_report) == 1
    with pytest.raises(ort_py.InvalidArgument, match="closed"):
        session.run(None, {"x": X})


def test_refusals_of_single_nodes_are_no_failure() -> None:
    """A provider that refuses every second node: the others run those, nothing is on record."""
    faults = Faults()
    faults.refuse_every = 2
    with faulty_session(faults) as session:
        np.testing.assert_array_equal(session.run(None, {"x": X})[0], expected(X))
        assert session.placement.counts() == {FAULTY: 2, HOST: 1}
        assert session.fallback_report == []
