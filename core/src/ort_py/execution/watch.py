"""What is looked at between steps: cancellation, the time limit, the memory limit, and who records times.

A run without any of these has no watch and pays nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from ort_py.errors import Fail, LimitError
from ort_py.planning.steps import Step

__all__ = ["RunWatch", "StepRecorder"]


class StepRecorder(Protocol):
    """Records how long steps take; see `profiling`."""

    def describe_inputs(self, step: Step, slots: list[Any], constants: Sequence[Any]) -> Mapping[str, Any]:
        """Facts about what a step is going to read; `constants` holds the constant of each slot that has one."""

    def record_step(
        self, step: Step, start_ns: int, end_ns: int, slots: list[Any], facts: Mapping[str, Any] | None = None
    ) -> None:
        """One step has ended; the slots it releases are empty already."""

    def record_plan(self, start_ns: int, end_ns: int) -> None:
        """All steps of a plan, or of a body, have ended."""


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
        # What the frames around the running one hold: bytes by owner, a level each, and the sum of each level.
        self._outer: list[dict[int, int]] = []
        self._outer_bytes: list[int] = []

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
                "The run was stopped: RunOptions.terminate is set.",
                where=step.location if step is not None else "",
                fix="Set it to False, or pass other RunOptions, to run again.",
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
        if self._memory_bytes is not None:
            self._check(step, sum(self._outer_bytes) + sum(self._not_held(slots).values()))

    def enter(self, slots: list[Any]) -> None:
        """A body begins: what the frame around it holds stays alive, and counts, until `leave`."""
        if self._memory_bytes is not None:
            held = self._not_held(slots)
            self._outer.append(held)
            self._outer_bytes.append(sum(held.values()))

    def hold(self, step: Step, values: Iterable[Any]) -> None:
        """A body's iteration left values that wait outside of any slot to be stacked.

        Raises:
            LimitError: More than `memory_bytes` are alive.
        """
        if self._memory_bytes is not None:
            held = self._not_held(values)
            self._outer[-1].update(held)
            self._outer_bytes[-1] += sum(held.values())
            self._check(step, sum(self._outer_bytes))

    def leave(self) -> None:
        """The body has ended."""
        if self._memory_bytes is not None:
            self._outer.pop()
            self._outer_bytes.pop()

    def _not_held(self, values: Iterable[Any]) -> dict[int, int]:
        """Bytes of the arrays by the identity of their memory's owner; what the frames around hold is left out."""
        found: dict[int, int] = {}
        pending = list(values)
        while pending:
            item = pending.pop()
            if isinstance(item, list):
                pending.extend(item)
                continue
            # A view takes no memory of its own, and a broadcast one tells of more than there is.
            while isinstance(item, np.ndarray) and isinstance(item.base, np.ndarray):
                item = item.base
            if hasattr(item, "nbytes") and not any(id(item) in level for level in self._outer):
                found[id(item)] = item.nbytes
        return found

    def _check(self, step: Step, total: int) -> None:
        if self._memory_bytes is not None and total > self._memory_bytes:
            raise LimitError(
                f"The run holds {total} bytes.",
                where=step.location,
                why=f"Limits.total_memory_bytes is {self._memory_bytes}",
                fix="Use a smaller input, or raise the limit if you trust the model.",
            )
