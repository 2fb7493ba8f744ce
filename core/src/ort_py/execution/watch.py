"""What is looked at between steps: cancellation, the time limit, the memory limit, and who records times.

A run without any of these has no watch and pays nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from heapq import nlargest
from typing import TYPE_CHECKING, Any

import numpy as np

from ort_py.errors import Fail, LimitError, MemoryLimitError
from ort_py.limits.budget import MEMORY_FIX
from ort_py.planning.steps import FRAME_SLOT, Step

if TYPE_CHECKING:
    from ort_py.execution.frame import Frame
    from ort_py.profiling.recorder import Recorder

__all__ = ["RunWatch"]

_NAMED = 5
"""Arrays named where a run holds too much."""


class RunWatch:
    """Checks of one run, nested bodies included.

    Args:
        terminate: Asked between steps whether to stop.
        seconds: Time limit of the run.
        memory_bytes: Limit of the bytes all live arrays of the run may take, constants included.
        held_bytes: What the session holds beside the arrays of its runs, which counts too.
        recorder: Records each step.

    Attributes:
        recorder: As given.
        checks: Whether there is anything but the recorder: something to look at between steps.
        bounds_memory: Whether the bytes that are alive are counted.
    """

    def __init__(
        self,
        *,
        terminate: Callable[[], bool] | None = None,
        seconds: float | None = None,
        memory_bytes: int | None = None,
        held_bytes: int = 0,
        recorder: Recorder | None = None,
    ) -> None:
        self._terminate = terminate
        self._seconds = seconds
        self._deadline = None if seconds is None else time.monotonic() + seconds
        self._memory_bytes = memory_bytes
        self._held_bytes = held_bytes
        self.recorder = recorder
        self.bounds_memory = memory_bytes is not None
        self.checks = terminate is not None or seconds is not None or memory_bytes is not None
        # What the frames around the running one hold: bytes by owner, a level each, and the sum of each level.
        self._outer: list[dict[int, int]] = []
        self._outer_bytes: list[int] = []

    @property
    def idle(self) -> bool:
        """Whether there is nothing to watch."""
        return not self.checks and self.recorder is None

    def begin(self, frame: Frame) -> None:
        """Look at a frame's run from now on.

        Raises:
            Fail, LimitError: As `before`.
        """
        frame.watch = self
        self.before()

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
            MemoryLimitError: More than `memory_bytes` are alive.
        """
        if self._memory_bytes is not None:
            held = self._not_held(slots)
            self._check(step, sum(self._outer_bytes) + sum(held.values()), slots)

    def enter(self, slots: list[Any]) -> None:
        """A body begins: what the frame around it holds stays alive, and counts, until `leave`."""
        if self._memory_bytes is not None:
            held = self._not_held(slots)
            self._outer.append(held)
            self._outer_bytes.append(sum(held.values()))

    def hold(self, step: Step, values: Iterable[Any]) -> None:
        """A body's iteration left values that wait outside of any slot to be stacked.

        Raises:
            MemoryLimitError: More than `memory_bytes` are alive.
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
            owner = _owner(item)
            if hasattr(owner, "nbytes") and not any(id(owner) in level for level in self._outer):
                found[id(owner)] = owner.nbytes
        return found

    def _check(self, step: Step, total: int, slots: Sequence[Any] = ()) -> None:
        if self._memory_bytes is None or total + self._held_bytes <= self._memory_bytes:
            return
        largest = _largest(slots)
        packed = f", {self._held_bytes} of them made of constants" if self._held_bytes else ""
        raise MemoryLimitError(
            f"The run holds {total + self._held_bytes} bytes{packed}; {self._memory_bytes} are allowed.",
            where=step.location,
            why=[
                f"Limits.total_memory_bytes is {self._memory_bytes}",
                *(f"{name}: {size} bytes" for name, size in largest),
            ],
            fix=MEMORY_FIX,
            largest=largest,
        )


def _owner(item: Any) -> Any:
    """Who has an array's memory: a view takes none of its own, and a broadcast one tells of more than there is."""
    while isinstance(item, np.ndarray) and isinstance(item.base, np.ndarray):
        item = item.base
    return item


def _largest(slots: Sequence[Any]) -> tuple[tuple[str, int], ...]:
    """(what it is, bytes) of the largest arrays in the slots of a frame, with who made each."""
    program = getattr(slots[FRAME_SLOT], "program", None) if slots else None
    makers = {value.slot: f"feed '{value.name}'" for value in program.plan.inputs} if program is not None else {}
    for step in program.plan.steps if program is not None else ():
        makers |= dict.fromkeys(step.outputs, step.title)
    found: dict[int, tuple[int, str]] = {}
    for slot, item in enumerate(slots):
        owner = _owner(item)
        if hasattr(owner, "nbytes"):  # arrays of any device
            found.setdefault(id(owner), (owner.nbytes, makers.get(slot, "a constant")))
    return tuple((name, size) for size, name in nlargest(_NAMED, found.values()))
