"""Steps of a plan that may write into memory kept by the frame, and steps that may overwrite an input.

This module decides what is certain before any shape is known; `memory_plan` decides the rest from a recorded run. Comes
after `alias_classes`. A result that may reach the caller, or the plan around, never is in the frame's memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ort_py.devices import HOST
from ort_py.planning.alias_classes import AliasClasses
from ort_py.planning.plan import ExecutionPlan
from ort_py.planning.steps import KernelStep

__all__ = ["ReusingStep", "may_reuse", "reusing_steps"]


@dataclass(frozen=True, slots=True)
class ReusingStep:
    """A step whose outputs may be written into given memory.

    Attributes:
        number: Its number in the plan.
        step: The step.
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
    """Whether a call of `reusing_steps` pays: some kernel can write into given arrays, not only into the caller's."""
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
