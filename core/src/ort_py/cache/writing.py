"""Background writes to the cache: one thread writes one entry after another.

A new session must not wait for a disk. At most a few entries wait; further ones are dropped and cached the next time.
The thread is not a daemon: a program that ends meanwhile ends when its entry is complete. Does not depend on the
content.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from ort_py.logs import lazy_logger
from ort_py.platform.forks import ProcessLock

_logger = lazy_logger("ort_py.cache")

_LONGEST_QUEUE = 8


class PendingWrite:
    """One entry to be written."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._work: Callable[[], None] | None = work
        self._lock = ProcessLock()

    def run(self) -> None:
        """Write the entry, unless it was cancelled. Errors are logged, since no caller waits for the result."""
        with self._lock.held():
            work, self._work = self._work, None
            if work is None:
                return
            try:
                work()
            except Exception:  # also a mistake of ours: the session it is about works without a cache
                _logger.warning("a session was not cached", exc_info=True)

    def settle(self) -> None:
        """Return when nothing will be read any more: give up what has not begun, wait for what has."""
        with self._lock.held():
            self._work = None


class WriteQueue:
    """Entries of one process that wait to be written."""

    def __init__(self) -> None:
        self._lock = ProcessLock()
        self._waiting: deque[PendingWrite] = deque()
        self._thread: threading.Thread | None = None

    def add(self, work: Callable[[], None]) -> PendingWrite:
        """Let some work be done soon; it is dropped where too much waits, or the interpreter ends."""
        pending = PendingWrite(work)
        with self._lock.held():
            if len(self._waiting) >= _LONGEST_QUEUE:
                return pending
            self._waiting.append(pending)
            # A fork leaves the thread behind: it is not alive in the child.
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._drain, name="ort-py cache", daemon=False)
                try:
                    self._thread.start()
                except RuntimeError:  # the interpreter ends, or there are too many threads
                    self._thread = None
                    self._waiting.clear()
        return pending

    def wait(self) -> None:
        """Return when everything added so far is written."""
        while (thread := self._thread) is not None:
            thread.join()
            with self._lock.held():
                if self._thread is thread:
                    self._thread = None

    def _drain(self) -> None:
        while True:
            with self._lock.held():
                if not self._waiting:
                    # Under the lock: a later addition starts a new thread.
                    self._thread = None
                    return
                pending = self._waiting.popleft()
            pending.run()


_QUEUE = WriteQueue()


def process_queue() -> WriteQueue:
    return _QUEUE
