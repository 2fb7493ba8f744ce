"""Runs in memory that is kept: the instructions for a run, given the shapes of its inputs.

The first run of a signature is recorded, later ones write into the arena of their frame. Signatures that do not come
back are not recorded forever: after a few, a signature must occur twice. Plans are shared by the frames of a program;
`frame` applies them to its own arena. Does not know frames.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np

from ort_py.dtypes import TensorType
from ort_py.errors import OrtPyError
from ort_py.execution.instructions import (
    Instruction,
    Slots,
    compile_into,
    compile_kept,
    compile_release,
    with_check,
)
from ort_py.execution.recording import RunRecord
from ort_py.light_tuple import NamedTuple
from ort_py.planning.fixed_values import reads_shape, steps_fixed_by_shapes
from ort_py.planning.plan import NONE_SLOT, ExecutionPlan, IfStep, KernelStep, Step
from ort_py.planning.reuse import ReusingStep, may_reuse, reusing_steps
from ort_py.platform.forks import ProcessLock

if TYPE_CHECKING:
    from ort_py.execution.shape_results import ShapeResults
    from ort_py.planning.memory_plan import MemoryPlan

Signature: TypeAlias = tuple[Any, ...]
"""The shapes of the inputs that are asked for, in order; None for what has none. Of a single input, its shape."""

_MOST_PLANS = 8
"""Signatures of a program that are planned at a time; the one not used for the longest goes first."""

_AT_ONCE = 4
"""Signatures that are recorded when they are first met."""

_COST, _MOST_CREDIT = 4, 48
"""Planned runs that pay for a record, and how many are remembered: where more signatures than are planned take turns,
records would take longer than plans save. What occurs twice in a row is recorded in any case."""

_PATIENCE = 8
"""Runs without a plan after which it is found out what follows from shapes, which takes some milliseconds once."""

_MOST_KNOWN = 8192
"""Elements of a result that stays the same up to which kernels are bound to it."""

_REMEMBERED = 64
"""Later signatures that are remembered until they come again."""


class PlannedRun(NamedTuple):
    """A memory plan for one signature, and the instructions that write where it says.

    Attributes:
        plan: The memory plan.
        whole: An instruction for each step.
        kept: Results that stay the same, by slot.
        instructions: The same with one instruction for all results that stay the same and are read by other steps.
        numbers: The number of the step of each of `instructions`.
    """

    plan: MemoryPlan
    whole: list[Instruction]
    kept: Mapping[int, Any]
    instructions: list[Instruction]
    numbers: Sequence[int]


class Choice(NamedTuple):
    """The decision how a signature is run.

    Attributes:
        planned: The planned run, None where the kernels make all arrays.
        record: Whether to record the run, in order to plan the next ones.
        final: Whether later runs of the signature need not ask again.
        plans: All memory plans whose arrays are worth keeping.
    """

    planned: PlannedRun | None
    record: bool
    final: bool
    plans: set[MemoryPlan]


class PlannedRuns:
    """Signatures of one program, and the memory plans that were made for them. Shared by threads.

    Args:
        captured: For the program of a body, its slots that the plan around gives; None for a main program.
        compile_step: Compiles a step of the plan.
        reuses_memory: Whether to plan; without, one run is recorded for the figures.

    Attributes:
        poison: For tests: the arena is overwritten before each run. Set on the class.
        only: The slot of the only input that is asked for, 0 where there are several or none.
        over: There is nothing to plan and nothing more to record: frames need not ask any more.
        high_water: The most bytes that were alive at once in a recorded run.
        largest: (node and operator, bytes) at that moment.
        last: The signature that was asked for last.
        results: Gives results that follow from the shapes of a run; None where nothing does, or few shapes were met.
    """

    poison: ClassVar[bool] = False

    def __init__(
        self,
        plan: ExecutionPlan,
        instructions: list[Instruction],
        captured: Iterable[int] | None,
        compile_step: Callable[[Step], Instruction],
        *,
        reuses_memory: bool = True,
    ) -> None:
        self._plan = plan
        self._instructions = instructions
        self._compile_step = compile_step
        self.over = False
        self.high_water = 0
        self.largest: tuple[tuple[str, int], ...] = ()
        tensors = [value for value in plan.inputs if isinstance(value.type, TensorType)]
        # The feeds of a main program were checked against their types; the inputs of a body are not checked.
        fixed = {value.slot for value in tensors if captured is None and _is_fixed(value.type)}
        self.asked = (*(value.slot for value in tensors if value.slot not in fixed), *(captured or ()))
        self.only = self.asked[0] if captured is None and len(self.asked) == 1 else 0
        self._fixed = fixed
        self._plans: dict[Signature, PlannedRun | None] = {}
        self._met: dict[Signature, None] = {}
        self._recorded = 0
        self._credit = _MOST_CREDIT
        self._unplanned = 0
        self.last: Signature | None = None
        self._unsteady: set[int] = set()
        self.results: ShapeResults | None = None
        self._pays = False
        self._reuses = reuses_memory
        self._reusing: list[ReusingStep] | None = None if reuses_memory else []
        # Results of plug-ins' kernels are checked when a run is recorded, so new signatures are recorded.
        self._checked = any(isinstance(step, KernelStep) and step.check is not None for step in plan.steps)
        self._asks_shapes = captured is None and reuses_memory and not self._checked
        self._lock = ProcessLock()

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

    def takes_results(self, signature: Signature) -> bool:
        """Return whether a run takes `results` and needs no plan: a plan would gain nothing more, and the signature is
        not the one of the run before."""
        return self.results is not None and not self._pays and signature != self.last

    def choice(self, signature: Signature) -> Choice:
        """Decide how the next run of a signature runs."""
        with self._lock.held():
            known = signature in self._plans
            if known:
                planned = self._plans[signature] = self._plans.pop(signature)  # the most recent is last
                record = False
                self._credit = min(self._credit + 1, _MOST_CREDIT)
            else:
                planned = None
                record = self._recorded < _AT_ONCE or self._met.pop(signature, self) is None
                gains = self._pays or self.results is None
                record = record and ((gains and self._credit >= _COST) or signature == self.last)
                if not record:
                    self._met[signature] = None
                    if len(self._met) > _REMEMBERED:
                        del self._met[next(iter(self._met))]
                self._recorded += record
                self._credit -= _COST * record
            self.last = signature
            self._unplanned += not (record or planned)
            if self._asks_shapes and self._unplanned > _PATIENCE:
                self._asks_shapes, self.results = False, self._shape_results()
            plans = {one.plan for one in self._plans.values() if one is not None}
            return Choice(planned, record, known, plans)

    def _shape_results(self) -> ShapeResults | None:
        """Find what follows from the shapes alone: where shapes differ from run to run, and not for the first few."""
        from ort_py.planning.shape_program import shape_program

        found = shape_program(self._plan)
        if found is None:
            return None
        from ort_py.execution.shape_results import ShapeResults

        return ShapeResults(self._plan, self._instructions, found, self._compile_step)

    def recording(
        self, signature: Signature, slots: Slots, peak_of_body: Callable[[int], int]
    ) -> list[Instruction] | None:
        """Make instructions that record the run of a signature and plan the next ones.

        Args:
            slots: Slots of the frame, its inputs in place.
            peak_of_body: Returns the most bytes that a body held, which is named by the slot of its frame.

        Returns:
            None where the plan has no steps: then there is nothing more to record.
        """
        fixed = steps_fixed_by_shapes(self._plan, self._steady(signature), self._unsteady) if self._reuses else ()
        record = RunRecord(self._plan.steps, slots, fixed)
        instructions = record.instructions(self._instructions, peak_of_body)
        if not instructions:
            self.over = True
            return None
        last = instructions[-1]

        def finish(s: Slots) -> None:
            last(s)
            self._finish(signature, record)

        instructions[-1] = finish
        return instructions

    def _finish(self, key: Signature, record: RunRecord) -> None:
        if record.high_water > self.high_water:
            self.high_water, self.largest = record.high_water, record.largest()
        if self._reusing is None:
            self._reusing = reusing_steps(self._plan) if may_reuse(self._plan) else []
        unsteady = self._unsteady
        planned = self._planned(record, self._steady(key), unsteady) if self._reusing or record.kept else None
        with self._lock.held():
            if unsteady is not self._unsteady:
                return  # another thread found out more meanwhile
            self._plans[key] = planned
            self._pays = planned is not None and bool(planned.plan.values)
            if len(self._plans) > _MOST_PLANS:
                del self._plans[next(iter(self._plans))]
            self.over = planned is None and not (self._reusing and self.asked) and not self._checked

    def _steady(self, signature: Signature) -> set[int]:
        """Slots of inputs that hold the same shape in every run of a signature."""
        shapes = (signature,) if self.only else signature
        return self._fixed.union(slot for slot, shape in zip(self.asked, shapes, strict=True) if shape is not None)

    def _planned(self, record: RunRecord, steady: set[int], unsteady: set[int]) -> PlannedRun | None:
        from ort_py.planning.memory_plan import MemoryPlan, plan_memory  # a program of one region has nothing to plan

        assert self._reusing is not None  # it was found before
        reusing = [one for one in self._reusing if one.number not in record.kept]
        plan = plan_memory(self._plan, reusing, record.seen, steady, unsteady) or MemoryPlan((), {}, {}, {})
        if not (plan.values or record.kept):
            return None
        steps, checks = self._plan.steps, dict(plan.checks)
        made = {slot: number for number, one in enumerate(steps) if number not in record.kept for slot in one.outputs}
        for slot in made.keys() & {steps[number].inputs[0] for number in record.kept if reads_shape(steps[number])}:
            checks[made[slot]] = (*checks.get(made[slot], ()), (slot, record.seen[slot].shape))
        plan = MemoryPlan(plan.values, plan.steps, checks, plan.sizes)
        kept = {
            slot: result
            for number, results in record.kept.items()
            for slot, result in zip(steps[number].outputs, results, strict=True)
        }
        whole = self._writing(plan, record.kept, kept, made)
        return PlannedRun(plan, whole, kept, *self._without_kept(whole, record.kept, kept, made))

    def _without_kept(
        self, whole: Sequence[Instruction], steps_kept: Collection[int], kept: Mapping[int, Any], made: Container[int]
    ) -> tuple[list[Instruction], list[int]]:
        """The instructions without those of the steps that are kept, and their numbers: the results that others read
        are put into their slots at once, and what the run has made is released."""
        steps = self._plan.steps
        read = {slot for number, step in enumerate(steps) if number not in steps_kept for slot in step.inputs}
        placed = [slot for slot in kept if slot in read]
        instructions: list[Instruction] = []
        numbers: list[int] = []
        if placed:
            instructions.append(compile_kept(placed, [kept[slot] for slot in placed], ()))
            numbers.append(min(steps_kept))
        for number, instruction in enumerate(whole):
            if number not in steps_kept:
                instructions.append(instruction)
            elif released := [slot for slot in steps[number].release if slot in made]:
                instructions.append(compile_release(released))
            else:
                continue
            numbers.append(number)
        return instructions, numbers

    def _writing(
        self, memory: MemoryPlan, kept: Mapping[int, Sequence[Any]], by_slot: Mapping[int, Any], made: Container[int]
    ) -> list[Instruction]:
        """Instructions that write into a memory plan's arrays, behind the other slots; `kept` results replace steps.

        They release what the run has `made`. Feeds are dropped after it, and kept results stay anyway.
        """
        instructions = list(self._instructions)
        base = len(self._plan.template)
        bound = self._bound_to(by_slot, kept)
        for number, kernel in bound.items():
            instructions[number] = self._compile_step(kernel)
        self._choose(instructions, by_slot, kept)
        for number, indices in memory.steps.items():
            step = bound.get(number) or self._plan.steps[number]
            assert isinstance(step, KernelStep)
            instructions[number] = compile_into(step, [base + index for index in indices])
        for number, wanted in memory.checks.items():
            instructions[number] = with_check(instructions[number], number, wanted)
        for number, results in kept.items():
            step = self._plan.steps[number]
            released = [slot for slot in step.release if slot in made]
            instructions[number] = compile_kept(step.outputs, results, released)
        return instructions

    def _choose(self, instructions: list[Instruction], results: Mapping[int, Any], steps_kept: Container[int]) -> None:
        """Replace the instructions of an If whose condition is kept."""
        for number, step in enumerate(self._plan.steps):
            if not isinstance(step, IfStep) or number in steps_kept:
                continue
            condition = results.get(step.inputs[0])
            if isinstance(condition, (np.ndarray, np.generic)) and condition.size == 1:
                instructions[number] = self._compile_step(replace(step, known=bool(condition.item())))

    def _bound_to(self, results: Mapping[int, Any], steps_kept: Container[int]) -> dict[int, KernelStep]:
        """Steps whose kernels know inputs that are kept, such as sizes and indices, by number."""
        plan = self._plan
        outputs = {output.slot for output in plan.outputs}  # steps that make them may be handed arrays to write to
        known = {
            slot: result
            for slot, result in results.items()
            if type(result) is np.ndarray and result.dtype.kind in "bi" and result.size <= _MOST_KNOWN
        }
        given = {value.slot for value in plan.inputs}
        found: dict[int, KernelStep] = {}
        for number, step in enumerate(plan.steps):
            if number in steps_kept or not isinstance(step, KernelStep) or step.bind is None:
                continue
            if known.keys().isdisjoint(step.inputs) or not outputs.isdisjoint(step.outputs):
                continue
            constants = {
                place: known.get(slot, plan.template[slot])
                for place, slot in enumerate(step.inputs)
                if slot in known or (slot not in given and slot != NONE_SLOT and plan.template[slot] is not None)
            }
            try:
                bound = step.bind(constants)
            except OrtPyError:
                continue  # it is refused in the run, where that is explained
            if not bound.replaced:
                found[number] = replace(step, call=bound.call, into=bound.into)
        return found


def _is_fixed(value_type: Any) -> bool:
    shape = value_type.shape
    return shape is not None and all(isinstance(dim, int) for dim in shape)
