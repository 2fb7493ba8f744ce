"""Memory and threads that can still be had, asked before calls that end the process or wait forever without them.

BLAS libraries allocate a buffer for each thread that calls them, when it does so first. OpenBLAS ends the process if
there is no memory for it. So runs under limits ask beforehand. Where the system promises memory that it does not have,
nothing can be asked: only a limit of the address space (``RLIMIT_AS``) is looked at. It does not depend on kernels.
"""

from __future__ import annotations

import mmap
import sys
import threading

from ort_py.errors import ExecutionError

_THREAD = 16 << 20
"""Bytes for a thread: its stack, and a heap of its own. One that finds no memory in its first steps never reports
that it started, and the thread that starts it waits forever."""

BLAS_BUFFER = 40 << 20
"""Bytes of the buffer that a BLAS takes for a thread: 32 MiB in OpenBLAS's builds for x86-64, and some beside."""


def addresses_limited() -> bool:
    """Return whether the system limits this process's addresses."""
    if sys.platform == "win32":
        return False
    import resource

    return resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY


def has_headroom(nbytes: int) -> bool:
    """Return whether so many bytes of addresses can be had now; True where the process is not limited."""
    if not addresses_limited():
        return True
    try:
        mmap.mmap(-1, max(1, nbytes)).close()
    except (OSError, MemoryError):
        return False
    return True


def start_thread(thread: threading.Thread) -> None:
    """Start a thread.

    Raises:
        ExecutionError: The system has no room for another thread.
    """
    try:
        if not has_headroom(_THREAD):
            raise RuntimeError("too little memory is left for its stack")
        thread.start()
    except RuntimeError as error:
        raise ExecutionError(
            f"The thread '{thread.name}' cannot be started.",
            why=str(error),
            fix="Raise the limits of threads and of memory of this process, or use fewer threads and sessions.",
        ) from error
