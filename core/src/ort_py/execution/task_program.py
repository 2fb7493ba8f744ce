"""A plan compiled for several threads: its tasks, each a list of instructions, and the counters that order them.

Within a task a slot is released by the step that uses it last, as in a sequential run. A slot that several tasks use is
released by whichever of them ends last, so that no task waits for another only to release a slot.

Comes after `ort_py.planning.lanes`. Immutable and shared by threads, as a `Program` is.
"""

from __future__ import annotations

from dataclasses import replace

from ort_py.execution.compile_plan import compile_step
from ort_py.execution.instructions import Instruction
from ort_py.lazy_dataclass import dataclass
from ort_py.planning.lanes import Arrangement
from ort_py.planning.lifetimes import with_releases
from ort_py.planning.plan import ExecutionPlan


@dataclass(frozen=True, slots=True)
class Task:
    """Instructions that one thread runs without a break.

    Attributes:
        successors: Tasks that wait for this one, among others.
        shared: Slots that other tasks use too, and that are not needed after all of these tasks.
        pinned: Whether it belongs to the thread that began the run.
    """

    steps: tuple[int, ...]
    instructions: tuple[Instruction, ...]
    successors: tuple[int, ...]
    shared: tuple[int, ...]
    pinned: bool


class TaskProgram:
    """Tasks of a plan, the more urgent ones first.

    Attributes:
        users: Number of tasks that use each shared slot.
    """

    __slots__ = ("plan", "tasks", "users", "waits")

    def __init__(self, plan: ExecutionPlan, arrangement: Arrangement) -> None:
        self.plan = plan
        released = {slot for step in plan.steps for slot in step.release}
        used = [
            {slot for number in task.steps for slot in (*plan.steps[number].inputs, *plan.steps[number].outputs)}
            for task in arrangement.tasks
        ]
        count: dict[int, int] = {}
        for slots in used:
            for slot in slots & released:
                count[slot] = count.get(slot, 0) + 1
        self.users = {slot: users for slot, users in count.items() if users > 1}
        self.waits = tuple(len(task.waits) for task in arrangement.tasks)
        successors: list[list[int]] = [[] for _ in arrangement.tasks]
        for number, task in enumerate(arrangement.tasks):
            for before in task.waits:
                successors[before].append(number)
        self.tasks = tuple(
            Task(
                task.steps,
                self._compiled(task.steps, {slot for slot in slots if count.get(slot) != 1}),
                tuple(after),
                tuple(sorted(slots & self.users.keys())),
                task.pinned,
            )
            for task, slots, after in zip(arrangement.tasks, used, successors, strict=True)
        )

    def _compiled(self, numbers: tuple[int, ...], keep: set[int]) -> tuple[Instruction, ...]:
        steps = [replace(self.plan.steps[number], release=()) for number in numbers]
        return tuple(compile_step(step) for step in with_releases(steps, keep))
