"""Time checks inside of long work, on behalf of the run or of the model that is being loaded.

A run checks its time between steps. A long kernel also checks it whenever it calls the engine, and a provider while it
compiles or plans a region. The check to call is in a context variable, so that the threads that help with a kernel call
the same one. This module does not depend on runs, budgets or kernels.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol


class TimeCheck(Protocol):
    """Raises if the time is over or the caller wants the work to end."""

    def __call__(self, ahead: float = 0.0) -> None:
        """Check the time.

        Args:
            ahead: Seconds that a call which follows is estimated to take, and which nothing can interrupt.
        """


_current: ContextVar[TimeCheck | None] = ContextVar("ort_py_time_check", default=None)


@contextmanager
def checking_time(check: TimeCheck | None) -> Iterator[None]:
    """Make kernels that run inside the block call `check`; None for no check."""
    token = _current.set(check)
    try:
        yield
    finally:
        _current.reset(token)


def check_time(ahead: float = 0.0) -> None:
    """Call the check that applies here, if there is one.

    Args:
        ahead: Seconds that a call which follows is estimated to take, and which nothing can interrupt.

    Raises:
        OrtPyError: As the check raises: a `LimitError` if the time is over, or would be long over after that call.
    """
    check = _current.get()
    if check is not None:
        if ahead:
            check(ahead)
        else:
            check()


def current_time_check() -> TimeCheck | None:
    """Return the check that applies here, or None where nothing limits the time.

    A region that makes many native calls asks once a run, and calls the check between them.
    """
    return _current.get()


def is_checked() -> bool:
    return _current.get() is not None
