"""Whether the threads that native libraries started in this process are at rest.

It reads the task files of Linux and uses no library. Elsewhere the question has no answer.
"""

from __future__ import annotations

import os
import threading

_TASKS = "/proc/self/task"


def native_threads_rest() -> bool | None:
    """Tell whether every thread that Python does not know sleeps. None where the system does not say.

    A thread that was interrupted while it held a lock counts as runnable, so a process whose native threads all sleep
    has none in the middle of its work.
    """
    ours = {thread.native_id for thread in threading.enumerate()}
    ours.add(threading.get_native_id())
    try:
        tasks = [int(task) for task in os.listdir(_TASKS)]
    except OSError:
        return None
    return all(_sleeps(task) for task in tasks if task not in ours)


def _sleeps(task: int) -> bool:
    """Tell whether a thread sleeps or has ended."""
    try:
        # The name in parentheses may contain anything; the state follows its last closing one.
        with open(f"{_TASKS}/{task}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] in (b"S", b"X", b"Z", b"I")
    except OSError:
        return True
