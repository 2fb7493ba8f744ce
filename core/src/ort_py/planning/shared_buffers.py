"""Steps that may update an input of the model in place: what one memory for a feed and an output needs of the plan.

A caller may bind an output over an input, as decoders do with their caches. A step may then write over the feed only
if nothing reads it afterwards: no later step, no step of a device that works on behind the host's back, and no other
output, which is collected at the end of the run. This module decides that for a plan; whether the memory of a run is
the same, and shared with nothing else, is for `execution`.
"""

from __future__ import annotations

from collections.abc import Mapping

from ort_py.devices import HOST
from ort_py.planning.plan import BaseStep, ExecutionPlan, KernelStep, RegionStep
from ort_py.planning.reuse import AliasClasses


def pairs_over_feeds(plan: ExecutionPlan) -> Mapping[int, int]:
    """Slot of the feed that each output of a plan may be written over, by the slot of the output."""
    steps = [(number, step, pairs) for number, step in enumerate(plan.steps) if (pairs := _pairs(step))]
    if not steps:
        return {}
    classes = AliasClasses(plan)
    feeds: dict[int, list[int]] = {}
    for value in plan.inputs:
        if not value.default and value.device == HOST:
            feeds.setdefault(classes.of(value.slot), []).append(value.slot)
    results = {output.slot for output in plan.outputs if not output.copy and output.device == HOST}
    found: dict[int, int] = {}
    for number, step, pairs in steps:
        for slot, made in pairs:
            group = classes.of(slot)
            if (
                made in results
                and feeds.get(group) == [slot]
                and classes.last[group] == number
                and sum(classes.of(other) == group for other in step.inputs) == 1
                and group not in classes.escaping
                and group not in classes.leaving
                and made not in found
                and slot not in found.values()
            ):
                found[made] = slot
    return found


def _pairs(step: BaseStep) -> list[tuple[int, int]]:
    """Slots of an input and an output of a step that may be one array."""
    if isinstance(step, KernelStep) and step.device == HOST and (step.into or step.over):
        places = step.inplace
    elif isinstance(step, RegionStep) and step.device == HOST:
        places = step.region.inplace
    else:
        return []
    return [
        (step.inputs[position], step.outputs[result])
        for position, result in places
        if position < len(step.inputs) and result < len(step.outputs)
    ]
