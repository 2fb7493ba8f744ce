"""A single run of a plan on several threads: a task begins as soon as its predecessors have ended.

The thread that began the run works too. Threads of the process-wide pool are invited when more tasks are ready than are
being worked on. They leave when nothing is ready, so no thread of the pool ever waits here, and splits of rows find
those that are free. A thread that ends a task continues with the most urgent one that is ready: along a chain nothing
is handed over.

The first failure stops the run; the others are awaited. Of several failures the earliest in the plan is raised.
Comes after `task_program`; whether a run goes this way at all is decided by `parallel_runs`.
"""

from __future__ import annotations

import contextlib
import heapq
import operator
import threading
import time
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from ort_py.execution.sequential import cause_of, placed
from ort_py.execution.task_program import TaskProgram
from ort_py.execution.thread_pool import ThreadPool
from ort_py.execution.watch import RunWatch
from ort_py.limits import checking_time

if TYPE_CHECKING:
    from ort_py.execution.frame import Frame
    from ort_py.profiling.recorder import RunTrace

_NOTHING = -1


def run_tasks(frame: Frame, program: TaskProgram, threads: int, pool: ThreadPool) -> None:
    """Run a main frame, its streams current on this thread.

    Args:
        frame: The frame; its input slots are filled.
        threads: Threads that may work at the same time, this one included.
    """
    run = _Run(frame, program, threads, pool)
    if frame.streams:
        with frame.current_streams():
            frame.context.run(run.lead)
    else:
        frame.context.run(run.lead)


class _Run:
    """State that the threads of one run share. Everything but slots is read and written under the lock."""

    def __init__(self, frame: Frame, program: TaskProgram, threads: int, pool: ThreadPool) -> None:
        self._slots = frame.slots
        self._watch: RunWatch | None = frame.watch
        self._trace: RunTrace | None = None
        self._tasks = program.tasks
        self._steps = program.plan.steps
        self._plan = program.plan
        self._others = threads - 1
        self._pool = pool
        # A lock of C's: unlike Python's own classes, entering it cannot be interrupted half-way by Ctrl-C.
        self._lock = threading.Lock()
        self._waits = list(program.waits)
        self._users = dict(program.users)
        self._ready = [
            number for number, count in enumerate(self._waits) if not count and not self._tasks[number].pinned
        ]
        self._pinned = [number for number, count in enumerate(self._waits) if not count and self._tasks[number].pinned]
        self._left = len(self._tasks)
        self._stopped = False
        self._failures: list[tuple[int, BaseException]] = []
        self._working: set[int] = set()
        self._invited = 0
        self._leader_waits = False
        self._mail: SimpleQueue[None] = SimpleQueue()

    # -- the thread that began the run --------------------------------------------------------------------------

    def lead(self) -> None:
        """Work until all is done; raise what failed."""
        complete = False
        recorder = None if self._watch is None else self._watch.recorder
        if recorder is not None:
            self._trace = recorder.begin_run(self._plan, self._slots)
        try:
            task = self._next(_NOTHING, leader=True)
            while not self._ended():
                if task == _NOTHING:
                    self._mail.get()
                else:
                    self._execute(task)
                task = self._next(task, leader=True)
            self._raise_failure()
            complete = True
        finally:
            # A failure, or Ctrl-C: nothing may still write to the frame when the caller goes on. A second Ctrl-C ends
            # this wait too.
            self._stopped = True
            while self._working:
                with contextlib.suppress(Empty):  # a word of the end that an interruption lost is not waited for long
                    self._mail.get(timeout=0.05)
            if recorder is not None and self._trace is not None:
                recorder.end_run(self._trace, complete=complete)
            # A thread that was invited and has not started yet holds this object, which must keep nothing of the run
            # alive.
            self._slots, self._watch, self._trace, self._tasks = [], None, None, ()

    def _ended(self) -> bool:
        return self._left == 0 or self._stopped

    def _raise_failure(self) -> None:
        """Raise the failure that is first in the plan, where there is one, when the others have stopped."""
        while self._stopped and self._working:
            with contextlib.suppress(Empty):
                self._mail.get(timeout=0.05)
        if not self._failures:
            return
        _, failure = min(self._failures, key=operator.itemgetter(0))
        self._failures.clear()
        try:
            raise failure
        finally:
            del failure  # it holds this frame, which must not hold it

    # -- the others ---------------------------------------------------------------------------------------------

    def _join(self) -> None:
        """Work on a thread of the pool for as long as something is ready."""
        with self._lock:
            self._invited -= 1
            if self._ended() or not self._ready:
                return
            self._working.add(threading.get_ident())
            task = heapq.heappop(self._ready)
        while task != _NOTHING:
            self._execute(task)
            task = self._next(task, leader=False)

    # -- both ---------------------------------------------------------------------------------------------------

    def _next(self, done: int, *, leader: bool) -> int:
        """End a task. Returns this thread's next task, and invitations to the others that became ready."""
        with self._lock:
            if done != _NOTHING:
                self._finish(done)
            task = _NOTHING if self._ended() else self._take(leader)
            invitations = 0 if self._ended() else self._call_others(leader)
            if task == _NOTHING and not leader:
                self._working.discard(threading.get_ident())
                if self._ended():
                    self._mail.put(None)
            self._leader_waits = (leader and task == _NOTHING) or (self._leader_waits and not leader)
        if invitations:
            accepted = self._pool.offer(self._join, invitations)
            if accepted < invitations:
                with self._lock:
                    self._invited -= invitations - accepted
        return task

    def _finish(self, done: int) -> None:
        """Count down: tasks become ready, and slots that are no longer needed are emptied."""
        self._left -= 1
        if self._stopped:
            return
        for slot in self._tasks[done].shared:
            self._users[slot] -= 1
            if not self._users[slot]:
                self._slots[slot] = None
        for after in self._tasks[done].successors:
            self._waits[after] -= 1
            if not self._waits[after]:
                heapq.heappush(self._pinned if self._tasks[after].pinned else self._ready, after)

    def _take(self, leader: bool) -> int:
        """The most urgent task this thread may run."""
        if leader and self._pinned and not (self._ready and self._ready[0] < self._pinned[0] and not self._others):
            return heapq.heappop(self._pinned)  # only this thread may run it, and other threads can run the rest
        return heapq.heappop(self._ready) if self._ready else _NOTHING

    def _call_others(self, leader: bool) -> int:
        """Wake the leader where it waits and can go on; the number of threads to invite for the rest."""
        ready = len(self._ready)
        if self._leader_waits and not leader and (ready or self._pinned):
            self._leader_waits = False
            self._mail.put(None)
            ready -= not self._pinned
        count = min(ready - self._invited, self._others - len(self._working) - self._invited)
        if count <= 0:
            return 0
        self._invited += count
        return count

    def _execute(self, number: int) -> None:
        """Run a task, or what is left of it when the run is stopped."""
        task, slots = self._tasks[number], self._slots
        instructions = iter(task.instructions)
        try:
            if self._watch is None:
                for instruction in instructions:
                    if self._stopped:
                        return
                    instruction(slots)
            else:
                with checking_time(self._watch.check_kernel):
                    self._execute_watched(number, self._watch)
        except Exception as error:  # kernels and regions may raise anything; it is placed and chained
            done = len(task.instructions) - operator.length_hint(instructions)
            self._fail(task.steps[done - 1], self._place(error, task.steps[done - 1]))
        except BaseException as error:
            if threading.get_ident() not in self._working:
                raise  # Ctrl-C, on the thread that began the run
            self._fail(task.steps[0], error)

    def _execute_watched(self, number: int, watch: RunWatch) -> None:
        task, slots, trace = self._tasks[number], self._slots, self._trace
        for index, instruction in zip(task.steps, task.instructions, strict=True):
            if self._stopped:
                return
            step = self._steps[index]
            try:
                watch.before(step)
            except Exception as error:  # not the step's own: it has its place already
                self._fail(index, error)
                return
            start = time.perf_counter_ns()
            try:
                watch.fits(step, slots)
                instruction(slots)
            except Exception as error:  # as above
                self._fail(index, self._place(error, index))
                return
            if trace is not None:
                trace.note(index, start, time.perf_counter_ns(), slots)

    def _place(self, error: Exception, index: int) -> Exception:
        self._stopped = True  # before the error is explained, which takes time: no other step begins meanwhile
        found = placed(error, self._steps[index], self._slots)
        found.__cause__ = cause_of(error)
        return found

    def _fail(self, index: int, error: BaseException) -> None:
        with self._lock:
            self._failures.append((index, error))
            self._stopped = True
            self._mail.put(None)
