"""The decision, from measured times, whether a run of a parallel session uses several threads.

For each size of feed (to a power of two) the first two runs are sequential, and the time of each step is taken. Where
tasks made from these times promise something, a few runs of both kinds are compared by the clock, and the faster kind
stays – for a while: the comparison is made again now and then, because machines change. A run that shares the threads
with others is sequential, and so is one with a memory limit, which only one thread can add up.

Comes after `planning.dependencies` and `planning.lanes`, before `parallel`.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ort_py.execution.parallel import run_tasks
from ort_py.execution.row_splitter import splits
from ort_py.execution.sequential import cause_of, placed, run
from ort_py.execution.task_program import TaskProgram
from ort_py.execution.thread_pool import pool_of
from ort_py.planning.dependencies import Dependencies
from ort_py.planning.lanes import arrange
from ort_py.planning.plan import ExecutionPlan
from ort_py.platform.forks import ProcessLock
from ort_py.platform.native_threads import PreviousThreads, active_runs

if TYPE_CHECKING:
    from ort_py.execution.frame import Frame

_TIMED_RUNS = 2
"""Sequential runs whose steps are timed; the first ones make what later ones find made."""

_COMPARED_RUNS = 5
"""Runs of each kind that are compared, in turn; the fastest of each counts."""

_COMPARED_AGAIN = 300
"""Runs after which the comparison is made again: one made while others kept the processors busy says little."""

_EXCHANGE = 40_000
"""Nanoseconds until a sleeping thread begins with what another has made: decision 0012."""

_GAIN = 1.1
"""Least speed-up that the tasks must promise: less is not worth a comparison."""

_SIZES = 16
"""The number of feed sizes that are tracked separately; further ones run sequentially."""


class _Size:
    """Measurements of runs with feeds of one size."""

    __slots__ = ("compared", "kind", "parallel_ns", "program", "runs", "sequential_ns", "times", "wide")

    def __init__(self) -> None:
        self.kind = "timed"
        self.times: list[int] = []
        self.wide: list[int] = []
        self.sequential_ns = self.parallel_ns = 1 << 62
        self.runs = 0
        self.compared = 0
        self.program: TaskProgram | None = None


class ParallelRuns:
    """Runs main frames of one plan, on several threads where that is faster.

    Args:
        plan: The plan, some of whose steps may run at the same time.
        lanes: Threads that may run steps at the same time.
    """

    def __init__(self, plan: ExecutionPlan, dependencies: Dependencies, lanes: int) -> None:
        self._plan = plan
        self._dependencies = dependencies
        self._lanes = lanes
        self._sizes: dict[int, _Size] = {}
        self._last: _Size | None = None
        self._lock = ProcessLock()
        active_runs.find_new()

    def __call__(self, frame: Frame) -> None:
        before: PreviousThreads = ()
        try:
            before = active_runs.begin(self._plan.threads)
            size = self._size(frame.slots) if self._may_share(frame) else None
            if size is None:
                run(frame)
            elif size.kind == "parallel" and size.program is not None:
                self._run_parallel(frame, size.program)
                size.runs += 1
                if size.runs >= _COMPARED_AGAIN:
                    self._compare_again(size)
            else:
                self._run_to_learn(frame, size)
        finally:
            active_runs.end(before)

    def describe(self) -> str:
        """Describe how the last run that had the threads to itself was executed, and why."""
        size = self._last
        if size is None or size.kind == "timed":
            return "sequential: the times of its steps are being measured"
        if size.kind == "compared":
            return "sequential and parallel by turns: the two are being compared"
        if size.kind == "parallel" and size.program is not None:
            return (
                f"parallel: {len(size.program.tasks)} tasks on up to {self._lanes} threads, "
                f"{size.parallel_ns / 1e3:.0f} µs instead of {size.sequential_ns / 1e3:.0f} µs"
            )
        if size.program is None:
            return "sequential: too little of its work can be done at the same time"
        return (
            f"sequential: {size.sequential_ns / 1e3:.0f} µs, "
            f"{size.parallel_ns / 1e3:.0f} µs on several threads when it was tried"
        )

    def _may_share(self, frame: Frame) -> bool:
        threads = self._plan.threads
        return active_runs.share(threads) == threads and not (frame.watch is not None and frame.watch.bounds_memory)

    def _size(self, slots: Sequence[Any]) -> _Size | None:
        elements = 0
        for value in self._plan.inputs:
            elements += getattr(slots[value.slot], "size", 0)
        key = elements.bit_length()
        size = self._sizes.get(key)
        if size is None:
            if len(self._sizes) >= _SIZES:
                return None
            size = self._sizes.setdefault(key, _Size())
        self._last = size
        return size

    def _run_parallel(self, frame: Frame, program: TaskProgram) -> None:
        run_tasks(frame, program, self._lanes, pool_of(self._plan.threads))

    def _run_to_learn(self, frame: Frame, size: _Size) -> None:
        """A run of which the time is taken, until it is known which kind is the faster one."""
        if size.kind == "timed":
            times, wide = run_timed(frame)
            with self._lock.held():
                self._learn_times(size, times, wide)
            return
        parallel = size.kind == "compared" and size.compared % 2 == 0 and size.program is not None
        start = time.perf_counter_ns()
        if parallel and size.program is not None:
            self._run_parallel(frame, size.program)
        else:
            run(frame)
        taken = time.perf_counter_ns() - start
        if size.kind != "compared":
            size.runs += 1
            if size.runs >= _COMPARED_AGAIN and size.program is not None:
                self._compare_again(size)
            return
        with self._lock.held():
            self._learn_which(size, taken, parallel=parallel)

    def _learn_times(self, size: _Size, times: list[int], wide: list[int]) -> None:
        if size.kind != "timed":
            return
        size.times = [min(pair) for pair in zip(size.times, times, strict=True)] if size.times else times
        size.wide = wide
        size.runs += 1
        if size.runs < _TIMED_RUNS:
            return
        # A step whose rows were split takes as many times as long on one thread.
        alone = [taken * parts for taken, parts in zip(size.times, size.wide, strict=True)]
        arrangement = arrange(self._dependencies, alone, self._lanes, _EXCHANGE)
        size.runs = 0
        if arrangement.span * _GAIN < sum(size.times):
            size.program = TaskProgram(self._plan, arrangement)
            size.kind = "compared"
        else:
            size.kind = "sequential"

    def _learn_which(self, size: _Size, taken: int, *, parallel: bool) -> None:
        if size.kind != "compared":
            return
        if parallel:
            size.parallel_ns = min(size.parallel_ns, taken)
        else:
            size.sequential_ns = min(size.sequential_ns, taken)
        size.compared += 1
        if size.compared >= 2 * _COMPARED_RUNS:
            size.kind = "parallel" if size.parallel_ns < size.sequential_ns else "sequential"
            size.runs = 0

    def _compare_again(self, size: _Size) -> None:
        with self._lock.held():
            size.kind, size.runs, size.compared = "compared", 0, 0
            size.sequential_ns = size.parallel_ns = 1 << 62


def run_timed(frame: Frame) -> tuple[list[int], list[int]]:
    """`sequential.run` of a main frame.

    Returns:
        Nanoseconds of each step, and the largest number of threads that its rows were split over.
    """
    times: list[int] = []
    wide: list[int] = []
    if frame.streams:
        with frame.current_streams():
            frame.context.run(_run, frame, times, wide)
    else:
        frame.context.run(_run, frame, times, wide)
    return times, wide


def _run(frame: Frame, times: list[int], wide: list[int]) -> None:
    watch, slots, clock, plan = frame.watch, frame.slots, time.perf_counter_ns, frame.program.plan
    recorder = None if watch is None else watch.recorder
    trace = None if recorder is None else recorder.begin_run(plan, slots)
    complete = False
    try:
        for index, (step, instruction) in enumerate(zip(plan.steps, frame.program.instructions, strict=True)):
            if watch is not None:
                watch.before(step)
            splits.most = 1
            start = clock()
            try:
                instruction(slots)
            except Exception as error:  # kernels and regions may raise anything; it is placed and chained
                raise placed(error, step, slots) from cause_of(error)
            end = clock()
            times.append(end - start)
            wide.append(splits.most)
            if trace is not None:
                trace.note(index, start, end, slots)
        complete = True
    finally:
        if recorder is not None and trace is not None:
            recorder.end_run(trace, complete=complete)
