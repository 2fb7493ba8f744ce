"""Work on a stream of items in their order, several at a time: one thread pulls, others work, the caller takes.

`depth` items at most have been pulled and not taken, whatever any side's speed: the puller waits for the taker. What an
item's work raises, and what pulling raises, surfaces where the result would have stood, and ends the stream. It is
independent of sessions: an item is an object, work a call. The threads hold what they share, never the stream, so that
a forgotten stream ends.
"""

from __future__ import annotations

import contextvars
import os
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from functools import partial
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any, Generic, TypeVar

from ort_py.errors import InvalidArgument
from ort_py.execution.run_queue import Job, RunQueue
from ort_py.platform.headroom import start_thread

Result = TypeVar("Result")


class Pipelined(Iterator[Result], Generic[Result]):
    """Results of ``work(item)`` for the items of an iterator. Begins when the first one is asked for.

    A context manager; leaving it, `close`, an exception and being dropped end it: nothing more is pulled, what has not
    begun is dropped, and what is under way is stopped.

    Args:
        items: The items; pulled on one thread of its own.
        work: Makes the result of an item; called by several threads.
        stop: Makes calls of `work` that are under way end soon.
        threads: Calls of `work` at the same time.
        depth: Items pulled and not taken at most, at least 1.
    """

    def __init__(
        self, items: Iterator[Any], work: Callable[[Any], Result], stop: Callable[[], None], *, threads: int, depth: int
    ) -> None:
        self._shared: _Shared | None = _Shared(items, work, stop, RunQueue(min(threads, depth)), depth)
        self._process = 0

    def __iter__(self) -> Pipelined[Result]:
        return self

    def __next__(self) -> Result:
        shared = self._shared
        if shared is None:
            raise StopIteration
        if not self._process:
            self._process = os.getpid()
            shared.begin()
        elif self._process != os.getpid():
            raise InvalidArgument(
                "A stream of results was started in another process.",
                why="its threads and their data stayed in the parent process of this fork",
                fix="Start a stream in the process that reads it.",
            )
        try:
            result: Result = shared.take()
        except CancelledError:  # closed by another thread
            self.close()
            raise StopIteration from None
        except BaseException:  # the end, a failure, or Ctrl-C
            self.close()
            raise
        return result

    def close(self) -> None:
        """End the stream and wait for what is under way. A pull under way is not waited for: it may take forever."""
        self._end(wait=True)

    def _end(self, *, wait: bool) -> None:
        shared, self._shared = self._shared, None
        if shared is not None and self._process == os.getpid():
            shared.end(wait=wait)

    def __enter__(self) -> Pipelined[Result]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if sys is not None and not sys.is_finalizing() and hasattr(self, "_process"):
            self._end(wait=False)


class _Raised:
    """Pulling ended with this."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


class _Shared:
    """State that the threads of one stream share."""

    def __init__(
        self, items: Iterator[Any], work: Callable[[Any], Any], stop: Callable[[], None], queue: RunQueue, depth: int
    ) -> None:
        self._items: Iterator[Any] | None = items
        self._work = work
        self._stop = stop
        self._queue = queue
        self._context = contextvars.copy_context()
        self._order: SimpleQueue[Job | _Raised | None] = SimpleQueue()
        self._room: SimpleQueue[bool] = SimpleQueue()
        for _ in range(depth):
            self._room.put(True)
        self._ended = False
        # A lock of C's: entering it cannot be interrupted half-way by Ctrl-C.
        self._lock = threading.Lock()

    def begin(self) -> None:
        start_thread(threading.Thread(target=self._context.run, args=(self._pull,), name="ort_py_load", daemon=True))

    def take(self) -> Any:
        """The next result.

        Raises:
            StopIteration: There is none.
            BaseException: Pulling an item or working on it raised it.
        """
        found = self._order.get()
        if found is None:
            raise StopIteration
        if isinstance(found, _Raised):
            raise found.error
        result = found.future.result()
        self._room.put(True)
        return result

    def end(self, *, wait: bool) -> None:
        with self._lock:
            self._ended = True
        self._room.put(False)
        under_way: list[Job] = []
        try:
            while True:
                found = self._order.get_nowait()
                if isinstance(found, Job) and not found.future.cancel():
                    under_way.append(found)
        except Empty:
            self._order.put(None)  # for another thread that waits for a result
        # Last, when nothing waits any more: an idle worker would take the next one.
        self._stop()
        for job in under_way if wait else ():
            job.future.exception()
        self._queue.close()

    def _pull(self) -> None:
        items, self._items = self._items, None
        assert items is not None
        try:
            while self._room.get():
                try:
                    item = next(items)
                except StopIteration:
                    self._order.put(None)
                    return
                job = Job(partial(self._context.copy().run, self._work, item), self._stop)
                del item  # it goes with its job
                with self._lock:
                    if self._ended:
                        return
                    self._order.put(job)
                    self._queue.submit(job)
                del job
        except BaseException as error:  # the caller's iterable; who takes the results raises it
            self._order.put(_Raised(error))
