"""Native work that a fork waits for: locks of a library must not be held when the memory of a process is copied.

A lock that another thread holds during ``os.fork`` stays locked in the child forever. Where a library has locks of its
own, each call of it stands in ``with pause.work():``; a fork then waits until no other thread is in such a call, and
calls that begin meanwhile wait for the fork. Knows no library.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from ort_py.hooks.forked_children import tell_around_forks

__all__ = ["ForkPause"]

_STEP = 0.0005
"""Seconds between two looks of a fork that waits; also what it waits at least after the last call, in which the
library's own threads come to rest."""


class ForkPause:
    """Keeps forks and native calls apart.

    Args:
        longest: Seconds that a fork waits at most. After that it goes on, and the child may find locks that are held.
    """

    def __init__(self, longest: float = 30.0) -> None:
        self._longest = longest
        self._working: dict[int, int] = {}
        self._forking = False
        self._one = threading.RLock()
        self._done = threading.Event()
        tell_around_forks(self)

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
            self._working.pop(thread, None)

    def before_fork(self) -> None:
        """Called on the thread that forks."""
        self._one.acquire()  # one fork at a time, so that none ends the pause of another
        self._done.clear()
        self._forking = True
        own = threading.get_ident()
        end = time.monotonic() + self._longest
        busy = True
        while busy and time.monotonic() < end:
            busy = any(thread != own for thread in list(self._working))
            time.sleep(_STEP)

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
