"""Probes end in time, and in a record."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any

import pytest

from ort_py.contracts import Availability
from ort_py.devices import Device
from ort_py.discovery import ProviderRecord, RecordState
from ort_py.discovery.loading import describe_factory
from ort_py.discovery.probing import probe
from ort_py.errors import OptionError, PluginError

from .fakes import FakeFactory


def _loaded(available: Any) -> ProviderRecord:
    factory = FakeFactory(available=available)
    return describe_factory(ProviderRecord(factory.name, "pkg-fake", "1.0", "fake.plugin"), factory)


def test_available() -> None:
    """Devices and a remark are kept; no thread is left."""
    before = threading.active_count()
    record = probe(_loaded(Availability(True, reason="driver 5", devices=(Device("gpu", 1),))))
    assert (record.state, record.reason, record.devices) == (RecordState.AVAILABLE, "driver 5", (Device("gpu", 1),))
    assert threading.active_count() <= before  # one left by an earlier test may have ended meanwhile


def test_unavailable() -> None:
    """Reason and fix are the provider's."""
    record = probe(_loaded(Availability(False, "no device /dev/x0", "plug it in")))
    assert (record.state, record.reason, record.fix) == (RecordState.UNAVAILABLE, "no device /dev/x0", "plug it in")
    assert record.exception is None
    assert record.factory is not None


def test_unavailable_without_a_reason() -> None:
    """A provider that does not say why is called out."""
    assert probe(_loaded(Availability(False))).reason == "it gives no reason"


@pytest.mark.parametrize("error", [RuntimeError("driver says no"), SystemExit(1), KeyboardInterrupt("inside")])
def test_probe_that_raises(error: BaseException) -> None:
    """Broken, not unavailable, with the original exception."""
    record = probe(_loaded(error))
    assert record.state is RecordState.BROKEN
    assert record.exception is error
    assert record.reason == f"its probe() raised {type(error).__name__}: {error}"


def test_probe_that_hangs() -> None:
    """It is given up after the limit; the reason says so."""
    leave = threading.Event()
    start = time.perf_counter()
    record = probe(_loaded(lambda: leave.wait(30)), seconds=0.05)
    leave.set()
    assert time.perf_counter() - start < 5
    assert record.state is RecordState.BROKEN
    assert record.reason == "probe() of FakeExecutionProvider did not return within 0.05 s"
    assert isinstance(record.exception, TimeoutError)


def test_limit_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """``ORT_PY_PROBE_TIMEOUT`` counts where no limit is passed."""
    monkeypatch.setenv("ORT_PY_PROBE_TIMEOUT", "0.01")
    leave = threading.Event()
    assert "within 0.01 s" in probe(_loaded(lambda: leave.wait(30))).reason
    leave.set()
    monkeypatch.setenv("ORT_PY_PROBE_TIMEOUT", "never")
    with pytest.raises(OptionError):
        probe(_loaded(Availability(True)))


def _compute() -> Availability:
    end = time.thread_time() + 0.03
    while time.thread_time() < end:
        pass
    return Availability(True)


def _sleep() -> Availability:
    time.sleep(0.25)
    return Availability(True)


@pytest.mark.parametrize("slow", [_compute, _sleep])
def test_slow_probe_is_logged(slow: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Slower than the contract allows is in the log, and still an answer."""
    with caplog.at_level(logging.INFO):
        assert probe(_loaded(slow)).usable
    assert "probe() of FakeExecutionProvider (distribution pkg-fake 1.0) took" in caplog.text
    assert "20 ms" in caplog.text


@pytest.mark.parametrize(("seconds", "level"), [(0.03, logging.INFO), (0.15, logging.WARNING)])
def test_users_are_warned_of_very_slow_probes_only(
    seconds: float, level: int, caplog: pytest.LogCaptureFixture
) -> None:
    """A slow machine takes several times as long as the author's; a program's user can do nothing about that."""

    def work() -> Availability:
        end = time.thread_time() + seconds
        while time.thread_time() < end:
            pass
        return Availability(True)

    with caplog.at_level(logging.INFO):
        assert probe(_loaded(work)).usable
    levels = [record.levelno for record in caplog.records if "probe() of" in record.message]
    assert len(levels) == 1
    assert levels[0] >= level  # on a busy machine little work may take long enough for a warning, too


def test_waiting_on_a_busy_machine_is_not_slow(caplog: pytest.LogCaptureFixture) -> None:
    """A little time without work may be the scheduler's; nothing is logged."""

    def wait() -> Availability:
        time.sleep(0.03)
        return Availability(True)

    with caplog.at_level(logging.WARNING):
        assert probe(_loaded(wait)).usable
    assert caplog.text == ""


def test_without_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """The probe also runs if no thread can be started."""

    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert probe(_loaded(Availability(True))).usable


def test_answer_of_a_wrong_type() -> None:
    """A bare True is not an Availability."""
    record = probe(_loaded(lambda: True))
    assert record.state is RecordState.BROKEN
    assert record.reason == "its probe() returned bool instead of Availability"
    assert isinstance(record.exception, PluginError)
