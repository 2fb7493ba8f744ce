"""Slots of a plan that may share memory, and the time until which that memory is read.

Slots are joined into classes by what the steps declare: views, arrays that are contiguous already, and control flow,
which may return what it was given. Comes after the steps are in order, before `reuse`. Knows no shapes and no bytes.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from ort_py.devices import HOST
from ort_py.planning.plan import ExecutionPlan
from ort_py.planning.steps import (
    FRAME_SLOT,
    NONE_SLOT,
    ContiguousStep,
    CopyStep,
    KernelStep,
    RegionStep,
    Step,
    WaitStep,
)

__all__ = ["AliasClasses"]


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
        """The class of a slot."""
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
            for result, source in step.views:
                if result < len(step.outputs) and source < len(step.inputs):
                    yield step.outputs[result], step.inputs[source]
        case RegionStep() | CopyStep() | WaitStep():
            return  # by their contracts these make arrays of their own, or none
        case ContiguousStep():
            yield step.outputs[0], step.inputs[0]
        case _:
            # A body may return an outer value as it is, and a loop without iterations its initial values.
            slots = [slot for slot in (*step.outputs, *step.inputs) if slot != NONE_SLOT]
            yield from itertools.pairwise(slots)


def _is_elsewhere(step: Step) -> bool:
    """Whether the work of a step may continue after its call returned, on a device's stream."""
    match step:
        case KernelStep() | RegionStep():
            return step.device != HOST
        case CopyStep():
            return True
        case _:
            return False
