"""Locks, callbacks and native calls that survive `os.fork`.

A thread of the parent may hold a lock at the moment of a fork; in the child no thread would ever release it.
`ProcessLock` notices a fork by comparing process ids, which runs nothing at import. That comes too late where threads
are identified: the child may have new threads with the identities of the parent's. `notify_after_fork` therefore calls
an object in the child before anything else runs there. Where a native library has locks of its own, each call of it
stands in ``with pause.work():`` of a `ForkPause`: a fork waits until no other thread is in such a call.
The library's own threads may hold its locks for a moment after a call has returned. The fork waits for them as well,
and `ForkPause.rested` says in the child whether that succeeded.

On systems without fork nothing is registered. Plug-ins may import this module. It must not know any library.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol
from weakref import WeakSet

from ort_py.platform.thread_states import native_threads_rest as native_threads_rest  # noqa: PLC0414 - for plug-ins


class ProcessLock:
    """``with lock.held(): …``; replaced by a fresh lock in a forked child."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._lock = threading.RLock()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock for a ``with`` block."""
        if self._process != os.getpid():
            self._process = os.getpid()
            self._lock = threading.RLock()
        with self._lock:  # the object is kept for the whole block, should a fork happen inside
            yield


class ForkAware(Protocol):
    """An object that is notified after a fork."""

    def after_fork(self) -> None:
        """This is a forked child, and the thread that calls is its only one. Must not wait for anything."""


class AroundForks(ForkAware, Protocol):
    """An object that is also notified in the parent."""

    def before_fork(self) -> None:
        """The calling thread is about to fork. May wait, but not for that thread."""

    def after_fork_in_parent(self) -> None:
        """The calling thread has forked."""


_notified: WeakSet[ForkAware] = WeakSet()
_notified_around: WeakSet[AroundForks] = WeakSet()
_registered = False


def notify_after_fork(one: ForkAware) -> None:
    """Call ``one.after_fork()`` in every child forked from now on, as long as it is there."""
    _register()
    _notified.add(one)


def notify_around_fork(one: AroundForks) -> None:
    """Call its members before every fork from now on, and after it in the parent and in the child."""
    _register()
    _notified_around.add(one)
    _notified.add(one)


def _register() -> None:
    global _registered  # noqa: PLW0603 - the interpreter's list of callbacks cannot be asked nor changed
    if not _registered:
        _registered = True
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child)


def _before() -> None:
    for one in list(_notified_around):
        one.before_fork()


def _after_in_parent() -> None:
    for one in list(_notified_around):
        one.after_fork_in_parent()


def _after_in_child() -> None:
    for one in list(_notified):
        one.after_fork()


_STEP = 0.0005
"""Seconds between two looks of a fork that waits."""
_REST = 3.0
"""Seconds after the last call in which the library's own threads may still be on their way to sleep. They give way to
others many times before they do, which takes long on a busy machine."""
_UNSEEN_REST = 0.01
"""Seconds that a fork waits after the last call where the system does not say what threads do."""


class ForkPause:
    """Keeps forks and native calls apart.

    Args:
        longest: Seconds that a fork waits for calls at most. After that it continues, and the child may find locks that
            are held.

    Attributes:
        rested: False in a child that may find locks of the library held: when it was forked, a call had not ended, or
            the library's own threads were still at work. The library must not be called there.
    """

    def __init__(self, longest: float = 30.0) -> None:
        self.rested = self._child_rested = True
        self._longest = longest
        self._ended = -_REST
        self._working: dict[int, int] = {}
        self._forking = False
        self._one = threading.RLock()
        self._done = threading.Event()
        notify_around_fork(self)

    @contextmanager
    def work(self) -> Iterator[None]:
        """Call a library in a ``with`` block. A thread that forks inside of one does not wait for itself."""
        self.begin()
        try:
            yield
        finally:
            self.end()

    def begin(self) -> None:
        """Wait for a fork that has begun, then count as working."""
        thread = threading.get_ident()
        working = self._working
        working[thread] = working.get(thread, 0) + 1  # before the look, so that one of the two sees the other
        while self._forking and working[thread] == 1:
            del working[thread]
            self._done.wait(self._longest)
            working[thread] = 1

    def end(self) -> None:
        """Count as working no longer."""
        thread = threading.get_ident()
        left = self._working.get(thread, 0) - 1
        if left > 0:
            self._working[thread] = left
        else:
            self._ended = time.monotonic()
            self._working.pop(thread, None)

    def before_fork(self) -> None:
        """Called on the thread that forks."""
        self._one.acquire()  # one fork at a time, so that none ends the pause of another
        self._done.clear()
        self._forking = True
        own = threading.get_ident()
        end = time.monotonic() + self._longest
        while (busy := any(thread != own for thread in list(self._working))) and time.monotonic() < end:
            time.sleep(_STEP)
        if own in self._working:
            self._ended = time.monotonic()
        self._child_rested = self.rested and not busy and self._wait_for_rest()

    def _wait_for_rest(self) -> bool:
        """Wait for the library's own threads to sleep. Returns whether they do."""
        if time.monotonic() > self._ended + _REST:
            return True
        while (now := time.monotonic()) < self._ended + _REST:
            resting = native_threads_rest()
            if resting:
                return True
            if resting is None:
                time.sleep(max(0.0, self._ended + _UNSEEN_REST - now))
                return True
            time.sleep(_STEP)
        return False

    def after_fork_in_parent(self) -> None:
        """Called on the thread that forked."""
        self._forking = False
        self._done.set()
        self._one.release()

    def after_fork(self) -> None:
        """Called in the child, whose only thread is the one that forked."""
        own = threading.get_ident()
        self._one = threading.RLock()
        self._working = {thread: count for thread, count in self._working.items() if thread == own}
        self._forking = False
        self._done = threading.Event()
        self.rested = self._child_rested
