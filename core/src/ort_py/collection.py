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
        self._made, self._old = 0, _age(count=True)
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


class _Frozen:
    """Whether the program has frozen objects on purpose, for a fork: thawing what is ours would thaw those, too."""

    def __init__(self) -> None:
        self._noticed = False

    def __bool__(self) -> bool:
        """Ask once more only while there were none: counting many takes milliseconds."""
        self._noticed = self._noticed or gc.get_freeze_count() > 0
        return self._noticed


_frozen = _Frozen()


def _age(*, count: bool = False) -> int:
    """Let all that was made meanwhile count as old, and return how many objects there are if that is asked.

    Else the next collection of young objects, a moment later, would look at every part of a large graph, which lives as
    long as its session. `gc.get_objects` would count them, too, but it refers to each: a tuple that another thread
    makes of a generator just then could not be finished, and that thread would get a SystemError.

    Args:
        count: Whether to count them, which walks over all of them.

    Returns:
        The number of objects; 0 where it was not asked for, and where the program has frozen some.
    """
    freeze, unfreeze = getattr(gc, "freeze", None), getattr(gc, "unfreeze", None)  # CPython's
    if freeze is None or unfreeze is None or _frozen:
        return 0
    freeze()
    found = gc.get_freeze_count() if count else 0
    unfreeze()
    return found
