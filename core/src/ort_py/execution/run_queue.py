"""A queue for asynchronous runs: a few threads take them one after another.

Used by the asynchronous calls of sessions. Threads are made when there is work, end after a while without any, and are
made again in a forked child. It is independent of models and event loops: a job is a call, a future, and a way to stop
it.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ort_py.errors import ExecutionError
from ort_py.platform.forks import ProcessLock
from ort_py.platform.headroom import start_thread

if TYPE_CHECKING:
    from concurrent.futures import Future

MOST_THREADS = 8

IDLE_SECONDS = 5.0
"""Seconds a thread waits for more work: long enough for a pause between requests, too short to be found lingering."""


class Job:
    """One call to be made on a thread of the queue.

    Args:
        stop: Makes a call under way end soon.
    """

    __slots__ = ("_call", "future", "stop")

    def __init__(self, call: Callable[[], Any], stop: Callable[[], None]) -> None:
        from concurrent.futures import Future  # few sessions have a queue that is used

        self._call: Callable[[], Any] | None = call
        self.stop = stop
        self.future: Future[Any] = Future()

    def run(self) -> None:
        """Make the call, unless the future was cancelled before."""
        # Its data is released with the call, not with the last reference to the job.
        call, self._call = self._call, None
        if call is None or not self.future.set_running_or_notify_cancel():
            return
        try:
            result = call()
        except BaseException as error:  # the holder of the future decides what it means
            self.future.set_exception(error)
        else:
            self.future.set_result(result)


class RunQueue:
    """Jobs in the order they came, on at most `threads` threads.

    Args:
        threads: Number of jobs that may run at once, taken as at least 1 and at most `MOST_THREADS`.
    """

    def __init__(self, threads: int) -> None:
        self.threads = max(1, min(threads, MOST_THREADS))
        self._crew: _Crew | None = None
        self._lock = ProcessLock()

    def submit(self, job: Job) -> None:
        """Run a job as soon as a thread is free."""
        with self._lock.held():
            # A forked child has none of its parent's threads, and its parent's jobs are not its own.
            if self._crew is None or self._crew.process != os.getpid():
                self._crew = _Crew(self.threads)
            crew = self._crew
        crew.submit(job)

    def close(self) -> None:
        """Let the threads end when they have done what was submitted."""
        crew = self._crew
        if crew is not None and crew.process == os.getpid():
            crew.dismiss()

    def __del__(self) -> None:
        # Threads hold the crew, never the queue: a forgotten queue ends here, and they with it.
        if sys is not None and not sys.is_finalizing():
            self.close()


class _Crew:
    """The threads of one process and what they share."""

    def __init__(self, threads: int) -> None:
        self.process = os.getpid()
        self._threads = threads
        self._waiting: deque[Job] = deque()
        self._running: set[Job] = set()
        self._alive = 0
        self._idle = 0
        self._dismissed = False
        # Entering a Condition is Python code, which Ctrl-C may interrupt with the lock taken; entering a lock is not.
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        _watch_exit(self)

    def submit(self, job: Job) -> None:
        with self._lock:
            self._waiting.append(job)
            if self._idle >= len(self._waiting) or self._alive >= self._threads:
                self._changed.notify_all()
                return
            self._alive += 1
        # Daemons, because the interpreter would wait for others before it asks `_finish`, which can stop their runs.
        try:
            start_thread(threading.Thread(target=self._work, name="ort_py_async", daemon=True))
        except ExecutionError:
            with self._lock:
                self._alive -= 1
                if job in self._waiting and not self._alive:  # no thread is left to take it
                    self._waiting.remove(job)
                    raise
                self._changed.notify_all()

    def dismiss(self) -> None:
        with self._lock:
            self._dismissed = True
            self._changed.notify_all()

    def stop(self) -> None:
        """Drop what has not begun and stop what has."""
        with self._lock:
            waiting, running = list(self._waiting), list(self._running)
            self._waiting.clear()
        for job in waiting:
            job.future.cancel()
        for job in running:
            job.stop()

    def drain(self, seconds: float | None = None) -> None:
        """Wait until nothing waits and nothing runs."""
        with self._lock:
            self._changed.wait_for(lambda: not self._waiting and not self._running, seconds)

    def _work(self) -> None:
        while (job := self._next()) is not None:
            try:
                job.run()
            finally:
                with self._lock:
                    self._running.discard(job)
                    self._changed.notify_all()
            del job  # an idle thread keeps no session alive

    def _next(self) -> Job | None:
        with self._lock:
            if not self._waiting and not self._dismissed:
                self._idle += 1
                self._changed.wait_for(lambda: bool(self._waiting) or self._dismissed, IDLE_SECONDS)
                self._idle -= 1
            if not self._waiting:
                self._alive -= 1
                return None
            job = self._waiting.popleft()
            self._running.add(job)
            return job


_crews: weakref.WeakSet[_Crew] = weakref.WeakSet()


def _watch_exit(crew: _Crew) -> None:
    if not _crews:
        atexit.unregister(_finish)
        atexit.register(_finish)
    _crews.add(crew)


def _finish() -> None:
    """The program ends: runs under way end first, or are stopped where it is Ctrl-C that ended the program."""
    crews = [crew for crew in _crews if crew.process == os.getpid()]
    try:
        if getattr(sys, "last_type", None) is not KeyboardInterrupt:
            for crew in crews:
                crew.drain()
            return
    except KeyboardInterrupt:
        pass  # the wait itself was interrupted: stop, as below
    for crew in crews:
        crew.stop()
    for crew in crews:
        crew.drain(IDLE_SECONDS)
