"""Thread pools: one for each number of threads that sessions ask for, shared by all sessions of the process.

A pool belongs to the process that made it. A forked child has none of its threads, so it forgets the pools of its
parent; `generation` tells runtimes that theirs is one of those.
"""

from __future__ import annotations

import threading
from typing import Any

from ort_py.errors import EPFail
from ort_py.platform.forks import notify_after_fork
from ort_py_xnnpack.binding._xnnpack import ffi
from ort_py_xnnpack.binding.library import Library

__all__ = ["Pools", "pools"]


class Pools:
    """The pools of this process.

    Attributes:
        generation: Number of forks between this process and the one that loaded the module.
    """

    def __init__(self) -> None:
        self.generation = 0
        self._pools: dict[int, Any] = {}
        self._lock = threading.Lock()
        notify_after_fork(self)

    def after_fork(self) -> None:
        """Called in the child: the threads of all pools are gone."""
        self.generation += 1
        self._pools = {}
        self._lock = threading.Lock()

    def of(self, library: Library, threads: int) -> Any:
        """The pool with a number of threads, the calling one included; none for one thread.

        Raises:
            EPFail: The threads cannot be started.
        """
        if threads <= 1 or library.pools is None:
            return ffi.NULL
        with self._lock:
            found = self._pools.get(threads)
            if found is None:
                found = library.pools.pthreadpool_create(threads)
                if found == ffi.NULL:
                    raise EPFail(
                        f"XNNPACK cannot start {threads - 1} threads.",
                        fix="let the session use fewer: SessionOptions.intra_op_num_threads",
                    )
                self._pools[threads] = found
            return found


pools = Pools()
"""The process's."""
