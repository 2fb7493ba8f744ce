"""The lock excludes threads, is re-entrant, and does not stay locked in a forked child."""

from __future__ import annotations

import os
import threading

import pytest

from ort_py.platform.forks import ProcessLock


def test_reentrant() -> None:
    """The holder may take it again."""
    lock = ProcessLock()
    with lock.held(), lock.held():
        pass


def test_excludes_other_threads() -> None:
    """Another thread waits until it is given back."""
    lock = ProcessLock()
    order: list[str] = []

    def other() -> None:
        with lock.held():
            order.append("other")

    with lock.held():
        thread = threading.Thread(target=other)
        thread.start()
        thread.join(0.05)
        order.append("first")
    thread.join()
    assert order == ["first", "other"]


def test_another_process_gets_a_fresh_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lock held by a thread of the parent while it forked is not held in the child."""
    lock = ProcessLock()
    held, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with lock.held():
            held.set()
            leave.wait(10)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(10)
    monkeypatch.setattr(os, "getpid", lambda: -1)  # what the child sees
    with lock.held():
        pass
    leave.set()
    thread.join()
