"""Dependencies between the steps of a plan for parallel execution, found once from the slots they touch.

A step waits for the writers of its inputs, and a writer for the steps that used the slot before. On top of that:

* Steps on a device with a stream keep the plan's order, on one thread: a stream belongs to one thread at a time.
* A step on the host that reads what a stream brought waits for the wait step in front of it, as it does in the plan.
* A compiled region on the host has threads of its own, as many as the run: nothing runs beside it.
* A step with bodies is one step, and as special as the most special step inside.

Comes after the plan, before `lanes`. It is independent of times and threads.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence, Set

from ort_py.devices import Device
from ort_py.lazy_dataclass import dataclass
from ort_py.planning.plan import CopyStep, ExecutionPlan, RegionStep, Step, WaitStep


@dataclass(frozen=True, slots=True)
class Dependencies:
    """Order among the steps of a plan; all numbers are places in ``plan.steps``.

    Attributes:
        waits: Steps each step waits for, in ascending order; always earlier ones.
        pinned: Steps that belong to the thread that began the run.
    """

    waits: tuple[tuple[int, ...], ...]
    pinned: frozenset[int]

    @property
    def longest(self) -> int:
        lengths: list[int] = []
        for before in self.waits:
            lengths.append(1 + max((lengths[step] for step in before), default=0))
        return max(lengths, default=0)

    @property
    def branches(self) -> bool:
        """True if two steps of the plan may run at the same time."""
        return self.longest < len(self.waits) and len(self.pinned) < len(self.waits)


def dependencies_of(plan: ExecutionPlan) -> Dependencies:
    """The dependencies of a main plan's steps."""
    streamed = {device for device, _ in plan.streams}
    touched: dict[int, list[int]] = {}
    writer: dict[int, int] = {}
    waits: list[tuple[int, ...]] = []
    pinned: set[int] = set()
    last_wait = last_pinned = barrier = -1
    for number, step in enumerate(plan.steps):
        before = {barrier}
        for slot in step.inputs:
            before.add(writer.get(slot, -1))
        for slot in step.outputs:
            before.update(touched.get(slot, ()))
        if _is_pinned(step, streamed, plan.streaming):
            before.add(last_pinned)
            pinned.add(number)
            last_pinned = number
        elif last_wait >= 0 and any(writer.get(slot, -1) in pinned for slot in step.inputs):
            before.add(last_wait)
        if _has_own_threads(step, streamed):
            before.update(range(max(0, barrier), number))
            barrier = number
        if isinstance(step, WaitStep):
            last_wait = number
        for slot in (*step.inputs, *step.outputs):
            touched.setdefault(slot, []).append(number)
        for slot in step.outputs:
            writer[slot] = number
        waits.append(tuple(sorted(before - {-1})))
    return Dependencies(tuple(waits), frozenset(pinned))


def _with_inner(step: Step) -> list[Step]:
    """A step and all steps of its bodies, however deep."""
    found, pending = [step], [step]
    while pending:
        for _, body in pending.pop().bodies:
            found.extend(body.plan.steps)
            pending.extend(inner for inner in body.plan.steps if inner.bodies)
    return found


def _is_pinned(step: Step, streamed: Set[Device], streaming: Collection[str]) -> bool:
    return bool(streamed) and any(
        inner.provider in streaming or not streamed.isdisjoint(_devices(inner)) for inner in _with_inner(step)
    )


def _has_own_threads(step: Step, streamed: Set[Device]) -> bool:
    return any(isinstance(inner, RegionStep) and inner.device not in streamed for inner in _with_inner(step))


def _devices(step: Step) -> Sequence[Device]:
    match step:
        case CopyStep():
            return [device for hop in step.hops for device in (hop.source, hop.target)]
        case WaitStep() | RegionStep():
            return [step.device]
        case _:
            return []
