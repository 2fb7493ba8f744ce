"""Run a frame's program, one instruction after another, and say which step failed.

Two loops: one that does nothing but run, and one that looks at the frame's watch between steps.
"""

from __future__ import annotations

import operator
import time
from typing import TYPE_CHECKING, Any

from ort_py.errors import ExecutionError, Location, OrtPyError
from ort_py.planning.steps import Step

if TYPE_CHECKING:
    from ort_py.execution.frame import Frame

__all__ = ["run", "run_frame"]


def run(frame: Frame) -> None:
    """Run a main frame in its context, with its streams current; otherwise `run_frame`."""
    if frame.streams:
        with frame.current_streams():
            frame.context.run(run_frame, frame)
    else:
        frame.context.run(run_frame, frame)


def run_frame(frame: Frame) -> None:
    """Run to the end. The caller has filled the input slots and takes the output slots.

    Raises:
        OrtPyError: What a kernel refused, with its place.
        ExecutionError: A kernel or region raised something else, which is its cause.
    """
    if frame.watch is not None:
        _run_watched(frame)
        return
    slots = frame.slots
    instructions = iter(frame.program.instructions)
    try:
        for instruction in instructions:
            instruction(slots)
    except Exception as error:  # kernels and regions may raise anything; it is placed and chained
        done = len(frame.program.instructions) - operator.length_hint(instructions)
        raise _placed(error, frame.program.plan.steps[done - 1], slots) from _cause(error)


def _run_watched(frame: Frame) -> None:
    watch = frame.watch
    assert watch is not None
    slots, plan, recorder = frame.slots, frame.program.plan, watch.recorder
    began = time.perf_counter_ns()
    for index, (step, instruction) in enumerate(zip(plan.steps, frame.program.instructions, strict=True)):
        watch.before(step)
        # Asked before the step, which empties the slots it reads last.
        given = None if recorder is None else recorder.describe_inputs(step, slots, plan.template)
        start = time.perf_counter_ns()
        try:
            instruction(slots)
        except Exception as error:  # as above
            raise _placed(error, step, slots) from _cause(error)
        if recorder is not None:
            end = time.perf_counter_ns()
            recorder.record_step(step, start, end, slots, {**(given or {}), "node_index": str(index)})
        watch.after(step, slots)
    if recorder is not None:
        recorder.record_plan(began, time.perf_counter_ns())


def _cause(error: Exception) -> BaseException | None:
    return error.__cause__ if isinstance(error, OrtPyError) else error


def _placed(error: Exception, step: Step, slots: list[Any]) -> OrtPyError:
    where = Location(
        step.location.node, step.location.op_type, step.location.domain, step.provider, path=step.location.path
    )
    if isinstance(error, OrtPyError):
        told = isinstance(error.where, str) and error.where  # a place in words is better than none in parts
        if not told and not error.location.provider and error.location.node in ("", where.node) and step.provider:
            error.where = Location(
                where.node, where.op_type, where.domain, where.provider, error.location.value, where.path
            )
        return error
    return ExecutionError(
        f"{step.title} failed: {type(error).__name__}: {error}",
        where=where,
        why=[f"input {index}: {_describe(slots[slot])}" for index, slot in enumerate(step.inputs)],
        fix="Check the shapes and values that reach this node; `ort-py info MODEL` shows what the model declares.",
    )


def _describe(value: Any) -> str:
    dtype, shape = getattr(value, "dtype", None), getattr(value, "shape", None)
    if dtype is not None and shape is not None:
        return f"{dtype} {tuple(shape)}"
    if isinstance(value, list):
        return f"sequence of {len(value)}"
    return "absent" if value is None else type(value).__name__
