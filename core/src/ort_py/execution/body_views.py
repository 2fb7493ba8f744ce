"""Bodies that only make views of what is around them, without a frame: such as a Squeeze or an Identity.

PyTorch's exporter writes an If for each `squeeze` of a size that it does not know, with such branches. A child frame
takes several times as long as they do. They hold no memory, so no record misses them. Comes after `instructions`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from ort_py.execution.instructions import compile_kernel
from ort_py.execution.sequential import cause_of, placed
from ort_py.planning.plan import KernelStep

if TYPE_CHECKING:
    from ort_py.execution.instructions import Slots
    from ort_py.planning.plan import NestedPlan

__all__ = ["compile_single_views", "compile_views"]

_MOST = 4
"""Steps of a body up to which its frame takes longer than they do."""


def compile_views(body: NestedPlan) -> Callable[[Slots], list[Any]] | None:
    """Compile a body without inputs to a function that returns its outputs for the slots around it.

    Returns:
        None if the body does anything else than make views.
    """
    plan = body.plan
    steps = [step for step in plan.steps if isinstance(step, KernelStep) and _is_view(step)]
    if plan.inputs or len(steps) != len(plan.steps) or len(steps) > _MOST:
        return None
    instructions = [compile_kernel(step) for step in steps]
    template, captures = list(plan.template), body.captures
    outputs = [output.slot for output in plan.outputs]

    def views(s: Slots) -> list[Any]:
        inner = template.copy()
        for around, here in captures:
            inner[here] = s[around]
        left = iter(instructions)
        try:
            for instruction in left:
                instruction(inner)
        except Exception as error:  # a kernel may raise anything; it is placed and chained
            done = len(instructions) - operator.length_hint(left)
            raise placed(error, steps[done - 1], inner) from cause_of(error)
        return [inner[slot] for slot in outputs]

    return views


def compile_single_views(body: NestedPlan) -> list[tuple[Callable[[Any], Any], int]] | None:
    """Compile a body of which each output is one view of one value around it.

    Returns:
        For each output its function and the slot of the value; None if the body does anything else.
    """
    plan = body.plan
    around = {here: outer for outer, here in body.captures}
    made: dict[int, tuple[Callable[[Any], Any], int]] = {}
    for step in plan.steps:
        if not isinstance(step, KernelStep) or not _is_view(step) or len(step.outputs) != 1 or not step.inputs:
            return None
        first, *others = step.inputs
        if first not in around or any(slot in around or slot in made for slot in others):
            return None
        rest = tuple(plan.template[slot] for slot in others)
        made[step.outputs[0]] = partial(_called, step.call, rest) if rest else step.call, around[first]
    outputs = [output.slot for output in plan.outputs]
    return [made[slot] for slot in outputs] if not plan.inputs and sorted(outputs) == sorted(made) else None


def _called(call: Callable[..., Any], rest: tuple[Any, ...], value: Any) -> Any:
    return call(value, *rest)


def _is_view(step: KernelStep) -> bool:
    """Return whether all outputs of a step share memory with its inputs, and nothing looks at them."""
    return step.check is None and {output for output, _ in step.views} >= set(range(len(step.outputs)))
