"""Steps of a plan that may write into memory kept by the frame, and steps that may overwrite an input.

This module decides what is certain before any shape is known; `memory_plan` decides the rest from a recorded run.
Slots are joined into classes by what the steps declare: views, arrays that are contiguous already, and control flow,
which may return what it was given. A result that may reach the caller, or the plan around, never is in the memory of
the frame.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from ort_py.devices import HOST
from ort_py.lazy_dataclass import dataclass
from ort_py.planning.plan import (
    FRAME_SLOT,
    NONE_SLOT,
    ContiguousStep,
    CopyStep,
    ExecutionPlan,
    KernelStep,
    RegionStep,
    Step,
    WaitStep,
)


@dataclass(frozen=True, slots=True)
class ReusingStep:
    """A step whose outputs may be written into given memory.

    Attributes:
        until: Number of the last step that reads each output, or a view of it.
        inplace: (position of the input, position of the output): the input is the output of another such step, so that
            its memory is the frame's, and this step is the last to read it, once.
    """

    number: int
    step: KernelStep
    until: tuple[int, ...]
    inplace: tuple[tuple[int, int], ...]

    def __str__(self) -> str:
        over = " or ".join(f"%{self.step.inputs[source]}" for source, _ in self.inplace)
        return f"may write over {over}" if over else "may reuse memory"


def may_reuse(plan: ExecutionPlan) -> bool:
    """Return whether a call of `reusing_steps` pays: some kernel can write into given arrays, not only into the
    caller's.
    """
    results = {value.slot for value in plan.outputs}
    return any(
        isinstance(step, KernelStep) and step.into is not None and not results.issuperset(step.outputs)
        for step in plan.steps
    )


def reusing_steps(plan: ExecutionPlan) -> list[ReusingStep]:
    """The steps whose outputs may be written into memory of the frame, in order."""
    classes = AliasClasses(plan)
    unsafe = {**dict.fromkeys(plan.allocators, classes.escaping), HOST: classes.escaping | classes.leaving}
    reusing: list[ReusingStep] = []
    ours: set[int] = set()
    for number, step in enumerate(plan.steps):
        if not isinstance(step, KernelStep) or step.into is None or step.device not in unsafe:
            continue
        if any(classes.of(slot) in unsafe[step.device] for slot in step.outputs):
            continue
        until = tuple(classes.last[classes.of(slot)] for slot in step.outputs)
        reusing.append(ReusingStep(number, step, until, tuple(_pairs_in_place(number, step, classes, ours))))
        ours.update(step.outputs)
    return reusing


def _pairs_in_place(number: int, step: KernelStep, classes: AliasClasses, ours: set[int]) -> Iterable[tuple[int, int]]:
    for position, result in step.inplace:
        if position >= len(step.inputs) or result >= len(step.outputs):
            continue
        slot = step.inputs[position]
        group = classes.of(slot)
        # A view of the memory will not do: it may have another order of elements.
        if slot in ours and classes.last[group] == number:
            readers = sum(classes.of(other) == group for other in step.inputs)
            if readers == 1:
                yield position, result


class AliasClasses:
    """Classes of slots that may share memory. A class is named by one of its slots; ask `of`.

    Attributes:
        last: Number of the last step that reads or makes a slot of a class.
        escaping: Classes that a result of the plan belongs to.
        leaving: Classes with an array of the host that work of another device may read behind the host's back.
    """

    def __init__(self, plan: ExecutionPlan) -> None:
        self._parent = list(range(len(plan.template)))
        for step in plan.steps:
            for left, right in _pairs(step):
                self._join(left, right)
        self.last: dict[int, int] = {}
        self.leaving: set[int] = set()
        self.escaping = {self.of(value.slot) for value in plan.outputs}
        for number, step in enumerate(plan.steps):
            for slot in (*step.inputs, *step.outputs):
                self.last[self.of(slot)] = number
            if _is_elsewhere(step):
                self.leaving.update(self.of(slot) for slot in step.inputs)

    def of(self, slot: int) -> int:
        parent = self._parent
        while parent[slot] != slot:
            parent[slot] = parent[parent[slot]]
            slot = parent[slot]
        return slot

    def _join(self, left: int, right: int) -> None:
        if left not in (FRAME_SLOT, NONE_SLOT) and right not in (FRAME_SLOT, NONE_SLOT):
            self._parent[self.of(left)] = self.of(right)


def _pairs(step: Step) -> Iterable[tuple[int, int]]:
    """(output, input) of what may share memory."""
    match step:
        case KernelStep():
            results = [result for result, _ in step.views]  # a sequence that is in several pairs may hold any input
            for (result, source), place in itertools.product(step.views, range(len(step.inputs))):
                if result < len(step.outputs) and (place == source or results.count(result) > 1):
                    yield step.outputs[result], step.inputs[place]
        case RegionStep() | CopyStep() | WaitStep():
            return  # by their contracts these make arrays of their own, or none
        case ContiguousStep():
            yield step.outputs[0], step.inputs[0]
        case _:
            # A body may return an outer value as it is, and a loop without iterations its initial values.
            slots = [slot for slot in (*step.outputs, *step.inputs) if slot != NONE_SLOT]
            yield from itertools.pairwise(slots)


def _is_elsewhere(step: Step) -> bool:
    """Return whether the work of a step may continue after its call returned, on a device's stream."""
    match step:
        case KernelStep() | RegionStep():
            return step.device != HOST
        case CopyStep():
            return True
        case _:
            return False
