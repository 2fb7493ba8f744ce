"""Building a graph without the garbage collector walking over it again and again.

A graph is hundreds of thousands of objects that refer to each other in circles and all of which stay. Each time a
few hundred more exist, Python's collector looks for garbage among them; that makes loading 20,000 nodes three times
slower and finds nothing.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["paused_collection"]


@contextmanager
def paused_collection() -> Iterator[None]:
    """Suspend garbage collection in the whole process inside the block.

    Threads may overlap: a block that finds it off leaves it off, and the block that switched it off switches it on
    again. So it is never off permanently and at worst on too early.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            _age()
            gc.enable()


def _age() -> None:
    """Let all that was made meanwhile count as old. Else the next collection of young objects, a moment later, would
    look at every part of a large graph, which lives as long as its session."""
    freeze, unfreeze = getattr(gc, "freeze", None), getattr(gc, "unfreeze", None)  # CPython's
    # Not where somebody has frozen objects on purpose, for a fork: those would thaw.
    if freeze is not None and unfreeze is not None and not gc.get_freeze_count():
        freeze()
        unfreeze()
