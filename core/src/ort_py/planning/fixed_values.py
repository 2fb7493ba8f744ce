"""Steps of a plan whose results follow from the shapes of its inputs: sizes, positions, causal masks.

What such a step made in one run is what it makes in every run of the same shapes, so `execution.planned_runs` keeps it.
That goes for what deterministic operators of ONNX, or regions of them, compute from shapes and constants, if it reaches
neither the caller nor another device.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ort_py.devices import HOST
from ort_py.planning.plan import NONE_SLOT, ContiguousStep, ExecutionPlan, KernelStep, RegionStep, Step
from ort_py.planning.reuse import AliasClasses

_RANDOM = ("Bernoulli", "Dropout", "Multinomial", "Random")  # what the names of ONNX's random operators begin with


def is_deterministic(op_type: str, domain: str) -> bool:
    """Return whether equal inputs give equal outputs; of operators of other domains nothing says so."""
    return not domain and not op_type.startswith(_RANDOM)


def steps_fixed_by_shapes(
    plan: ExecutionPlan, steady: Iterable[int], unsteady: Collection[int] = (), known: Collection[int] = ()
) -> frozenset[int]:
    """Numbers of the steps that make the same in runs in which `steady` slots of inputs hold these shapes, and so do
    all results whose shapes are read, but those of `unsteady` steps: whoever keeps results looks at these shapes.

    Args:
        known: Slots of which it is known otherwise that they hold the same.
    """
    classes, shaped = AliasClasses(plan), set(steady)
    unsafe, given = classes.escaping | classes.leaving, {value.slot for value in plan.inputs}
    fixed = {
        *known,
        NONE_SLOT,
        *(slot for slot, one in enumerate(plan.template) if one is not None and slot not in given),
    }
    found: set[int] = set()
    for number, step in enumerate(plan.steps):
        reads = shaped if reads_shape(step) else fixed
        if _is_repeatable(step) and (
            all(slot in reads or slot in fixed for slot in step.inputs)
            or (step.outputs and all(slot in known for slot in step.outputs))
        ):
            fixed.update(step.outputs)
            if unsafe.isdisjoint(map(classes.of, step.outputs)):
                found.add(number)
        if number not in unsteady:
            shaped.update(step.outputs)
    return frozenset(found)


def reads_shape(step: Step) -> bool:
    """Return whether a step reads nothing but the shape of its input. A region is named by its first node only."""
    place = step.location
    return isinstance(step, KernelStep) and place.op_type in ("Shape", "Size") and not place.domain


def _is_repeatable(step: Step) -> bool:
    if isinstance(step, KernelStep):
        return step.device == HOST and is_deterministic(step.location.op_type, step.location.domain)
    return isinstance(step, ContiguousStep) or (isinstance(step, RegionStep) and step.deterministic)
