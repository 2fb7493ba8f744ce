"""Compiling a plan: one instruction for each step, and the programs of its bodies.

It handles all kinds of steps, and imports the code for the rare ones only when a plan contains them. Comes after
`program` and `instructions`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ort_py.contracts import RunDeclined
from ort_py.execution.instructions import (
    Instruction,
    Slots,
    compile_contiguous,
    compile_copy,
    compile_kernel,
    compile_region,
    compile_wait,
)
from ort_py.execution.planned_runs import PlannedRuns
from ort_py.execution.program import Program
from ort_py.planning.plan import (
    BatchedScanStep,
    ContiguousStep,
    CopyStep,
    ExecutionPlan,
    IfStep,
    KernelStep,
    LoopStep,
    RegionStep,
    ScanStep,
    SequenceMapStep,
    Step,
    SubgraphKernelStep,
    WaitStep,
)


def compile_plan(plan: ExecutionPlan, *, reuses_memory: bool = True) -> Program:
    """Make the program of a plan, with those of all bodies inside.

    Args:
        reuses_memory: Whether runs may write into memory that their frame keeps; see `planned_runs`.
    """
    main = _compiled(plan, None, reuses_memory)
    pending = [main]
    while pending:
        program = pending.pop()
        for _, body in program.plan.nested():
            captured = [slot for _, slot in body.captures]
            inner = program.bodies[body.frame] = _compiled(body.plan, captured, reuses_memory)
            pending.append(inner)
    return main


def _compiled(plan: ExecutionPlan, captured: Iterable[int] | None, reuses_memory: bool) -> Program:
    instructions = [compile_step(step) for step in plan.steps]
    return Program(
        plan, instructions, PlannedRuns(plan, instructions, captured, compile_step, reuses_memory=reuses_memory)
    )


def compile_step(step: Step) -> Instruction:
    match step:
        case KernelStep():
            return compile_kernel(step)
        case RegionStep():
            return compile_region(step, _answer)
        case CopyStep():
            return compile_copy(step)
        case WaitStep():
            return compile_wait(step)
        case ContiguousStep():
            return compile_contiguous(step)
        case _:
            return _compile_nesting(step)


def _answer(step: RegionStep, slots: Slots, error: RunDeclined) -> Sequence[Any]:
    """Run the nodes of a region that declined a run; most regions never do, and do not import what runs them then."""
    from ort_py.execution.declined import answer

    return answer(step, slots, error)


def _compile_nesting(step: Step) -> Instruction:
    """The instruction of a step that has plans inside; most models have none, and do not import what runs them."""
    from ort_py.execution import control_flow

    match step:
        case IfStep():
            return control_flow.compile_if(step)
        case LoopStep():
            return control_flow.compile_loop(step)
        case ScanStep():
            return control_flow.compile_scan(step)
        case BatchedScanStep():
            from ort_py.execution.batched_scans import compile_batched_scan

            return compile_batched_scan(step)
        case SequenceMapStep():
            return control_flow.compile_sequence_map(step)
        case SubgraphKernelStep():
            return control_flow.compile_subgraph_kernel(step)
        case _:
            raise TypeError(f"{type(step).__name__} is not a step with plans inside")
