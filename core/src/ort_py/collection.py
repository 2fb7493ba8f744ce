"""Building a graph, or importing modules, without the garbage collector walking over them again and again.

A graph is hundreds of thousands of objects that refer to each other in circles and all of which stay. Each time a
few hundred more exist, Python's collector looks for garbage among them; that makes loading 20,000 nodes three times
slower and finds nothing.

Python collects old objects when a quarter of them are new since it last did. Objects that were made while it was off
are not in its count, so that graphs of closed sessions would stay for good. They are counted here instead, and
collected by the same rule. Plug-ins may import this module.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_LEAST = 70_000
"""Objects for which a collection is worth its time: about ten small models, or as many megabytes."""


class _Uncounted:
    """Objects that were made while collection was off, since the last collection of old objects."""

    def __init__(self) -> None:
        self._made = 0
        self._collections = -1
        self._old = 0

    def add(self, made: int) -> None:
        self._made += max(0, made)

    def collect(self) -> None:
        """Collect old objects, if a quarter of them are new."""
        collections = gc.get_stats()[-1]["collections"]
        if collections != self._collections:  # another thread has
            self._collections, self._made = collections, 0
        if self._made <= max(_LEAST, self._old // 4):
            return
        gc.collect()
        self._made, self._old = 0, len(gc.get_objects())
        self._collections = gc.get_stats()[-1]["collections"]


_uncounted = _Uncounted()


@contextmanager
def paused_collection(*, stays: bool = False) -> Iterator[None]:
    """Suspend garbage collection in the whole process inside the block.

    Threads may overlap: a block that finds it off leaves it off, and the block that switched it off switches it on
    again. So it is never off permanently and at worst on too early.

    Args:
        stays: True if what is made inside never becomes garbage, so that it is no reason for a collection.
    """
    was_on = gc.isenabled()
    if was_on and not stays:
        _uncounted.collect()
    gc.disable()
    before = gc.get_count()[0]
    try:
        yield
    finally:
        if was_on:
            if not stays:
                _uncounted.add(gc.get_count()[0] - before)
            _age()
            gc.enable()


def _age() -> None:
    """Let all that was made meanwhile count as old. Else the next collection of young objects, a moment later, would
    look at every part of a large graph, which lives as long as its session."""
    freeze, unfreeze = getattr(gc, "freeze", None), getattr(gc, "unfreeze", None)  # CPython's
    # Not where the program has frozen objects on purpose, for a fork: those would thaw.
    if freeze is not None and unfreeze is not None and not gc.get_freeze_count():
        freeze()
        unfreeze()
