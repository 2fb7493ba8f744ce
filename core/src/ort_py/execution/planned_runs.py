"""Runs in memory that is kept: which instructions a frame runs, given the shapes of its inputs.

The first run of a signature is recorded, later ones write into the frame's arena. Signatures that do not come back are
not recorded forever: after a few, one must be met twice. Comes after `program`; `sequential` runs what is chosen here
and knows nothing of it. Plans are shared by the frames of a program, arenas are not.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from ort_py.dtypes import TensorType
from ort_py.execution.arena import Arena
from ort_py.execution.instructions import Instruction, Slots, compile_into, with_check
from ort_py.execution.recording import RunRecord
from ort_py.planning.memory_plan import MemoryPlan, plan_memory
from ort_py.planning.plan import KernelStep
from ort_py.planning.reuse import ReusingStep, may_reuse, reusing_steps
from ort_py.platform.forks import ProcessLock

if TYPE_CHECKING:
    from ort_py.execution.frame import Frame
    from ort_py.execution.program import Program

__all__ = ["PlannedRuns", "Signature"]

Signature: TypeAlias = tuple[Any, ...]
"""The shapes of the inputs that are asked for, in order; None for what has none. Of a single input, its shape."""

_MOST_PLANS = 8
"""Signatures of a program that are planned at a time; the one not used for the longest goes first."""

_AT_ONCE = 4
"""Signatures that are recorded when they are first met."""

_REMEMBERED = 64
"""Later signatures that are remembered until they come again."""


class _Planned:
    """The instructions of one signature."""

    __slots__ = ("instructions", "plan")

    def __init__(self, plan: MemoryPlan, instructions: list[Instruction]) -> None:
        self.plan = plan
        self.instructions = instructions


class PlannedRuns:
    """Signatures of one program, and what was planned for them. Shared by threads.

    Args:
        program: The program.
        captured: For the program of a body, its slots that the plan around gives; None for a main program.
        reuses_memory: Whether to plan; without, one run is recorded for the figures.

    Attributes:
        poison: For tests: the arena is overwritten before each run. Set on the class.
        over: There is nothing to plan and nothing more to record: frames need not ask any more.
        high_water: The most bytes that were alive at once in a recorded run.
        largest: (node and operator, bytes) at that moment.
    """

    poison: ClassVar[bool] = False

    def __init__(self, program: Program, captured: Iterable[int] | None, *, reuses_memory: bool = True) -> None:
        plan = program.plan
        self.over = False
        self.high_water = 0
        self.largest: tuple[tuple[str, int], ...] = ()
        self._program: Program = weakref.proxy(program)  # it holds this: a closed session's constants go at once
        tensors = [value for value in plan.inputs if isinstance(value.type, TensorType)]
        # The feeds of a main program were checked against their types; the inputs of a body are not checked.
        fixed = {value.slot for value in tensors if captured is None and _is_fixed(value.type)}
        self._asked = (*(value.slot for value in tensors if value.slot not in fixed), *(captured or ()))
        self._only = self._asked[0] if captured is None and len(self._asked) == 1 else 0
        self._fixed = fixed
        self._plans: dict[Signature, _Planned | None] = {}
        self._met: dict[Signature, None] = {}
        self._recorded = 0
        self._unsteady: set[int] = set()
        self._reusing: list[ReusingStep] | None = None if reuses_memory else []
        # Results of plug-ins' kernels are checked when a run is recorded, so new signatures are recorded.
        self._checked = any(isinstance(step, KernelStep) and step.check is not None for step in plan.steps)
        self._lock = ProcessLock()

    def choose(self, frame: Frame) -> None:
        """Set what a frame runs next, by the shapes in its slots."""
        if frame.watch is not None and frame.watch.bounds_memory:
            # Arrays that are alive are counted, so nothing may be reserved in advance.
            frame.run_plainly()
            return
        slots = frame.slots
        signature: Signature
        if self._only:  # the common case, without a loop: tiny plans run in two microseconds
            signature = slots[self._only].shape
        else:
            signature = tuple([getattr(slots[slot], "shape", None) for slot in self._asked])
        if signature != frame.signature:
            self._switch(frame, signature)

    def found_unsteady(self, number: int) -> None:
        """A step made another shape than before from inputs of the same shapes: nothing behind it is planned again."""
        with self._lock.held():
            if number not in self._unsteady:
                self._unsteady = {*self._unsteady, number}
                self._plans.clear()

    def plans(self) -> list[MemoryPlan]:
        """The plans of all signatures, the one used last at the end."""
        with self._lock.held():
            return [one.plan for one in self._plans.values() if one is not None]

    def _switch(self, frame: Frame, key: Signature) -> None:
        with self._lock.held():
            if self.over:
                frame.runs = None
                frame.run_plainly()
                return
            if key in self._plans:
                planned = self._plans[key] = self._plans.pop(key)  # the most recent is last
                record = False
            else:
                planned = None
                record = self._recorded < _AT_ONCE or self._met.pop(key, self) is None
                if not record:
                    self._met[key] = None
                    if len(self._met) > _REMEMBERED:
                        del self._met[next(iter(self._met))]
                self._recorded += record
            wanted = {one.plan for one in self._plans.values() if one is not None}
        if record:
            self._record(frame, key)
        elif planned is None:
            frame.run_plainly(key if key in self._plans else None)
        else:
            self._bind(frame, planned, key, wanted)

    def _bind(self, frame: Frame, planned: _Planned, signature: Signature, wanted: set[MemoryPlan]) -> None:
        if frame.arena is None:
            frame.arena = Arena(self._program.plan.allocators)
        frame.arena.keep_only(wanted)
        try:
            arrays = frame.arena.cut(planned.plan)
        except MemoryError:
            frame.run_plainly()  # it may do with less: not everything is alive at once
            return
        frame.slots[len(self._program.plan.template) :] = arrays
        # A frame's own list: `Frame.go_on_plainly` changes it under the loop that runs it.
        frame.instructions = planned.instructions.copy() if planned.plan.checks else planned.instructions
        frame.signature = signature
        if self.poison:
            frame.arena.poison()
            frame.signature = None

    def _record(self, frame: Frame, key: Signature) -> None:
        program = self._program
        frame.run_plainly()
        record = RunRecord(program.plan.steps, frame.slots)
        instructions = record.instructions(program.instructions, program.bodies())
        if not instructions:
            self.over = True
            return
        last = instructions[-1]

        def finish(s: Slots) -> None:
            last(s)
            self._finish(key, record)

        instructions[-1] = finish
        frame.instructions = instructions

    def _finish(self, key: Signature, record: RunRecord) -> None:
        program = self._program
        if record.high_water > self.high_water:
            self.high_water, self.largest = record.high_water, record.largest()
        if self._reusing is None:
            self._reusing = reusing_steps(program.plan) if may_reuse(program.plan) else []
        shapes = (key,) if self._only else key
        steady = self._fixed.union(slot for slot, shape in zip(self._asked, shapes, strict=True) if shape is not None)
        unsteady = self._unsteady
        plan = plan_memory(program.plan, self._reusing, record.seen, steady, unsteady) if self._reusing else None
        planned = None if plan is None else _Planned(plan, _instructions(program, plan))
        with self._lock.held():
            if unsteady is not self._unsteady:
                return  # another thread found out more meanwhile
            self._plans[key] = planned
            if len(self._plans) > _MOST_PLANS:
                del self._plans[next(iter(self._plans))]
            nothing_to_plan = not self._reusing or (planned is None and not self._asked)
            self.over = nothing_to_plan and not self._checked


def _is_fixed(value_type: Any) -> bool:
    shape = value_type.shape
    return shape is not None and all(isinstance(dim, int) for dim in shape)


def _instructions(program: Program, plan: MemoryPlan) -> list[Instruction]:
    instructions = list(program.instructions)
    base = len(program.plan.template)
    for number, indices in plan.steps.items():
        step = program.plan.steps[number]
        assert isinstance(step, KernelStep)
        instructions[number] = compile_into(step, [base + index for index in indices])
    for number, wanted in plan.checks.items():
        instructions[number] = with_check(instructions[number], number, wanted)
    return instructions
