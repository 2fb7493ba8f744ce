"""`KernelContext.parallel_for`: the rows of one kernel, split over the free threads.

Rows are cut into a few more parts than there are threads, and every thread takes the next part when it has finished
one. A thread that is late, because it slept or shares its processor, takes fewer. The caller does not wait for threads
that have not started. Comes after `thread_pool`. Does not depend on kernels.
"""

from __future__ import annotations

import contextlib
import contextvars
import threading
from collections.abc import Callable
from functools import partial
from queue import Empty, SimpleQueue

from ort_py.platform.native_threads import active_runs

PARTS_A_THREAD = 2
"""Into how many parts rows are cut for each thread, where they are long enough."""


class _Splits(threading.local):
    """Splits of rows made by the calling thread.

    Attributes:
        inside: Whether it works on a part. Further splits inside a part run on this thread alone, since the others are
            busy too.
        most: The largest number of threads of a split since this was set to 1.
    """

    def __init__(self) -> None:
        self.inside = False
        self.most = 1


splits = _Splits()


class RowSplitter:
    """Splits rows with a given number of threads.

    Args:
        threads: Threads that one call may use, including the caller's; of k concurrent runs, each gets 1/k of them.
    """

    def __init__(self, threads: int) -> None:
        self.threads = threads

    def __call__(self, rows: int, grain: int, fn: Callable[[int, int], None]) -> None:
        """Call ``fn(start, stop)`` over ``range(rows)``; see the contract."""
        threads = min(active_runs.share(self.threads), rows // max(1, grain))
        if threads > 1 and not splits.inside:
            from ort_py.execution.thread_pool import pool_of

            pool = pool_of(self.threads)
            threads = min(threads, 1 + pool.free())
            if threads > 1:
                splits.most = max(splits.most, threads)
                parts = min(threads * PARTS_A_THREAD, rows // max(1, grain))
                rows_of = _Rows(fn, [rows * part // parts for part in range(parts + 1)])
                for _ in range(threads - 1):
                    pool.offer(partial(contextvars.copy_context().run, rows_of.help), 1)
                rows_of.lead()
                return
        fn(0, rows)


class _Rows:
    """The rows of one call, handed out part by part."""

    def __init__(self, fn: Callable[[int, int], None], bounds: list[int]) -> None:
        self._fn: Callable[[int, int], None] | None = fn
        self._bounds = bounds
        self._next = 0
        self._ended = False
        self._helpers = 0
        self._failure: BaseException | None = None
        # A lock of C's: entering it cannot be interrupted half-way by Ctrl-C.
        self._lock = threading.Lock()
        self._finished: SimpleQueue[None] = SimpleQueue()

    def lead(self) -> None:
        """Work on the caller's thread until everything is done; raise what a part raised."""
        splits.inside = True
        try:
            self._work()
            self._wait()
        finally:
            # Also after a failure, or Ctrl-C: parts that have not begun are dropped, and nothing may still write to the
            # caller's arrays when it goes on. A second Ctrl-C ends this wait too.
            splits.inside = False
            self._ended = True
            self._wait()
            # A thread that comes too late still holds this object, which must keep nothing of the caller
            # alive.
            self._fn = None
        failure, self._failure = self._failure, None
        if failure is not None:
            try:
                raise failure
            finally:
                del failure  # it holds this frame, which must not hold it

    def _wait(self) -> None:
        """Wait until no thread works on a part any more."""
        while self._helpers:
            with contextlib.suppress(Empty):  # a word of the end that an interruption lost is not waited for long
                self._finished.get(timeout=0.05)

    def help(self) -> Callable[[], None] | None:
        """Work on a thread of the pool, unless it comes too late."""
        with self._lock:
            if self._ended:
                return None
            self._helpers += 1
        splits.inside = True
        try:
            self._work()
        except BaseException as error:  # the caller raises it
            self._failure = error
            self._ended = True
        finally:
            splits.inside = False
        return self._leave

    def _leave(self) -> None:
        with self._lock:
            self._helpers -= 1
        self._finished.put(None)

    def _work(self) -> None:
        fn, bounds, last = self._fn, self._bounds, len(self._bounds) - 1
        while fn is not None and not self._ended:
            with self._lock:
                part = self._next
                self._next = part + 1
            if part >= last:
                return
            fn(bounds[part], bounds[part + 1])
