"""Writing behind a session's back: in order, once, given up where the model is about to change."""

from __future__ import annotations

import logging
import threading

import pytest

from ort_py.cache.writing import PendingWrite, WriteQueue


def test_work_is_done_in_order() -> None:
    """On another thread, one after another; the queue can be used again."""
    queue, done = WriteQueue(), list[object]()
    for number in range(3):
        queue.add(lambda number=number: done.append((number, threading.current_thread().name)))  # type: ignore[misc]  # mypy knows no lambda with defaults
    queue.wait()
    assert done == [(number, "ort-py cache") for number in range(3)]
    queue.add(lambda: done.append("again"))
    queue.wait()
    assert done[-1] == "again"


def test_what_fails_is_logged_and_the_rest_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    """No caller waits for the result, so the error is only logged."""
    queue, done = WriteQueue(), list[str]()

    def fail() -> None:
        raise ValueError("odd")

    with caplog.at_level(logging.WARNING, "ort_py.cache"):
        queue.add(fail)
        queue.add(lambda: done.append("next"))
        queue.wait()
    assert done == ["next"]
    assert "a session was not cached" in caplog.text


def test_settling_gives_up_what_has_not_begun() -> None:
    done: list[str] = []
    pending = PendingWrite(lambda: done.append("written"))
    pending.settle()
    pending.run()
    assert done == []


def test_settling_waits_for_what_has_begun() -> None:
    """The model may change only after it was read."""
    begun, go_on, order = threading.Event(), threading.Event(), list[str]()

    def work() -> None:
        begun.set()
        go_on.wait(10)
        order.append("written")

    queue = WriteQueue()
    pending = queue.add(work)
    assert begun.wait(10)
    threading.Timer(0.05, go_on.set).start()
    pending.settle()
    order.append("changed")
    queue.wait()
    assert order == ["written", "changed"]


def test_what_does_not_fit_in_the_queue_is_dropped() -> None:
    """A program that opens a hundred models is not slowed down by writing all of them."""
    queue, begun, go_on, done = WriteQueue(), threading.Event(), threading.Event(), list[int]()

    def wait() -> None:
        begun.set()
        go_on.wait(10)

    queue.add(wait)
    assert begun.wait(10)  # it no longer takes a place in the queue
    for number in range(100):
        queue.add(lambda number=number: done.append(number))  # type: ignore[misc]  # as above
    go_on.set()
    queue.wait()
    assert 1 <= len(done) < 20
    assert done == list(range(len(done)))


def test_an_interpreter_that_ends_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """It starts no threads any more."""

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    queue = WriteQueue()
    queue.add(lambda: None)
    queue.wait()
