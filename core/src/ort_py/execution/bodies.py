"""A body's run in a child frame: captures in, inputs in, steps, outputs out. Shared by all steps that hold bodies.

It does not depend on operators. Captures are handed over once, before the first iteration.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ort_py.errors import InvalidArgument, Location
from ort_py.execution.sequential import run_frame
from ort_py.execution.stacking import check_states
from ort_py.planning.plan import BatchedScanStep, NestedPlan, ScanStep

if TYPE_CHECKING:
    from ort_py.execution.frame import Frame
    from ort_py.execution.instructions import Slots


def enter(s: Slots, body: NestedPlan) -> Frame:
    """The body's frame with its captures in place; what the frame around it holds counts until `leave`."""
    parent: Frame = s[0]
    frame = parent.child(body)
    for outer, inner in body.captures:
        frame.slots[inner] = s[outer]
    if frame.watch is not None:
        frame.watch.enter(s)
    return frame


def leave(frame: Frame, body: NestedPlan) -> None:
    """The last iteration is done: a pooled frame keeps no capture alive."""
    if frame.watch is not None:
        frame.watch.leave()
    for _, inner in body.captures:
        frame.slots[inner] = None


def run_body(frame: Frame, feeds: Sequence[Any]) -> list[Any]:
    plan, slots = frame.program.plan, frame.slots
    for value, feed in zip(plan.inputs, feeds, strict=True):
        slots[value.slot] = feed
    run_frame(frame)
    results = [slots[value.slot] for value in plan.outputs]
    frame.clear()
    return results


def run_slices(
    step: ScanStep | BatchedScanStep, frame: Frame, states: list[Any], scans: Sequence[Any], length: int
) -> tuple[list[Any], list[list[Any]]]:
    """Run the body of a Scan over slices of inputs whose first axis is the scanned one.

    Returns:
        The final states, and for each scan output what the iterations left.
    """
    watch, state_count = frame.watch, len(states)
    collected: list[list[Any]] = [[] for _ in step.scan_types]
    for iteration in range(length):
        if watch is not None:
            watch.before(step)  # a body may have no step at all
        slices = [
            # The ellipsis keeps a slice of a vector an array: strings would come out as `str`.
            array[length - 1 - iteration if backwards else iteration, ...]
            for array, backwards in zip(scans, step.directions, strict=True)
        ]
        results = run_body(frame, (*states, *slices))
        check_states(states, results, step.location)
        states = results[:state_count]
        for items, result in zip(collected, results[state_count:], strict=True):
            items.append(result)
        if watch is not None:
            watch.hold(step, results[state_count:])
    return states, collected


def store(s: Slots, outputs: tuple[int, ...], results: Sequence[Any], release: tuple[int, ...]) -> None:
    """Leave the results of a step in its slots, and drop what was used last."""
    for slot, result in zip(outputs, results, strict=True):
        s[slot] = result
    for slot in release:
        s[slot] = None


def truth(value: Any, where: Location) -> bool:
    """A condition."""
    if value is None or getattr(value, "size", 1) != 1:
        found = "absent" if value is None else f"an array of shape {tuple(value.shape)}"
        raise InvalidArgument(
            f"The condition is {found}, not one bool.",
            where=where,
            fix="Give it exactly one element, e.g. np.array(True).",
        )
    return bool(value.item() if hasattr(value, "item") else value)


def one_integer(value: Any, what: str, where: Location) -> int:
    """A number that steers a step."""
    if getattr(value, "size", 1) != 1:
        raise InvalidArgument(
            f"The {what} is an array of shape {tuple(value.shape)}, not one integer.",
            where=where,
            fix="Give it exactly one element, e.g. np.array(3).",
        )
    return int(value.item() if hasattr(value, "item") else value)
