"""Bodies that only make views of what is around them, without a frame: such as a Squeeze or an Identity.

PyTorch's exporter writes an If for each `squeeze` of a size that it does not know, with such branches. A child frame
takes several times as long as they do. They hold no memory, so no record misses them. Comes after `instructions`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ort_py.execution.instructions import compile_kernel
from ort_py.execution.sequential import cause_of, placed
from ort_py.planning.plan import KernelStep

if TYPE_CHECKING:
    from ort_py.execution.instructions import Slots
    from ort_py.planning.plan import NestedPlan

__all__ = ["compile_views"]

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


def _is_view(step: KernelStep) -> bool:
    """Return whether all outputs of a step share memory with its inputs, and nothing looks at them."""
    return step.check is None and {output for output, _ in step.views} >= set(range(len(step.outputs)))
