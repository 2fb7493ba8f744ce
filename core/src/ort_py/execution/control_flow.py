"""If, Loop and Scan as instructions: bodies run in child frames of the same run.

Specification: ONNX If-1…, Loop-1…, Scan-9…. Captures are handed over once before the first iteration. Only the
iterations themselves loop in Python: slices and stacks are array operations.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ort_py.dtypes import TensorType, ValueType, numpy_dtype
from ort_py.errors import InvalidArgument, Location
from ort_py.execution.sequential import run_frame
from ort_py.planning.steps import NONE_SLOT, IfStep, LoopStep, NestedPlan, ScanStep

if TYPE_CHECKING:
    from ort_py.execution.frame import Frame
    from ort_py.execution.instructions import Instruction, Slots

__all__ = ["compile_if", "compile_loop", "compile_scan"]


def compile_if(step: IfStep) -> Instruction:
    """Run the branch the condition chooses."""
    condition, outputs, release = step.inputs[0], step.outputs, step.release

    def instruction(s: Slots) -> None:
        body = step.then_branch if _truth(s[condition], step.location) else step.else_branch
        frame = _enter(s, body)
        results = _run_body(frame, ())
        _leave(frame, body)
        _store(s, outputs, results, release)

    return instruction


def compile_loop(step: LoopStep) -> Instruction:
    """Run the body up to the trip count, while its condition holds."""
    carried_count = len(step.carried)

    def instruction(s: Slots) -> None:
        trip = None if step.trip_count == NONE_SLOT else s[step.trip_count]
        limit = None if trip is None else _integer(trip, "trip count", step.location)
        go_on = True if step.condition == NONE_SLOT else _truth(s[step.condition], step.location)
        carried = [s[slot] for slot in step.carried]
        collected: list[list[Any]] = [[] for _ in step.scan_types]
        frame = _enter(s, step.body)
        watch = frame.watch
        iteration = 0
        while go_on and (limit is None or iteration < limit):
            if watch is not None:
                watch.before(step)  # a body may have no step at all
            number, flag = np.array(iteration, np.int64), np.array(True)
            results = _run_body(frame, (number, flag, *carried))
            go_on = _truth(results[0], step.location)
            carried = results[1 : 1 + carried_count]
            for items, result in zip(collected, results[1 + carried_count :], strict=True):
                items.append(result)
            if watch is not None:
                watch.hold(step, results[1 + carried_count :])
            iteration += 1
        _leave(frame, step.body)
        stacked = [_stack(step, index, items, 0) for index, items in enumerate(collected)]
        _store(s, step.outputs, [*carried, *stacked], step.release)

    return instruction


def compile_scan(step: ScanStep) -> Instruction:
    """Run the body over slices of the scan inputs."""
    state_count = len(step.states)

    def instruction(s: Slots) -> None:
        states = [s[slot] for slot in step.states]
        scans: list[Any] = []
        lengths: list[int] = []
        for slot, axis in zip(step.scans, step.input_axes, strict=True):
            array = s[slot]
            if not -array.ndim <= axis < array.ndim:
                raise InvalidArgument(
                    f"Scan axis {axis} is outside an input of rank {array.ndim}.",
                    where=step.location,
                    fix="Feed an input of the rank that scan_input_axes needs.",
                )
            scans.append(_axis_first(array, axis))
            lengths.append(array.shape[axis])
        if len(set(lengths)) > 1:
            raise InvalidArgument(
                f"The scan inputs have different lengths: {lengths}.",
                where=step.location,
                fix="All scan inputs must agree along their scan axes.",
            )
        length = lengths[0] if lengths else 0
        collected: list[list[Any]] = [[] for _ in step.scan_types]
        frame = _enter(s, step.body)
        watch = frame.watch
        for iteration in range(length):
            if watch is not None:
                watch.before(step)
            slices = [
                # The ellipsis keeps a slice of a vector an array: strings would come out as `str`.
                array[length - 1 - iteration if backwards else iteration, ...]
                for array, backwards in zip(scans, step.input_directions, strict=True)
            ]
            results = _run_body(frame, (*states, *slices))
            states = results[:state_count]
            for items, result in zip(collected, results[state_count:], strict=True):
                items.append(result)
            if watch is not None:
                watch.hold(step, results[state_count:])
        _leave(frame, step.body)
        stacked: list[Any] = []
        for index, items in enumerate(collected):
            if step.output_directions[index]:
                items.reverse()
            stacked.append(_stack(step, index, items, step.output_axes[index]))
        _store(s, step.outputs, [*states, *stacked], step.release)

    return instruction


def _enter(s: Slots, body: NestedPlan) -> Frame:
    parent: Frame = s[0]
    frame = parent.child(body)
    for outer, inner in body.captures:
        frame.slots[inner] = s[outer]
    if frame.watch is not None:
        frame.watch.enter(s)
    return frame


def _leave(frame: Frame, body: NestedPlan) -> None:
    if frame.watch is not None:
        frame.watch.leave()
    for _, inner in body.captures:
        frame.slots[inner] = None


def _run_body(frame: Frame, feeds: Sequence[Any]) -> list[Any]:
    plan, slots = frame.program.plan, frame.slots
    for value, feed in zip(plan.inputs, feeds, strict=True):
        slots[value.slot] = feed
    run_frame(frame)
    results = [slots[value.slot] for value in plan.outputs]
    frame.clear()
    return results


def _store(s: Slots, outputs: tuple[int, ...], results: Sequence[Any], release: tuple[int, ...]) -> None:
    for slot, result in zip(outputs, results, strict=True):
        s[slot] = result
    for slot in release:
        s[slot] = None


def _stack(step: LoopStep | ScanStep, index: int, items: list[Any], axis: int) -> Any:
    if not items:
        return _empty(step.scan_types[index], axis, step.scan_modules[index])
    first = items[0]
    shape = list(first.shape)
    if axis < 0:
        axis += len(shape) + 1
    shape.insert(axis, len(items))
    if any(item.shape != first.shape for item in items):
        raise InvalidArgument(
            f"Scan output {index} changes its shape between iterations.",
            where=step.location,
            why=f"shapes {sorted({tuple(item.shape) for item in items})}",
            fix="A scan output is stacked, so all iterations must produce one shape.",
        )
    step.check_allocation(shape, first.dtype)
    return step.scan_modules[index].stack(items, axis=axis)


def _empty(value_type: ValueType | None, axis: int, module: Any) -> Any:
    """The scan output of no iteration: length zero along the scan axis; unknown dimensions are zero too."""
    if not isinstance(value_type, TensorType):
        return module.empty((0,), np.float32)
    shape = [dim if isinstance(dim, int) else 0 for dim in value_type.shape or ()]
    shape.insert(axis if axis >= 0 else axis + len(shape) + 1, 0)
    return module.empty(shape, numpy_dtype(value_type.data_type))


def _axis_first(array: Any, axis: int) -> Any:
    axis %= array.ndim
    return array.transpose(axis, *(other for other in range(array.ndim) if other != axis))


def _truth(value: Any, where: Location) -> bool:
    if value is None or getattr(value, "size", 1) != 1:
        found = "absent" if value is None else f"an array of shape {tuple(value.shape)}"
        raise InvalidArgument(
            f"The condition is {found}, not one bool.",
            where=where,
            fix="Give it exactly one element, e.g. np.array(True).",
        )
    return bool(value.item() if hasattr(value, "item") else value)


def _integer(value: Any, what: str, where: Location) -> int:
    if getattr(value, "size", 1) != 1:
        raise InvalidArgument(
            f"The {what} is an array of shape {tuple(value.shape)}, not one integer.",
            where=where,
            fix="Give it exactly one element, e.g. np.array(3).",
        )
    return int(value.item() if hasattr(value, "item") else value)
