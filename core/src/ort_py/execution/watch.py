"""What is looked at between steps: cancellation, the time limit, the memory limit, and who records times.

A run without any of these has no watch and pays nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol

from ort_py.errors import Fail, LimitError
from ort_py.planning.steps import Step

__all__ = ["RunWatch", "StepRecorder"]


class StepRecorder(Protocol):
    """Records how long steps take; see `profiling`."""

    def record_step(self, step: Step, start_ns: int, end_ns: int, slots: list[Any]) -> None:
        """One step has ended. Called before its inputs are gone only where it releases none."""


class RunWatch:
    """Checks of one run, nested bodies included.

    Args:
        terminate: Asked between steps whether to stop.
        seconds: Time limit of the run.
        memory_bytes: Limit of the bytes all live arrays of the run may take.
        recorder: Told about each step.
    """

    def __init__(
        self,
        *,
        terminate: Callable[[], bool] | None = None,
        seconds: float | None = None,
        memory_bytes: int | None = None,
        recorder: StepRecorder | None = None,
    ) -> None:
        self._terminate = terminate
        self._seconds = seconds
        self._deadline = None if seconds is None else time.monotonic() + seconds
        self._memory_bytes = memory_bytes
        self.recorder = recorder

    @property
    def idle(self) -> bool:
        """Whether there is nothing to watch."""
        return (
            self._terminate is None and self._deadline is None and self._memory_bytes is None and self.recorder is None
        )

    def before(self, step: Step | None = None) -> None:
        """Stop the run where it was cancelled or its time is over.

        Raises:
            Fail: The caller asked to stop.
            LimitError: The time limit has passed.
        """
        if self._terminate is not None and self._terminate():
            raise Fail(
                "The run was stopped: RunOptions.terminate is set.", where=step.location if step is not None else ""
            )
        if self._deadline is not None and time.monotonic() > self._deadline:
            raise LimitError(
                f"The run took longer than {self._seconds} s.",
                where=step.location if step is not None else "",
                why="Limits.run_seconds",
                fix="Raise the limit if you trust the model.",
            )

    def after(self, step: Step, slots: list[Any]) -> None:
        """Stop the run where its arrays take too much memory.

        Raises:
            LimitError: More than `memory_bytes` are alive.
        """
        if self._memory_bytes is None:
            return
        alive = {id(item): item.nbytes for item in slots if hasattr(item, "nbytes")}
        total = sum(alive.values())
        if total > self._memory_bytes:
            raise LimitError(
                f"The run holds {total} bytes.",
                where=step.location,
                why=f"Limits.total_memory_bytes is {self._memory_bytes}",
                fix="Use a smaller input, or raise the limit if you trust the model.",
            )
