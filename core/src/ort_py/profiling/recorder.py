"""Records events of a session: its creation, its runs and their steps. Thread-safe, bounded."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

__all__ = ["ProfileEvent", "Recorder"]


class StepLike(Protocol):
    """What the recorder reads of a step."""

    @property
    def title(self) -> str:
        """What the step does."""

    @property
    def location(self) -> Any:
        """Its `Location`."""

    @property
    def provider(self) -> str:
        """Who runs it."""


@dataclass(frozen=True, slots=True)
class ProfileEvent:
    """One span of time.

    Attributes:
        category: ``"Session"`` or ``"Node"``, as in onnxruntime's profiles.
        name: What happened.
        start_ns, duration_ns: On the clock of `time.perf_counter_ns`.
        thread: Thread it happened on.
        arguments: Further facts; values are strings.
    """

    category: str
    name: str
    start_ns: int
    duration_ns: int
    thread: int
    arguments: Mapping[str, str] = field(default_factory=dict)


class Recorder:
    """Collects events of one session; the oldest go when there are too many.

    Args:
        capacity: Number of events kept.
    """

    def __init__(self, capacity: int = 1_000_000) -> None:
        self.started_ns = time.perf_counter_ns()
        self.process = os.getpid()
        self._events: deque[ProfileEvent] = deque(maxlen=capacity)

    @property
    def events(self) -> list[ProfileEvent]:
        """What was recorded, in the order it ended."""
        return list(self._events)

    def record(self, category: str, name: str, start_ns: int, end_ns: int, **arguments: str) -> None:
        """Add an event of the calling thread."""
        self._events.append(ProfileEvent(category, name, start_ns, end_ns - start_ns, threading.get_ident(), arguments))

    def record_step(self, step: StepLike, start_ns: int, end_ns: int, slots: list[Any]) -> None:
        """Add a step of a plan (see `ort_py.execution.watch.StepRecorder`)."""
        where = step.location
        self.record(
            "Node",
            f"{where.node or step.title}_kernel_time",
            start_ns,
            end_ns,
            op_name=where.op_type or step.title,
            provider=step.provider,
        )
