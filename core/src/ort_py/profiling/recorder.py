"""Recorder of a session's creation, its runs and their steps. Thread-safe, bounded.

While a program runs, the time after each step is noted, and the step's output if it is unusual. Names, sizes and texts
are created when `Recorder.events` is called. The inputs of a step are not noted, because earlier steps of the run wrote
them. `execution` reports the steps.
"""

from __future__ import annotations

import os
import threading
import time
from array import array
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

from ort_py.lazy_dataclass import dataclass
from ort_py.platform.forks import ProcessLock
from ort_py.profiling.traced_plan import Kind, TracedPlan, kinds_of

if TYPE_CHECKING:
    from ort_py.planning.plan import ExecutionPlan


@dataclass(frozen=True, slots=True)
class ProfileEvent:
    """One span of time.

    Attributes:
        category: ``"Session"`` or ``"Node"``, as in onnxruntime's profiles.
        start_ns, duration_ns: On the clock of `time.perf_counter_ns`.
        arguments: Further facts; numbers are strings, shapes lists.
    """

    category: str
    name: str
    start_ns: int
    duration_ns: int
    thread: int
    arguments: Mapping[str, Any] = field(default_factory=dict)


class RunTrace:
    """Steps of one run of a plan or body, in the order in which they end.

    Attributes:
        outputs: For each step its output's slot; the empty slot if it has none or several.
        shapes: For each step the usual shape of its output, None if it is not known.
        spans: Index, start, end and thread of each step reported to `note`.
        ends: When steps ended that ran one right after another from the first on, in seconds. A step is taken to begin
            where the one before it ended: a second look at the clock costs half as much as adding four numbers.
        began_ns, ended_ns: When the run began and ended; 0 where it has not, or failed.
    """

    __slots__ = ("_entries", "_plan", "_unusual", "_usual", "began_ns", "ended_ns", "ends", "shapes", "spans", "thread")

    def __init__(self, plan: TracedPlan, slots: Sequence[Any]) -> None:
        self._plan = plan
        self._usual = plan.usual
        self.shapes = self._usual.shapes
        self._entries = plan.entries_in(slots)
        self._unusual: dict[int, list[Kind]] = {}
        self.spans: list[tuple[int, int, int, int]] = []
        self.ends: list[float] | array[float] = []
        self.thread = threading.get_native_id()
        self.ended_ns = 0
        self.began_ns = _now_ns()

    def __len__(self) -> int:
        return len(self.ends) + len(self.spans) + (self.ended_ns > 0)

    @property
    def outputs(self) -> list[int]:
        return self._plan.outputs

    def keep_unusual(self, slots: Sequence[Any]) -> None:
        """Note the outputs of the last step, because its shape is unusual, or it does not have exactly one array as
        output."""
        index = len(self.ends) - 1
        self._unusual[index] = kinds_of(slots, self._plan.steps[index].outputs)

    def note(self, index: int, start_ns: int, end_ns: int, slots: Sequence[Any]) -> None:
        """Note that a step has ended on the calling thread.

        The order is arbitrary, and the slots it releases may already be empty.
        """
        self._unusual[index] = kinds_of(slots, self._plan.steps[index].outputs)
        self.spans.append((index, start_ns, end_ns, threading.get_native_id()))

    def end(self, *, complete: bool) -> None:
        """The run has ended; `complete` where all its steps did."""
        if complete:
            self.ended_ns = _now_ns()
            if 2 * len(self._unusual) > len(self.ends) + len(self.spans):
                self._plan.usual = self._usual.changed(self._unusual)
        self.ends = array("d", self.ends)  # a quarter of the list's memory

    def events(self) -> Iterator[ProfileEvent]:
        """One event per step, then one for the whole run if it was completed."""
        described = self._plan.described(self._entries, self._usual, self._unusual)
        for index, start_ns, end_ns, thread in (*self._spans_of_ends(), *self.spans):
            yield ProfileEvent("Node", described[index][0], start_ns, end_ns - start_ns, thread, described[index][1])
        if self.ended_ns:
            duration = self.ended_ns - self.began_ns
            yield ProfileEvent("Session", "SequentialExecutor::Execute", self.began_ns, duration, self.thread)

    def _spans_of_ends(self) -> Iterator[tuple[int, int, int, int]]:
        begins = self.began_ns
        for index, seconds in enumerate(self.ends):
            ends = round(seconds * 1e9)
            yield index, begins, ends, self.thread
            begins = ends


def _now_ns() -> int:
    # As the ends of steps: a float costs less to make than an int, and rounds alike everywhere.
    return round(time.perf_counter() * 1e9)


class Recorder:
    """Collects the events of one session. If there are too many, all events of the oldest run are dropped together."""

    def __init__(self, capacity: int = 1_000_000) -> None:
        self.started_ns = time.perf_counter_ns()
        self.process = os.getpid()
        self._capacity = capacity
        self._kept: deque[ProfileEvent | RunTrace] = deque()
        self._count = 0
        self._plans: dict[int, TracedPlan] = {}
        self._lock = ProcessLock()

    @property
    def events(self) -> list[ProfileEvent]:
        """Recorded events in the order in which they ended."""
        with self._lock.held():
            kept = list(self._kept)
        found = [event for one in kept for event in (one.events() if isinstance(one, RunTrace) else (one,))]
        return sorted(found, key=lambda event: event.start_ns + event.duration_ns)

    def record(self, category: str, name: str, start_ns: int, end_ns: int, **arguments: Any) -> None:
        """Add an event of the calling thread."""
        self._keep(ProfileEvent(category, name, start_ns, end_ns - start_ns, threading.get_native_id(), arguments))

    def begin_run(self, plan: ExecutionPlan, slots: Sequence[Any]) -> RunTrace:
        """Note the start of a run of a plan or body, whose inputs are in the slots."""
        traced = self._plans.get(id(plan))
        if traced is None:  # it holds the plan, so the identity stays its own
            traced = self._plans.setdefault(id(plan), TracedPlan(plan))
        return RunTrace(traced, slots)

    def end_run(self, trace: RunTrace, *, complete: bool) -> None:
        """The run has ended; `complete` where all its steps did."""
        trace.end(complete=complete)
        self._keep(trace)

    def _keep(self, one: ProfileEvent | RunTrace) -> None:
        with self._lock.held():
            self._kept.append(one)
            self._count += _events_in(one)
            while self._count > self._capacity and len(self._kept) > 1:
                self._count -= _events_in(self._kept.popleft())


def _events_in(one: ProfileEvent | RunTrace) -> int:
    return len(one) if isinstance(one, RunTrace) else 1
