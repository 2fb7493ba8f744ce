"""The threads on which runs are verified, one set a process, and how much may wait for them.

What waits is bounded in number and in bytes: a service must not slow down, or grow, because its runs are verified.
Repeating a run happens on a thread of the lowest priority. Looking for the wrong node runs steps of the session itself,
whose providers may start threads that inherit the priority of their maker and are then used by the service: so that
happens on a thread of its own, whose priority is left alone.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from ort_py.execution.run_queue import Job, RunQueue
from ort_py.platform.forks import notify_after_fork
from ort_py.platform.processors import lower_priority

MOST_WAITING = 16
"""Runs of the process that may wait for their verification."""

MOST_BYTES = 256 << 20
"""Bytes of inputs and outputs that may be held for that; a larger run is taken where nothing else waits."""


class Background:
    """Bounded room for runs to verify, and the threads that verify them."""

    def __init__(self) -> None:
        self._repeating = RunQueue(1)
        self._searching = RunQueue(1)
        self._lock = threading.Lock()
        self._waiting = 0
        self._bytes = 0
        self._own = threading.local()
        notify_after_fork(self)

    def after_fork(self) -> None:
        """In a forked child: what waits in the parent is verified there."""
        self._lock = threading.Lock()
        self._waiting = self._bytes = 0

    def reserve(self, nbytes: int) -> bool:
        """Take room for a run; False where there is none."""
        with self._lock:
            if self._waiting and (self._waiting >= MOST_WAITING or self._bytes + nbytes > MOST_BYTES):
                return False
            self._waiting += 1
            self._bytes += nbytes
            return True

    def add(self, nbytes: int) -> None:
        """Count further bytes of a run that has room already: of its outputs."""
        with self._lock:
            self._bytes += nbytes

    def release(self, nbytes: int) -> None:
        """Give the room of a run back."""
        with self._lock:
            self._waiting = max(0, self._waiting - 1)
            self._bytes = max(0, self._bytes - nbytes)

    def repeat(self, call: Callable[[], object]) -> None:
        """Make a call soon, at the lowest priority."""

        def quietly() -> None:
            if not getattr(self._own, "lowered", False):
                self._own.lowered = True
                lower_priority()
            call()

        self._repeating.submit(Job(quietly, _nothing))

    def search(self, call: Callable[[], object]) -> None:
        """Make a call soon, at the usual priority."""
        self._searching.submit(Job(call, _nothing))


def _nothing() -> None:
    """Do nothing: the verifier checks itself whether to stop."""


_background: Background | None = None


def process_background() -> Background:
    global _background  # noqa: PLW0603 - one per process, made when it is first needed
    if _background is None:
        _background = Background()
    return _background
