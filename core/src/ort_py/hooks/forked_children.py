"""Callbacks for a forked process, called in the child before anything else runs there.

Comparing process ids, as `ProcessLock` does, notices a fork late: by then the child may have threads whose identities
are those of threads that the parent had. This is the only module that registers with the operating system; on systems
without fork it does nothing.
"""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet

__all__ = ["ForkAware", "tell_in_children"]


class ForkAware(Protocol):
    """An object that is notified after a fork."""

    def after_fork(self) -> None:
        """This is a forked child, and the thread that calls is its only one. Must not wait for anything."""


_told: WeakSet[ForkAware] = WeakSet()
_registered = False


def tell_in_children(one: ForkAware) -> None:
    """Call ``one.after_fork()`` in every child forked from now on, as long as it is there."""
    global _registered  # noqa: PLW0603 - the interpreter's list of callbacks cannot be asked nor changed
    if not _registered:
        _registered = True
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=_tell)
    _told.add(one)


def _tell() -> None:
    for one in list(_told):
        one.after_fork()
