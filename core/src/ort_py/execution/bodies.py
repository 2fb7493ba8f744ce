"""A body's run in a child frame: captures in, inputs in, steps, outputs out. Shared by all steps that hold bodies.

It does not depend on operators. Captures are handed over once, before the first iteration.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ort_py.errors import InvalidArgument, Location
from ort_py.execution.sequential import run_frame
from ort_py.planning.plan import NestedPlan

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
