"""Requests of a compiled model are made while none of them runs.

OpenVINO's processor plug-in makes a request by reading the graph that runs change, and holds no lock while it does. A
thread that makes one beside a run of another thread can end the process. All devices that hand work to the processor
have this, lists of devices most often. Runs are side by side as before.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["Turns"]


class Turns:
    """Keeps runs of one compiled model apart from the making of its requests.

    It is entered inside of `forks.CALLS`. A fork therefore waits until no other thread is here, and a child inherits no
    lock that is held.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition(threading.Lock())
        self._running = self._makers = 0

    def begin_run(self) -> None:
        """Wait for threads that make a request or want to, then count as running."""
        with self._changed:
            while self._makers:
                self._changed.wait()
            self._running += 1

    def end_run(self) -> None:
        """Count as running no longer."""
        with self._changed:
            self._running -= 1
            if not self._running:
                self._changed.notify_all()

    @contextmanager
    def making(self) -> Iterator[None]:
        """Wait until nothing runs; nothing starts and no other request is made for a ``with`` block."""
        with self._changed:
            self._makers += 1  # from here on no run begins, so that the wait ends
            try:
                while self._running:
                    self._changed.wait()
                yield
            finally:
                self._makers -= 1
                self._changed.notify_all()
