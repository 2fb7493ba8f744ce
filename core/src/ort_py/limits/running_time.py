"""Who looks at the clock while a kernel runs: the run it belongs to, or the model that is loaded.

A run looks at its time between steps. A long kernel looks too, wherever it asks the engine for something: what it is
to ask stands in a context variable, so that the threads which help with a kernel ask the same. Knows no run, no budget
and no kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import TypeAlias

__all__ = ["Look", "in_looked_at_parts", "look", "looking"]

Look: TypeAlias = Callable[[], None]
"""Raises where the time is over, or the caller wants the work to end."""

_PARTS = 32
"""Parts between which a kernel looks at the clock, at most: the longest runs over its time by a thirtieth of itself."""

_current: ContextVar[Look | None] = ContextVar("ort_py_look", default=None)


@contextmanager
def looking(check: Look | None) -> Iterator[None]:
    """Make kernels that run inside the block call `check`; None for no check."""
    token = _current.set(check)
    try:
        yield
    finally:
        _current.reset(token)


def look() -> None:
    """Ask whoever is to be asked here.

    Raises:
        OrtPyError: As they raise: a `LimitError` where the time is over.
    """
    check = _current.get()
    if check is not None:
        check()


def in_looked_at_parts(rows: int, grain: int, fn: Callable[[int, int], None]) -> Callable[[int, int], None]:
    """Cut ``fn(start, stop)`` into parts with a check of the clock between them; return `fn` itself without a check.

    Args:
        rows: How many rows there are in all.
        grain: How many a part has at least.
        fn: Works on some rows.
    """
    check = _current.get()
    if check is None:
        return fn
    return partial(_parts, check, max(1, grain, rows // _PARTS), fn)


def _parts(check: Look, size: int, fn: Callable[[int, int], None], start: int, stop: int) -> None:
    while True:
        check()
        end = stop if stop - start < 2 * size else start + size
        fn(start, end)
        if end == stop:
            return
        start = end
