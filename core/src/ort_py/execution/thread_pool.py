"""The process-wide pool that splits rows of one kernel. Parked when idle, made on first use, remade after a fork.

Its own few lines instead of `concurrent.futures`, whose locks are Python's: Ctrl-C that arrives while one is taken
would leave it taken for ever. What is used here is atomic: `SimpleQueue`, and `append` to a list.
"""

from __future__ import annotations

import contextlib
import contextvars
import os
import threading
from collections.abc import Callable
from functools import partial
from queue import Empty, SimpleQueue
from typing import TypeAlias

import numpy as np

from ort_py.execution.native_threads import active_runs
from ort_py.hooks.process_lock import ProcessLock

__all__ = ["RowSplitter"]

_Queue: TypeAlias = "SimpleQueue[_Part]"

_lock = ProcessLock()
_queues: dict[tuple[int, int], _Queue] = {}
_worker = threading.local()


def _work(queue: _Queue) -> None:
    _worker.inside = True
    np.seterr(all="ignore")  # as in the frame's context: kernels run without NumPy's floating-point warnings
    while True:
        part = queue.get()
        part()
        del part  # a parked thread keeps nothing of the caller alive


def _queue(threads: int) -> _Queue:
    """The queue of the pool with this many threads."""
    # A forked child has none of its parent's threads, so pools belong to a process.
    key = (os.getpid(), threads)
    found = _queues.get(key)
    if found is not None:
        return found
    with _lock.held():
        found = _queues.get(key)
        if found is None:
            found = SimpleQueue()
            for number in range(threads):
                threading.Thread(target=_work, args=(found,), name=f"ort_py_{number}", daemon=True).start()
            _queues[key] = found
        return found


class _Part:
    """Rows for one thread, in a copy of the caller's context: NumPy's warnings are off in a run.

    Attributes:
        abandoned: Set by the caller: do nothing.
        ended: Set when nothing of it runs any more, or ever will.
        failure: What it raised.
    """

    __slots__ = ("_call", "_finished", "abandoned", "ended", "failure")

    def __init__(self, call: Callable[[], None], finished: SimpleQueue[None]) -> None:
        self._call: Callable[[], None] | None = call
        self._finished = finished
        self.abandoned = False
        self.ended = False
        self.failure: BaseException | None = None

    def __call__(self) -> None:
        call, self._call = self._call, None
        try:
            if call is not None and not self.abandoned:
                call()
        except BaseException as error:  # the caller raises it
            self.failure = error
        finally:
            del call
            self.ended = True
            self._finished.put(None)


def _wait(parts: list[_Part], finished: SimpleQueue[None]) -> None:
    """Until every part has ended. Can be interrupted, and called again: what counts is what the parts say."""
    for part in parts:
        while not part.ended:
            with contextlib.suppress(Empty):  # a word of the end that an interruption lost is not waited for long
                finished.get(timeout=0.05)


class RowSplitter:
    """`KernelContext.parallel_for` with a given number of threads.

    Args:
        threads: Threads one call may use, the caller's included; of k runs at a time each gets its k-th part.
    """

    def __init__(self, threads: int) -> None:
        self.threads = threads

    def __call__(self, rows: int, grain: int, fn: Callable[[int, int], None]) -> None:
        """Call ``fn(start, stop)`` over ``range(rows)``; see the contract."""
        parts = min(active_runs.share(self.threads), rows // max(1, grain))
        # A part that splits again must not wait for the pool whose thread it holds.
        if parts <= 1 or getattr(_worker, "inside", False):
            fn(0, rows)
            return
        bounds = [rows * part // parts for part in range(parts + 1)]
        queue = _queue(self.threads - 1)
        finished: SimpleQueue[None] = SimpleQueue()
        submitted: list[_Part] = []
        try:
            for part in range(1, parts):
                call = partial(contextvars.copy_context().run, fn, bounds[part], bounds[part + 1])
                queue.put(one := _Part(call, finished))
                submitted.append(one)
            # What the caller's own part splits again would wait for threads that are busy with the other parts.
            _worker.inside = True
            try:
                fn(bounds[0], bounds[1])
            finally:
                _worker.inside = False
            _wait(submitted, finished)
        except BaseException:
            # A failure, or Ctrl-C: parts that have not begun are dropped, and nothing may still write to the caller's
            # arrays when it goes on. A second Ctrl-C ends this wait too.
            for one in submitted:
                one.abandoned = True
            _wait(submitted, finished)
            raise
        for one in submitted:
            failure, one.failure = one.failure, None
            if failure is not None:
                try:
                    raise failure
                finally:
                    del failure  # it holds this frame, which must not hold it
