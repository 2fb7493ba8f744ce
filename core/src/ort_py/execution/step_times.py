"""One sequential run with the time of each step taken: what a parallel schedule is made from.

Knows no schedule.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ort_py.execution.row_splitter import splits
from ort_py.execution.sequential import cause_of, placed

if TYPE_CHECKING:
    from ort_py.execution.frame import Frame

__all__ = ["run_timed"]


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
