"""Calling a plug-in's code so that whatever it raises stays its own problem.

Comes before `manager` and before `discovery`. It is independent of hooks or providers.

A guard catches `BaseException`, not `Exception`: a plug-in that calls ``sys.exit()`` at import, or a Rust extension
that panics (PyO3 derives that from `BaseException`), is as broken as one that raises `ImportError` or, for a missing
shared library, `OSError`. Only the user's Ctrl-C passes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ort_py.lazy_dataclass import dataclass

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Raised:
    """The exception that ended a guarded call."""

    error: BaseException

    def __str__(self) -> str:
        return describe(self.error)


def guarded(call: Callable[[], T]) -> T | Raised:
    """The value of ``call()``, or the `Raised` it ended in.

    Raises:
        KeyboardInterrupt: The user interrupted.
    """
    try:
        return call()
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return Raised(error)


def describe(error: BaseException) -> str:
    """``Type: text`` of an exception; also where making the text raises, as plug-ins' own classes may."""
    try:
        text = str(error)
    except Exception as problem:
        text = f"(its text raised {type(problem).__name__})"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
