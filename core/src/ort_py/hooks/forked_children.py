"""Callbacks for a forked process, called in the child before anything else runs there.

Comparing process ids, as `ProcessLock` does, notices a fork late: by then the child may have threads whose identities
are those of threads that the parent had. This is the only module that registers with the operating system; on systems
without fork it does nothing.
"""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet

__all__ = ["AroundForks", "ForkAware", "tell_around_forks", "tell_in_children"]


class ForkAware(Protocol):
    """An object that is notified after a fork."""

    def after_fork(self) -> None:
        """This is a forked child, and the thread that calls is its only one. Must not wait for anything."""


class AroundForks(ForkAware, Protocol):
    """An object that is also notified in the parent."""

    def before_fork(self) -> None:
        """The calling thread is about to fork. May wait, but not for that thread."""

    def after_fork_in_parent(self) -> None:
        """The calling thread has forked."""


_told: WeakSet[ForkAware] = WeakSet()
_told_around: WeakSet[AroundForks] = WeakSet()
_registered = False


def tell_in_children(one: ForkAware) -> None:
    """Call ``one.after_fork()`` in every child forked from now on, as long as it is there."""
    _register()
    _told.add(one)


def tell_around_forks(one: AroundForks) -> None:
    """Call its members before every fork from now on, and after it in the parent and in the child."""
    _register()
    _told_around.add(one)
    _told.add(one)


def _register() -> None:
    global _registered  # noqa: PLW0603 - the interpreter's list of callbacks cannot be asked nor changed
    if not _registered:
        _registered = True
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_tell)


def _before() -> None:
    for one in list(_told_around):
        one.before_fork()


def _after_in_parent() -> None:
    for one in list(_told_around):
        one.after_fork_in_parent()


def _tell() -> None:
    for one in list(_told):
        one.after_fork()
