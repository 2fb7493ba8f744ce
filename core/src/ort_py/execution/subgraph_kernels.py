"""Kernels that hold graphs, as instructions: the graphs run in child frames of the frame that calls the kernel.

The counterpart of `control_flow` for operators of plug-ins. While the kernel is called, each graph's handle
(`ort_py.kernels.subgraphs`) is bound to this frame and this thread, so kernels stay stateless and two threads never
share a frame.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ort_py.errors import InvalidArgument
from ort_py.execution.bodies import enter, leave, run_body, store
from ort_py.kernels.subgraphs import BoundSubgraph, SubgraphRunner, running
from ort_py.planning.plan import SubgraphKernelStep

if TYPE_CHECKING:
    from ort_py.execution.frame import Frame
    from ort_py.execution.instructions import Instruction, Slots

__all__ = ["compile_subgraph_kernel"]


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
