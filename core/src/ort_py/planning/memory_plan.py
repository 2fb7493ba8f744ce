"""Places for intermediate values in reused memory, derived from a recorded run with the same input shapes.

A value may take the place of one that is no longer read; chains of steps that write over their input form one block.
Comes after `reuse`; `execution` keeps the memory and runs the plan made here. Does not depend on frames.

What stays out: values whose shape the data decide (`unsteady`), those of steps that make their outputs themselves, and
those that were not contiguous, so that the layout of a value does not depend on the run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np

from ort_py.devices import Device
from ort_py.lazy_dataclass import dataclass
from ort_py.planning.plan import NONE_SLOT, ExecutionPlan, KernelStep
from ort_py.planning.reuse import ReusingStep
from ort_py.planning.seen_value import SeenValue

ALIGNMENT = 64
"""Bytes: a cache line, and the widest vector register."""

_MOST_VALUES = 2048
"""Values that get a place; of more, the largest. It bounds the time planning takes, which the first runs wait for."""

_WORTH_BYTES, _WORTH_STEPS = 16 << 10, 16
"""Planning pays from this many bytes, or this many steps, on: a step that need not make an array of a few bytes saves
20 ns, which is what comparing the shape of an input costs."""


@dataclass(frozen=True, slots=True)
class PlannedValue:
    """A value with a place.

    Attributes:
        offset: Its first byte in the memory of that device.
        first: Number of the step that makes it.
        last: Number of the last step that reads it.
        over: Slot of the value it is written over, None where it is written beside all others.
    """

    slot: int
    device: Device
    offset: int
    seen: SeenValue
    first: int
    last: int
    over: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class MemoryPlan:
    """Places of one program's values for one signature of input shapes.

    Attributes:
        steps: Number of each step that writes into given memory, with the indices in `values` of its outputs.
        checks: (slot, shape) to look at after a step: where another shape is found, the run continues unplanned.
        sizes: Bytes of memory, by device.
    """

    values: tuple[PlannedValue, ...]
    steps: Mapping[int, tuple[int, ...]]
    checks: Mapping[int, tuple[tuple[int, tuple[int, ...]], ...]]
    sizes: Mapping[Device, int]


def plan_memory(
    plan: ExecutionPlan,
    reusing: Sequence[ReusingStep],
    seen: Mapping[int, SeenValue],
    steady: Iterable[int],
    unsteady: Collection[int] = (),
) -> MemoryPlan | None:
    """Give places to values.

    Args:
        seen: Values of the recorded run, by slot; slots that held no array are absent.
        steady: Slots that hold the same shape in every run of the signature: those of its inputs.
        unsteady: Numbers of steps that were found to make other shapes in another run of the same signature.

    Returns:
        The plan; None where it would not pay.
    """
    known = _known_slots(plan, steady, unsteady)
    chosen = [one for one in reusing if _is_plannable(one, seen, known)]
    if len(chosen) > _MOST_VALUES:
        largest = sorted(chosen, key=lambda one: -sum(seen[slot].nbytes for slot in one.step.outputs))[:_MOST_VALUES]
        chosen = sorted(largest, key=lambda one: one.number)
    total = sum(seen[slot].nbytes for one in chosen for slot in one.step.outputs)
    if total < _WORTH_BYTES and len(chosen) < _WORTH_STEPS:
        return None
    blocks = _blocks(chosen, seen)
    sizes = _place(blocks)
    values: list[PlannedValue] = []
    steps: dict[int, tuple[int, ...]] = {}
    for one, members in _members(chosen, blocks):
        steps[one.number] = tuple(range(len(values), len(values) + len(members)))
        for (slot, last), (block, over) in zip(zip(one.step.outputs, one.until, strict=True), members, strict=True):
            values.append(PlannedValue(slot, block.device, block.offset, seen[slot], one.number, last, over))
    return MemoryPlan(tuple(values), steps, _checks(plan, chosen, seen), sizes)


def _known_slots(plan: ExecutionPlan, steady: Iterable[int], unsteady: Collection[int]) -> set[int]:
    """Slots whose shape follows from the signature, or is looked at in the run."""
    given = {value.slot for value in plan.inputs}
    known = {NONE_SLOT, *steady}
    known.update(slot for slot, content in enumerate(plan.template) if content is not None and slot not in given)
    for number, step in enumerate(plan.steps):
        if number not in unsteady and known.issuperset(step.inputs):
            known.update(step.outputs)
    return known


def _is_plannable(one: ReusingStep, seen: Mapping[int, SeenValue], known: set[int]) -> bool:
    if not known.issuperset(one.step.inputs):
        return False
    return all((value := seen.get(slot)) is not None and value.plain for slot in one.step.outputs)


@dataclass(slots=True, eq=False)
class _Block:
    """Memory of one value, or of several that are written one over the other."""

    device: Device
    first: int
    last: int
    nbytes: int
    offset: int = 0


def _blocks(chosen: Sequence[ReusingStep], seen: Mapping[int, SeenValue]) -> dict[int, tuple[_Block, int | None]]:
    """The block of each slot, and the slot it is written over."""
    blocks: dict[int, tuple[_Block, int | None]] = {}
    for one in chosen:
        for position, (slot, last) in enumerate(zip(one.step.outputs, one.until, strict=True)):
            given = _overwritten(one, position, blocks, seen)
            if given is None:
                blocks[slot] = (_Block(one.step.device, one.number, last, seen[slot].nbytes), None)
            else:
                block, _ = blocks[given]
                block.last = max(block.last, last)
                blocks[slot] = (block, given)
    return blocks


def _overwritten(
    one: ReusingStep, position: int, blocks: Mapping[int, tuple[_Block, int | None]], seen: Mapping[int, SeenValue]
) -> int | None:
    """Slot of the input that an output is written over. One pair a step: a second output may not meet the first."""
    for source, result in one.inplace:
        given, made = one.step.inputs[source], seen[one.step.outputs[result]]
        if given in blocks and blocks[given][0].device == one.step.device:
            before = seen[given]
            if before.shape == made.shape and before.dtype == made.dtype:
                return given if result == position else None
    return None


def _members(
    chosen: Sequence[ReusingStep], blocks: Mapping[int, tuple[_Block, int | None]]
) -> Iterable[tuple[ReusingStep, list[tuple[_Block, int | None]]]]:
    for one in chosen:
        yield one, [blocks[slot] for slot in one.step.outputs]


def _place(blocks: Mapping[int, tuple[_Block, int | None]]) -> dict[Device, int]:
    """Set the offsets: the largest block first, each in the lowest gap that those alive with it leave."""
    sizes: dict[Device, int] = {}
    by_device: dict[Device, dict[int, _Block]] = {}
    for block, _ in blocks.values():
        by_device.setdefault(block.device, {})[id(block)] = block
    for device, found in by_device.items():
        ordered = sorted(found.values(), key=lambda block: (-block.nbytes, block.first))
        count = len(ordered)
        first, last = np.empty(count, np.int64), np.empty(count, np.int64)
        begin, end = np.empty(count, np.int64), np.empty(count, np.int64)
        top = 0
        for index, block in enumerate(ordered):
            alive = np.flatnonzero((first[:index] <= block.last) & (last[:index] >= block.first))
            alive = alive[np.argsort(begin[alive])]
            block.offset = _lowest_gap(begin[alive].tolist(), end[alive].tolist(), block.nbytes)
            first[index], last[index] = block.first, block.last
            begin[index] = block.offset
            end[index] = block.offset + -(-block.nbytes // ALIGNMENT) * ALIGNMENT
            top = max(top, int(end[index]))
        sizes[device] = top
    return sizes


def _lowest_gap(begins: Sequence[int], ends: Sequence[int], nbytes: int) -> int:
    offset = 0
    for begin, end in zip(begins, ends, strict=True):
        if begin - offset >= nbytes:
            break
        offset = max(offset, end)
    return offset


def _checks(
    plan: ExecutionPlan, chosen: Sequence[ReusingStep], seen: Mapping[int, SeenValue]
) -> dict[int, tuple[tuple[int, tuple[int, ...]], ...]]:
    """Checks after steps whose outputs decide, directly or indirectly, which places later steps receive.

    Shapes of what a kernel with `into` makes follow from those of its inputs; anything else is looked at.
    """
    wanted = {slot for one in chosen for slot in one.step.inputs}
    checks: dict[int, tuple[tuple[int, tuple[int, ...]], ...]] = {}
    for number in range(len(plan.steps) - 1, -1, -1):
        step = plan.steps[number]
        found = wanted.intersection(step.outputs)
        if not found:
            continue
        if isinstance(step, KernelStep) and step.into is not None:
            wanted.update(step.inputs)
        else:
            checks[number] = tuple((slot, seen[slot].shape) for slot in step.outputs if slot in found and slot in seen)
    return checks
