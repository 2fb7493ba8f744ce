"""If, Loop, Scan, SequenceMap and kernels that hold graphs, as instructions: graphs run in child frames of the run.

Specification: ONNX If-1…25, Loop-1…25, Scan-9…25 and SequenceMap-17; `batched_scans` has Scan-8. Only the iterations
themselves loop in Python; slices and stacks are array operations. The specification leaves the order of the elements of
SequenceMap open; here it is theirs. While a kernel that holds graphs is called, the handle of each graph
(`ort_py.kernels.subgraphs`) is bound to this frame and this thread, so kernels stay stateless and two threads never
share a frame. Comes after `bodies`, which holds what all of these have in common.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ort_py.errors import InvalidArgument
from ort_py.execution.bodies import enter, leave, one_integer, run_body, run_slices, store, truth
from ort_py.execution.body_views import compile_single_views, compile_views
from ort_py.execution.stacking import stack
from ort_py.kernels.subgraphs import BoundSubgraph, SubgraphRunner, running
from ort_py.planning.plan import NONE_SLOT, IfStep, LoopStep, ScanStep, SequenceMapStep, SubgraphKernelStep

if TYPE_CHECKING:
    from ort_py.execution.frame import Frame
    from ort_py.execution.instructions import Instruction, Slots


def compile_if(step: IfStep) -> Instruction:
    """Run the branch the condition chooses."""
    condition, outputs, release = step.inputs[0], step.outputs, step.release
    then_views, else_views = compile_views(step.then_branch), compile_views(step.else_branch)

    def instruction(s: Slots) -> None:
        chosen = truth(s[condition], step.location)
        views = then_views if chosen else else_views
        if views is not None and s[0].watch is None:
            store(s, outputs, views(s), release)
            return
        body = step.then_branch if chosen else step.else_branch
        frame = enter(s, body)
        results = run_body(frame, ())
        leave(frame, body)
        store(s, outputs, results, release)

    return instruction if step.known is None else _compile_known(step, instruction)


def _compile_known(step: IfStep, plain: Instruction) -> Instruction:
    """Run the branch that a known condition chooses: one that makes views is a call of a kernel for each.

    Shapes are the same in all runs of that condition, and a view that can be made of one value of a shape can be made
    of each.
    """
    views = compile_single_views(step.then_branch if step.known else step.else_branch)
    if views is None:
        return plain
    made = [(target, call, source) for target, (call, source) in zip(step.outputs, views, strict=True)]
    release = step.release

    def instruction(s: Slots) -> None:
        if s[0].watch is not None:
            plain(s)
            return
        for target, call, source in made:
            s[target] = call(s[source])
        for slot in release:
            s[slot] = None

    return instruction


def compile_loop(step: LoopStep) -> Instruction:
    """Run the body up to the trip count, while its condition holds."""
    carried_count = len(step.carried)

    def instruction(s: Slots) -> None:
        trip = None if step.trip_count == NONE_SLOT else s[step.trip_count]
        limit = None if trip is None else one_integer(trip, "trip count", step.location)
        go_on = True if step.condition == NONE_SLOT else truth(s[step.condition], step.location)
        carried = [s[slot] for slot in step.carried]
        collected: list[list[Any]] = [[] for _ in step.scan_types]
        frame = enter(s, step.body)
        watch = frame.watch
        iteration = 0
        while go_on and (limit is None or iteration < limit):
            if watch is not None:
                watch.before(step)  # a body may have no step at all
            number, flag = np.array(iteration, np.int64), np.array(True)
            results = run_body(frame, (number, flag, *carried))
            go_on = truth(results[0], step.location)
            carried = results[1 : 1 + carried_count]
            for items, result in zip(collected, results[1 + carried_count :], strict=True):
                items.append(result)
            if watch is not None:
                watch.hold(step, results[1 + carried_count :])
            iteration += 1
        leave(frame, step.body)
        stacked = [stack(step, index, items) for index, items in enumerate(collected)]
        store(s, step.outputs, [*carried, *stacked], step.release)

    return instruction


def compile_scan(step: ScanStep) -> Instruction:
    """Run the body over slices of the scan inputs."""

    def instruction(s: Slots) -> None:
        scans, length = _scanned(step, s)
        frame = enter(s, step.body)
        states, collected = run_slices(step, frame, [s[slot] for slot in step.states], scans, length)
        leave(frame, step.body)
        for items, backwards in zip(collected, step.output_directions, strict=True):
            if backwards:
                items.reverse()
        stacked = [stack(step, index, items, step.output_axes[index]) for index, items in enumerate(collected)]
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


def compile_sequence_map(step: SequenceMapStep) -> Instruction:
    """Run the body once an element: inputs that are sequences are walked together, tensors go in as they are."""

    def instruction(s: Slots) -> None:
        inputs = [s[slot] for slot in step.mapped]
        walked = [index for index, value in enumerate(inputs) if isinstance(value, list)]
        counts = [len(inputs[index]) for index in walked]
        if not walked or walked[0] != 0:
            raise InvalidArgument(
                "The first input of SequenceMap is not a sequence.",
                where=step.location,
                fix="Give it a sequence; SequenceConstruct and SplitToSequence make them of tensors.",
            )
        if len(set(counts)) > 1:
            raise InvalidArgument(
                f"The sequences have different lengths: {counts}.",
                where=step.location,
                why=f"inputs {walked} are sequences",
                fix="All sequences must have as many elements as the first.",
            )
        collected: list[list[Any]] = [[] for _ in step.outputs]
        frame = enter(s, step.body)
        watch = frame.watch
        feeds = inputs.copy()
        for element in range(counts[0]):
            if watch is not None:
                watch.before(step)
            for index in walked:
                feeds[index] = inputs[index][element]
            results = run_body(frame, feeds)
            for items, result in zip(collected, results, strict=True):
                items.append(result)
            if watch is not None:
                watch.hold(step, results)
        leave(frame, step.body)
        store(s, step.outputs, collected, step.release)

    return instruction


def compile_subgraph_kernel(step: SubgraphKernelStep) -> Instruction:
    """Call the kernel with its graphs ready to run."""
    call, arguments, several = step.call, step.arguments, len(step.outputs) != 1

    def instruction(s: Slots) -> None:
        frames = [(enter(s, body), body) for _, body in step.subgraphs]
        runners = {
            bound: _runner(step, bound, frame) for (bound, _), (frame, _) in zip(step.subgraphs, frames, strict=True)
        }
        with running(runners):
            result = call(*[s[slot] for slot in arguments])
        for frame, body in reversed(frames):
            leave(frame, body)
        store(s, step.outputs, result if several else (result,), step.release)

    return instruction


def _runner(step: SubgraphKernelStep, bound: BoundSubgraph, frame: Frame) -> SubgraphRunner:
    wanted = len(frame.program.plan.inputs)

    def run(*inputs: Any) -> list[Any]:
        if len(inputs) != wanted:
            raise InvalidArgument(
                f"The graph '{bound.name}' takes {wanted} input(s), but its kernel passed {len(inputs)}.",
                where=step.location,
                fix="The model and the operator's specification disagree: check how the model was exported.",
            )
        if frame.watch is not None:
            frame.watch.before(step)  # a graph may have no step at all
        return run_body(frame, inputs)

    return run
