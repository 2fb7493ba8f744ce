"""The priority of the calling thread, lowered for work in the background.

Linux schedules each thread by a nice value of its own. Elsewhere a nice value belongs to the whole process, so nothing
is done there. The one module that asks the operating system for it.
"""

from __future__ import annotations

import os
import sys
import threading

__all__ = ["lower_priority"]

LOWEST = 19
"""The nice value of work that takes only what all others leave."""


def lower_priority() -> bool:
    """Give the calling thread the lowest priority, for good; returns whether that was possible."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), LOWEST)
    except OSError:  # a sandbox may forbid it
        return False
    return True
