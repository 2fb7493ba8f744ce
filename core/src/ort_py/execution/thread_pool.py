"""The process-wide pool that splits rows of one kernel. Parked when idle, made on first use, remade after a fork."""

from __future__ import annotations

import contextvars
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait

import numpy as np

__all__ = ["RowSplitter"]

_lock = threading.Lock()
_pools: dict[tuple[int, int], ThreadPoolExecutor] = {}
_worker = threading.local()


def _prepare_worker() -> None:
    _worker.inside = True
    np.seterr(all="ignore")  # as in the frame's context: kernels run without NumPy's floating-point warnings


def _pool(threads: int) -> ThreadPoolExecutor:
    # A forked child has none of its parent's threads, so pools belong to a process.
    key = (os.getpid(), threads)
    with _lock:
        if key not in _pools:
            _pools[key] = ThreadPoolExecutor(threads, thread_name_prefix="ort_py", initializer=_prepare_worker)
        return _pools[key]


class RowSplitter:
    """`KernelContext.parallel_for` with a given number of threads.

    Args:
        threads: Threads one call may use, the caller's included.
    """

    def __init__(self, threads: int) -> None:
        self.threads = threads

    def __call__(self, rows: int, grain: int, fn: Callable[[int, int], None]) -> None:
        """Call ``fn(start, stop)`` over ``range(rows)``; see the contract."""
        parts = min(self.threads, rows // max(1, grain))
        # A part that splits again must not wait for the pool whose thread it holds.
        if parts <= 1 or getattr(_worker, "inside", False):
            fn(0, rows)
            return
        bounds = [rows * part // parts for part in range(parts + 1)]
        pool = _pool(self.threads - 1)
        # Each part in a copy of the caller's context: NumPy's warnings are off in a run.
        futures = [
            pool.submit(contextvars.copy_context().run, fn, bounds[part], bounds[part + 1]) for part in range(1, parts)
        ]
        try:
            fn(bounds[0], bounds[1])
        finally:
            wait(futures)  # nothing may still write to the caller's arrays when it goes on
        for future in futures:
            future.result()
