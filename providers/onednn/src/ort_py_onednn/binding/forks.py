"""Forks wait until no thread makes primitives, so that a child never inherits a lock that none of its threads will
release.

OneDNN keeps its primitives in a cache behind a lock of its own, and this package has locks around what it makes: a fork
in the middle would copy them locked. What runs takes no lock and is not waited for. It is independent of what is made.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator

__all__ = ["ForkGate", "gate"]

_PATIENCE = 30.0
"""Seconds after which a fork happens all the same: far more than primitives for any model take."""


class ForkGate:
    """Held open by those who make something; closed for the moment of a fork.

    Args:
        patience: Seconds that a fork waits at most.
    """

    def __init__(self, patience: float = _PATIENCE) -> None:
        self._patience = patience
        self._state = threading.Condition()
        self._makers = 0
        self._forks = 0
        self._mine = threading.local()

    def guard(self) -> None:
        """Make all later forks of this process wait. On systems without fork, do nothing."""
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(
                before=self.before_fork, after_in_parent=self.after_in_parent, after_in_child=self.after_in_child
            )

    @contextlib.contextmanager
    def making(self) -> Iterator[None]:
        """No fork happens inside; where one waits, wait for it first. May be nested."""
        depth = self._depth()
        if not depth:
            with self._state:
                self._state.wait_for(lambda: not self._forks)
                self._makers += 1
        self._mine.depth = depth + 1
        try:
            yield
        finally:
            self._mine.depth = depth
            if not depth:
                with self._state:
                    self._makers -= 1
                    self._state.notify_all()

    def before_fork(self) -> None:
        """Wait for the makers, and keep the others out."""
        self._state.acquire()
        self._forks += 1
        own = bool(self._depth())  # a thread that forks while it creates something does not wait for itself
        self._state.wait_for(lambda: self._makers <= own, self._patience)

    def after_in_parent(self) -> None:
        """Let the makers in again."""
        self._forks -= 1
        self._state.notify_all()
        self._state.release()

    def after_in_child(self) -> None:
        """Only the thread that forked is left."""
        self._state = threading.Condition()
        self._makers, self._forks = int(bool(self._depth())), 0

    def _depth(self) -> int:
        return getattr(self._mine, "depth", 0)


gate = ForkGate()
"""The process's, closed by `openmp.guard_forks`."""
