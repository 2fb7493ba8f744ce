"""If as an instruction. Specification: ONNX If-1…25."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ort_py.execution.control_flow.bodies import enter, leave, run_body, store, truth
from ort_py.planning.steps import IfStep

if TYPE_CHECKING:
    from ort_py.execution.instructions import Instruction, Slots

__all__ = ["compile_if"]


def compile_if(step: IfStep) -> Instruction:
    """Run the branch the condition chooses."""
    condition, outputs, release = step.inputs[0], step.outputs, step.release

    def instruction(s: Slots) -> None:
        body = step.then_branch if truth(s[condition], step.location) else step.else_branch
        frame = enter(s, body)
        results = run_body(frame, ())
        leave(frame, body)
        store(s, outputs, results, release)

    return instruction
