"""Run a frame's program, one instruction after another, and report which step failed.

There are three loops: one only runs, one records times for a profile, and one checks the frame's limits between steps.
"""

from __future__ import annotations

import operator
import time
from typing import TYPE_CHECKING, Any

from ort_py.contracts.running_time import checking_time, current_time_check
from ort_py.errors import ExecutionError, InvalidArgument, KernelInputError, Location, OrtPyError
from ort_py.planning.plan import Step

if TYPE_CHECKING:
    from ort_py.execution.frame import Frame
    from ort_py.execution.watch import RunWatch
    from ort_py.profiling.recorder import RunTrace


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
        KernelInputError: A kernel refused its inputs.
        OrtPyError: It raised another error of ort-py, which is given its place.
        ExecutionError: A kernel or region raised something else, which is its cause.
    """
    if frame.chooser is not None:
        frame.chooser(frame)
    if frame.watch is not None:
        _run_watched(frame)
        return
    slots = frame.slots
    instructions = iter(frame.instructions)
    try:
        for instruction in instructions:
            instruction(slots)
    except Exception as error:  # kernels and regions may raise anything; it is placed and chained
        done = len(frame.instructions) - operator.length_hint(instructions)
        number = done - 1 if frame.numbers is None else frame.numbers[done - 1]
        raise placed(error, frame.program.plan.steps[number], slots) from cause_of(error)


def _run_watched(frame: Frame) -> None:
    watch = frame.watch
    assert watch is not None
    trace = None if watch.recorder is None else watch.recorder.begin_run(frame.program.plan, frame.slots)
    complete = False
    try:
        if trace is None or watch.checks:
            check = watch.check_kernel
            if current_time_check() == check:  # a body, in the context of the graph around it
                _run_checked(frame, watch, trace)
            else:
                with checking_time(check):
                    _run_checked(frame, watch, trace)
        else:
            _run_traced(frame, trace)
        complete = True
    finally:
        if watch.recorder is not None and trace is not None:
            watch.recorder.end_run(trace, complete=complete)


def _run_checked(frame: Frame, watch: RunWatch, trace: RunTrace | None) -> None:
    from ort_py.execution.watch import demanding_steps  # there already: it made the watch

    slots, program = frame.slots, frame.program
    steps, demanding = program.plan.steps, program.demanding or demanding_steps(program)
    # Most steps of small models take a few microseconds, so a step is only asked what it can answer.
    terminable, deadline, bounded, clock = watch.terminable, watch.deadline, watch.bounds_memory, time.monotonic
    for index, (step, instruction, demands) in enumerate(zip(steps, frame.instructions, demanding, strict=True)):
        if terminable or clock() > deadline:
            watch.before(step)
        start = 0 if trace is None else time.perf_counter_ns()
        try:
            if demands:
                watch.fits(step, slots)
            instruction(slots)
        except Exception as error:  # as above
            raise placed(error, step, slots) from cause_of(error)
        if trace is not None:
            trace.note(index, start, time.perf_counter_ns(), slots)
        if bounded:
            watch.after(step, slots)


def _run_traced(frame: Frame, trace: RunTrace) -> None:
    """Run the steps, and after each read the clock and record the outputs."""
    slots, ended, clock = frame.slots, trace.ends.append, time.perf_counter
    instructions = iter(frame.instructions)
    for output, shape, instruction in zip(trace.outputs, trace.shapes, instructions, strict=True):
        try:
            instruction(slots)
        except Exception as error:  # as above
            done = len(frame.instructions) - operator.length_hint(instructions)
            raise placed(error, frame.program.plan.steps[done - 1], slots) from cause_of(error)
        ended(clock())
        try:
            if slots[output].shape != shape:
                trace.keep_unusual(slots)
        except AttributeError:  # no array
            trace.keep_unusual(slots)


def cause_of(error: Exception) -> BaseException | None:
    """The exception that a located error is chained to."""
    return error.__cause__ if isinstance(error, OrtPyError) else error


def placed(error: Exception, step: Step, slots: list[Any]) -> OrtPyError:
    """Convert an exception of a step into an error that names the step's place."""
    where = Location(
        step.location.node, step.location.op_type, step.location.domain, step.provider, path=step.location.path
    )
    if type(error) is InvalidArgument:  # a subclass says more than this would
        error = _refusal(error)
    if isinstance(error, OrtPyError):
        in_words = isinstance(error.where, str) and error.where  # a place in words is better than none in parts
        if not in_words and not error.location.provider and error.location.node in ("", where.node) and step.provider:
            error.where = Location(
                where.node, where.op_type, where.domain, where.provider, error.location.value, where.path
            )
        return error
    broken = _broken(step, slots)
    kind = KernelInputError if broken else ExecutionError
    return kind(
        f"{step.title} failed: {type(error).__name__}: {error}",
        where=where,
        why=[
            *([broken] if broken else []),
            *(f"input {index}: {_describe(slots[slot])}" for index, slot in enumerate(step.inputs)),
        ],
        fix="Check the shapes and values that reach this node; `ort-py info MODEL` shows what the model declares.",
    )


def _broken(step: Step, slots: list[Any]) -> str:
    """The constraint of the operator that the inputs of a failing kernel break, ``""`` where none is known to be."""
    node = getattr(step, "node", None)
    from ort_py.constraints.single import violated  # the table of constraints: only a failure needs it

    text = "" if node is None else violated(node, [slots[slot] for slot in step.inputs])
    return f"{step.location.op_type} does not take these inputs: {text}" if text else ""


def _refusal(error: InvalidArgument) -> KernelInputError:
    """A kernel's refusal, in the class that applications catch whichever of onnxruntime's they wait for."""
    refusal = KernelInputError(error.what, where=error.where, why=error.why, fix=error.fix)
    for note in getattr(error, "__notes__", ()):
        refusal.add_note(note)
    return refusal.with_traceback(error.__traceback__)


def _describe(value: Any) -> str:
    dtype, shape = getattr(value, "dtype", None), getattr(value, "shape", None)
    if dtype is not None and shape is not None:
        return f"{dtype} {tuple(shape)}"
    if isinstance(value, list):
        return f"sequence of {len(value)}"
    return "absent" if value is None else type(value).__name__
