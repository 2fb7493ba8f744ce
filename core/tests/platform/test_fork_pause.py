"""Forks and native calls that keep apart."""

from __future__ import annotations

import os
import threading
import time

import pytest

from ort_py.platform.forks import ForkPause

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork"),
    # What Python 3.12 and later warn of is what is tested here.
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning"),
]


def test_a_fork_waits_for_the_calls_of_other_threads() -> None:
    """The child finds no call under way, and its own calls do not wait."""
    pause = ForkPause()
    begun, inside = threading.Event(), threading.Event()
    inside.set()

    def call() -> None:
        with pause.work():
            begun.set()
            time.sleep(0.2)
            inside.clear()

    thread = threading.Thread(target=call)
    thread.start()
    begun.wait(10)
    child = os.fork()
    if not child:
        free = not inside.is_set() and not pause._working
        with pause.work():
            os._exit(0 if free else 1)
    thread.join()
    assert os.waitpid(child, 0)[1] == 0
    with pause.work():
        pass
    assert not pause._working


def test_calls_wait_for_a_fork_that_has_begun() -> None:
    pause = ForkPause()
    pause.before_fork()
    done = threading.Event()

    def call() -> None:
        with pause.work():
            done.set()

    thread = threading.Thread(target=call)
    thread.start()
    assert not done.wait(0.1)
    pause.after_fork_in_parent()
    assert done.wait(10)
    thread.join()


def test_a_thread_that_forks_inside_of_a_call_does_not_wait_for_itself() -> None:
    """A signal's handler does this. The call ends in the parent and in the child."""
    pause = ForkPause()
    with pause.work(), pause.work():
        child = os.fork()
    if not child:
        os._exit(1 if pause._working else 0)
    assert os.waitpid(child, 0)[1] == 0
    assert not pause._working


def test_a_fork_does_not_wait_for_ever() -> None:
    """After the longest wait it goes on."""
    pause = ForkPause(longest=0.05)
    begun, end = threading.Event(), threading.Event()

    def call() -> None:
        with pause.work():
            begun.set()
            end.wait(10)

    thread = threading.Thread(target=call)
    thread.start()
    begun.wait(10)
    pause.before_fork()
    pause.after_fork_in_parent()
    assert thread.is_alive()
    end.set()
    thread.join()


def test_a_child_knows_that_native_threads_were_at_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library must not be called there, nor in its own children. The parent goes on."""
    monkeypatch.setattr("ort_py.platform.forks.native_threads_rest", lambda: False)
    pause = ForkPause()
    with pause.work():
        pass
    assert not _rested_in_a_child(pause)
    assert pause.rested


@pytest.mark.parametrize("answer", [True, None])
def test_a_child_may_call_a_library_whose_threads_rest(monkeypatch: pytest.MonkeyPatch, answer: bool | None) -> None:
    """Where the system does not say it, a short wait is enough."""
    monkeypatch.setattr("ort_py.platform.forks.native_threads_rest", lambda: answer)
    pause = ForkPause()
    with pause.work():
        pass
    assert _rested_in_a_child(pause)


def test_a_library_that_was_never_called_is_at_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Native threads that work belong to somebody else."""
    monkeypatch.setattr("ort_py.platform.forks.native_threads_rest", lambda: False)
    assert _rested_in_a_child(ForkPause())


def _rested_in_a_child(pause: ForkPause) -> bool:
    child = os.fork()
    if not child:
        os._exit(0 if pause.rested else 1)
    return os.waitpid(child, 0)[1] == 0
