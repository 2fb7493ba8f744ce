"""A re-entrant lock that a forked child does not inherit in a locked state.

A thread of the parent may hold a lock at the moment of `os.fork`; in the child no thread would ever release it.
Comparing process ids costs nothing here, runs nothing at import and needs no POSIX-only call.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["ProcessLock"]


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
