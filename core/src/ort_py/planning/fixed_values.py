"""Steps of a plan whose results follow from the shapes of its inputs: sizes, positions, causal masks.

What such a step made in one run is what it makes in every run of the same shapes, so `execution.planned_runs` keeps it.
Only what is certain counts: shapes of the plan's own inputs, and what deterministic operators of ONNX, or regions of
them, compute from those and from constants. Results that reach the caller, or another device, are made again each time.
"""

from __future__ import annotations

from collections.abc import Collection

from ort_py.devices import HOST
from ort_py.planning.plan import NONE_SLOT, ContiguousStep, ExecutionPlan, KernelStep, RegionStep, Step
from ort_py.planning.reuse import AliasClasses

_RANDOM = ("Bernoulli", "Dropout", "Multinomial", "Random")
"""What the names of the operators of ONNX begin with whose results are drawn anew each time."""


def is_deterministic(op_type: str, domain: str) -> bool:
    """Return whether equal inputs give equal outputs; of operators of other domains nothing says so."""
    return not domain and not op_type.startswith(_RANDOM)


def steps_fixed_by_shapes(plan: ExecutionPlan, steady: Collection[int]) -> frozenset[int]:
    """Numbers of the steps whose results are the same in all runs in which `steady` input slots hold these shapes."""
    classes = AliasClasses(plan)
    unsafe, given = classes.escaping | classes.leaving, {value.slot for value in plan.inputs}
    known = {NONE_SLOT, *(slot for slot, one in enumerate(plan.template) if one is not None and slot not in given)}
    found: set[int] = set()
    for number, step in enumerate(plan.steps):
        of_shapes = step.location.op_type in ("Shape", "Size")
        if _is_repeatable(step) and known.union(steady if of_shapes else ()).issuperset(step.inputs):
            known.update(step.outputs)
            if unsafe.isdisjoint(map(classes.of, step.outputs)):
                found.add(number)
    return frozenset(found)


def _is_repeatable(step: Step) -> bool:
    if isinstance(step, KernelStep):
        return step.device == HOST and is_deterministic(step.location.op_type, step.location.domain)
    return isinstance(step, ContiguousStep) or (
        isinstance(step, RegionStep) and step.device == HOST and step.deterministic
    )
