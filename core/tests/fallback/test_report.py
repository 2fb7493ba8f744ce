"""The fallback report and its log: every event once, as text and as data."""

from __future__ import annotations

import json
import logging
import threading

import pytest

from ort_py.discovery import FallbackRecord
from ort_py.fallback.breaker import BreakerState, Circuit
from ort_py.fallback.report import FallbackLog, FallbackReport
from ort_py.hooks import FallbackEvent, hookimpl
from ort_py.hooks.manager import HookManager


def test_text_of_a_record() -> None:
    record = FallbackRecord("run", "X", "OSError: gone.", "conv", "CPU")
    assert str(record) == "X (node 'conv') is not used, run: OSError: gone. CPU takes over."


@pytest.mark.parametrize(
    ("record", "text"),
    [
        (FallbackRecord("run", "X", "r", action="memory freed", count=3), "memory was released, run: r. (3 times)"),
        (
            FallbackRecord("run", "X", "r", replacement="x:1", action="device changed"),
            "another device, run: r. Now: x:1.",
        ),
        (FallbackRecord("run", "", "r", action="batch split"), "The session ran in parts, run: r."),
        (FallbackRecord("run", "X", "r", action="raised"), "no other provider could take over, run: r."),
    ],
)
def test_text_of_other_actions(record: FallbackRecord, text: str) -> None:
    """Each action reads as a sentence."""
    assert str(record).endswith(text)


def test_report_as_data() -> None:
    """JSON of events and breakers; the list is a list."""
    record = FallbackRecord("run", "X", "r")
    report = FallbackReport([record], [Circuit("X", BreakerState.OPEN, 2, 12.4)])
    assert report == [record]
    told = json.loads(json.dumps(report.to_dict()))
    assert told["events"][0]["provider"] == "X"
    assert told["events"][0]["time"] == record.time
    assert told["circuits"] == [{"name": "X", "state": "open", "failures": 2, "seconds": 12.4}]
    assert str(report).splitlines()[1] == "X: open, 2 failure(s), tried again in 12 s"
    assert str(FallbackReport()) == "nothing fell back"


class Observer:
    """Records the events it receives."""

    def __init__(self) -> None:
        self.seen: list[FallbackEvent] = []

    @hookimpl
    def ort_py_fallback(self, event: FallbackEvent) -> None:
        self.seen.append(event)


@pytest.fixture
def observer() -> Observer:
    """The one of the log below."""
    return Observer()


@pytest.fixture
def log(observer: Observer) -> FallbackLog:
    """A log with an observer."""
    hooks = HookManager()
    hooks.register(observer, "observer")
    return FallbackLog(hooks, "1234")


def test_an_event_is_told_once(log: FallbackLog, observer: Observer, caplog: pytest.LogCaptureFixture) -> None:
    """The same at another time is counted, with that time."""
    with caplog.at_level(logging.INFO, "ort_py.session"):
        for moment in (1.0, 2.0, 3.0):
            log.note(FallbackRecord("run", "X", f"at {moment}", "n", "CPU", time=moment))
        log.note(FallbackRecord("run", "X", "r", "n", "CPU", "run again"))
    assert [(one.count, one.time, one.reason) for one in log.records][:1] == [(3, 3.0, "at 3.0")]
    assert len(log.records) == len(observer.seen) == len(caplog.records) == 2
    assert observer.seen[0] == FallbackEvent("1234", "run", "X", "at 1.0", "n", "CPU")


def test_events_of_creation_are_all_told(log: FallbackLog, observer: Observer) -> None:
    """Two nodes that one provider could not compile are two entries."""
    for _ in range(2):
        log.note(FallbackRecord("assignment", "X", "r"))
    assert len(log.records) == len(observer.seen) == 2


def test_of_many_threads_none_is_lost(log: FallbackLog) -> None:
    def work() -> None:
        for _ in range(100):
            log.note(FallbackRecord("run", "X", "r"))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [one.count for one in log.records] == [800]
