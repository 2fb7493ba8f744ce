"""OpenMP's threads: how many the calling thread uses, and that a forked child waits for none that it lacks.

oneDNN fixes the number when a primitive is made, and OpenMP keeps a team for each calling thread: so the number is set
in the thread that makes a primitive and in the one that runs it. A forked child has only the thread that forked, and
would wait forever for the team it remembers, unless OpenMP was paused before the fork: it then remembers none.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from typing import Any

from ort_py_onednn.binding.forks import gate
from ort_py_onednn.binding.library import Library
from ort_py_onednn.binding.room import room_for_threads

__all__ = ["guard_forks", "prepare", "threads"]

_PAUSE_SOFT = 1
_lock = threading.Lock()
_guarded = False


@contextlib.contextmanager
def threads(library: Library, count: int) -> Iterator[None]:
    """Let the calling thread use `count` threads inside the block, and restore its number afterwards.

    Raises:
        MemoryError: There is no memory for their stacks.
    """
    if not library.threaded:
        yield
        return
    prepare(library, count)
    before = library.c.omp_get_max_threads()
    library.c.omp_set_num_threads(count)
    try:
        yield
    finally:
        library.c.omp_set_num_threads(before)


_teams = threading.local()


def prepare(library: Library, count: int | None = None) -> None:
    """Make sure that the calling thread can have a team: OpenMP ends the process if it cannot start a thread.

    Args:
        library: The library.
        count: Threads of the team; as many as the calling thread uses now where it is not said.

    Raises:
        MemoryError: There is no memory for their stacks.
    """
    if not library.threaded:
        return
    wanted = int(library.c.omp_get_max_threads()) if count is None else count
    started = getattr(_teams, "count", 1)
    if wanted <= started:
        return
    if not room_for_threads(wanted - started):
        raise MemoryError(f"There is no memory for the stacks of {wanted - started} more threads of OpenMP.")
    _teams.count = wanted


def guard_forks(library: Library) -> None:
    """See to it that a forked child can make primitives and compute. Once a process.

    Where OpenMP's runtime is too old to be paused, the child computes on one thread, which needs no team.
    """
    global _guarded  # noqa: PLW0603 - handlers of forks cannot be taken back
    with _lock:
        if _guarded:
            return
        _guarded = True
    gate.guard()
    if not library.threaded or not hasattr(os, "register_at_fork"):
        return
    c: Any = library.c
    try:
        pause = c.omp_pause_resource_all
    except AttributeError:
        os.register_at_fork(after_in_child=_forbid_teams)
        return
    os.register_at_fork(before=lambda: pause(_PAUSE_SOFT))


_teams_forbidden = False


def _forbid_teams() -> None:
    global _teams_forbidden  # noqa: PLW0603 - a fact about this process
    _teams_forbidden = True


def allowed(count: int) -> int:
    """The number of threads that may be used of `count`."""
    return 1 if _teams_forbidden else count
