"""The process-wide pool of threads. Parked when idle, made on first use, remade after a fork.

A caller with work for more than one thread offers it to free threads and does the rest itself. Nothing ever waits for a
thread of the pool to become free, so work inside the pool may offer work too.

Its own few lines instead of `concurrent.futures`, whose locks are Python's: Ctrl-C that arrives while one is taken
would leave it taken forever. Only the pool's threads, which no signal reaches, count themselves. Comes before
`row_splitter` and `parallel`; knows neither.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import TypeAlias

import numpy as np

from ort_py.errors import ExecutionError
from ort_py.logs import lazy_logger
from ort_py.platform.forks import ProcessLock
from ort_py.platform.headroom import start_thread
from ort_py.platform.native_threads import active_runs

Offered: TypeAlias = Callable[[], Callable[[], None] | None]
"""A call for a thread of the pool. It raises nothing. Its result is called when the thread counts as free again:
to tell those who will offer it the next call."""

_logger = lazy_logger("ort_py.session")

_WAITING = 4
"""Calls for each thread that may wait at a time."""


class ThreadPool:
    """Threads that make calls. NumPy's floating-point warnings are off in them, as in a frame's context."""

    def __init__(self, threads: int) -> None:
        self._queue: SimpleQueue[Offered] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads = self._idle = 0
        for number in range(threads):
            try:
                start_thread(threading.Thread(target=self._work, name=f"ort_py_{number}", daemon=True))
            except ExecutionError as error:  # callers do what no thread takes
                _logger.warning("A pool of %d threads has %d: %s", threads, number, error.why or error)
                break
            with self._lock:
                self._threads += 1
                self._idle += 1

    def free(self) -> int:
        """Number of idle threads.

        One that was offered something and has not woken yet counts: what it will find first may be over by then, and
        if not, the next caller does its work alone.
        """
        return self._idle if self._queue.qsize() < _WAITING * self._threads else 0

    def offer(self, call: Offered, count: int) -> int:
        """Have a call made by as many threads as are free.

        Args:
            call: The call. It may come late, when a thread was taken in the same instant.
            count: The most threads that may make it.

        Returns:
            By how many it will be made.
        """
        count = min(count, self.free())
        for _ in range(count):
            self._queue.put(call)
        return max(0, count)

    def _work(self) -> None:
        np.seterr(all="ignore")
        while True:
            call = self._queue.get()
            with self._lock:
                self._idle -= 1
            active_runs.tell_thread()
            leave = call()
            del call  # a parked thread keeps nothing of the caller alive
            with self._lock:
                self._idle += 1
            if leave is not None:
                leave()
            del leave


_lock = ProcessLock()
_pools: dict[tuple[int, int], ThreadPool] = {}


def pool_of(threads: int) -> ThreadPool:
    """The pool for work on `threads` threads, the caller's included: it has one less.

    A forked child has none of its parent's threads, so pools belong to a process.
    """
    key = (os.getpid(), threads)
    found = _pools.get(key)
    if found is not None:
        return found
    with _lock.held():
        found = _pools.get(key)
        if found is None:
            found = _pools[key] = ThreadPool(threads - 1)
        return found
