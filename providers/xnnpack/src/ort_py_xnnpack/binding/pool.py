"""Thread pools: one for each number of threads that sessions ask for, shared by all sessions of the process.

Where the library does not let pools be made, as on macOS, there is one, which ExecuTorch makes. It has the threads that
the first session asks for, of those that want several. Others use it if they may have as many, or else no pool.

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
        self._shared = 0
        self._lock = threading.Lock()
        notify_after_fork(self)

    def after_fork(self) -> None:
        """Called in the child: the threads of all pools are gone."""
        self.generation += 1
        self._pools, self._shared = {}, 0
        self._lock = threading.Lock()

    def of(self, library: Library, threads: int) -> Any:
        """The pool with a number of threads, the calling one included; none for one thread.

        Raises:
            EPFail: The threads cannot be started.
        """
        if threads <= 1:
            return ffi.NULL
        with self._lock:
            if not library.makes_pools:
                return self._executorchs(library.pools, threads)
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

    def _executorchs(self, functions: Any, threads: int) -> Any:
        """The one pool, or none for those that may not use all its threads."""
        if not self._shared:
            pool = functions._ZN10executorch9extension10threadpool14get_threadpoolEv()
            functions._ZN10executorch9extension10threadpool10ThreadPool24_unsafe_reset_threadpoolEj(pool, threads)
            self._shared = threads
        if threads < self._shared:
            return ffi.NULL
        return functions._ZN10executorch9extension10threadpool15get_pthreadpoolEv()


pools = Pools()
"""The process's."""
