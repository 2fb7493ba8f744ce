"""Records events of a session: its creation, its runs and their steps. Thread-safe, bounded."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ort_py.dtypes import data_type_of

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

    @property
    def inputs(self) -> tuple[int, ...]:
        """Slots it reads."""

    @property
    def outputs(self) -> tuple[int, ...]:
        """Slots it writes."""


@dataclass(frozen=True, slots=True)
class ProfileEvent:
    """One span of time.

    Attributes:
        category: ``"Session"`` or ``"Node"``, as in onnxruntime's profiles.
        name: What happened.
        start_ns, duration_ns: On the clock of `time.perf_counter_ns`.
        thread: Thread it happened on.
        arguments: Further facts; numbers are strings, shapes lists.
    """

    category: str
    name: str
    start_ns: int
    duration_ns: int
    thread: int
    arguments: Mapping[str, Any] = field(default_factory=dict)


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

    def record(self, category: str, name: str, start_ns: int, end_ns: int, **arguments: Any) -> None:
        """Add an event of the calling thread."""
        self._events.append(
            ProfileEvent(category, name, start_ns, end_ns - start_ns, threading.get_native_id(), arguments)
        )

    def describe_inputs(self, step: StepLike, slots: list[Any], constants: Sequence[Any]) -> dict[str, Any]:
        """Types and sizes of what a step is going to read (see `ort_py.execution.watch.StepRecorder`)."""
        values = [(slots[slot], slots[slot] is constants[slot]) for slot in step.inputs if slots[slot] is not None]
        return {
            "input_type_shape": _shapes([value for value, _ in values]),
            "activation_size": str(_bytes([value for value, constant in values if not constant])),
            "parameter_size": str(_bytes([value for value, constant in values if constant])),
        }

    def record_step(
        self, step: StepLike, start_ns: int, end_ns: int, slots: list[Any], facts: Mapping[str, Any] | None = None
    ) -> None:
        """Add a step of a plan (see `ort_py.execution.watch.StepRecorder`)."""
        where = step.location
        written = [slots[slot] for slot in step.outputs if slots[slot] is not None]
        self.record(
            "Node",
            f"{where.node or step.title}_kernel_time",
            start_ns,
            end_ns,
            op_name=where.op_type or step.title,
            provider=step.provider,
            **(facts or {}),
            output_type_shape=_shapes(written),
            output_size=str(_bytes(written)),
        )

    def record_plan(self, start_ns: int, end_ns: int) -> None:
        """Add a run through all steps, under onnxruntime's name for it."""
        self.record("Session", "SequentialExecutor::Execute", start_ns, end_ns)


def _shapes(values: list[Any]) -> list[dict[str, list[int]]]:
    """Element type and shape of each array; other values have neither."""
    arrays = [value for value in values if hasattr(value, "dtype") and hasattr(value, "shape")]
    return [{data_type_of(value.dtype).onnx_name: list(value.shape)} for value in arrays]


def _bytes(values: list[Any]) -> int:
    return sum(int(getattr(value, "nbytes", 0)) for value in values)
