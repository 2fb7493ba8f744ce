"""Scan since opset 9 as an instruction. Specification: ONNX Scan-9…25. Slices and stacks are array operations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ort_py.errors import InvalidArgument
from ort_py.execution.control_flow.bodies import enter, leave, run_body, store
from ort_py.execution.control_flow.stacking import stack
from ort_py.planning.steps import ScanStep

if TYPE_CHECKING:
    from ort_py.execution.instructions import Instruction, Slots

__all__ = ["compile_scan"]


def compile_scan(step: ScanStep) -> Instruction:
    """Run the body over slices of the scan inputs."""
    state_count = len(step.states)

    def instruction(s: Slots) -> None:
        states = [s[slot] for slot in step.states]
        scans, length = _scanned(step, s)
        collected: list[list[Any]] = [[] for _ in step.scan_types]
        frame = enter(s, step.body)
        watch = frame.watch
        for iteration in range(length):
            if watch is not None:
                watch.before(step)
            slices = [
                # The ellipsis keeps a slice of a vector an array: strings would come out as `str`.
                array[length - 1 - iteration if backwards else iteration, ...]
                for array, backwards in zip(scans, step.input_directions, strict=True)
            ]
            results = run_body(frame, (*states, *slices))
            states = results[:state_count]
            for items, result in zip(collected, results[state_count:], strict=True):
                items.append(result)
            if watch is not None:
                watch.hold(step, results[state_count:])
        leave(frame, step.body)
        stacked: list[Any] = []
        for index, items in enumerate(collected):
            if step.output_directions[index]:
                items.reverse()
            stacked.append(
                stack(
                    items,
                    step.output_axes[index],
                    index=index,
                    value_type=step.scan_types[index],
                    module=step.scan_modules[index],
                    check_allocation=step.check_allocation,
                    where=step.location,
                )
            )
        store(s, step.outputs, [*states, *stacked], step.release)

    return instruction


def _scanned(step: ScanStep, s: Slots) -> tuple[list[Any], int]:
    """The scan inputs with their scan axis in front, and its length."""
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
    return scans, lengths[0] if lengths else 0


def _axis_first(array: Any, axis: int) -> Any:
    axis %= array.ndim
    return array.transpose(axis, *(other for other in range(array.ndim) if other != axis))
