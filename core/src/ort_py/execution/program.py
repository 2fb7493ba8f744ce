"""A plan made runnable: one instruction a step, and the programs of its bodies.

Immutable after construction and shared by threads, like the plan it comes from.
"""

from __future__ import annotations

from ort_py.execution.instructions import (
    Instruction,
    compile_contiguous,
    compile_copy,
    compile_kernel,
    compile_region,
    compile_wait,
)
from ort_py.execution.planned_runs import PlannedRuns
from ort_py.planning.plan import (
    BatchedScanStep,
    ContiguousStep,
    CopyStep,
    ExecutionPlan,
    IfStep,
    KernelStep,
    LoopStep,
    NestedPlan,
    RegionStep,
    ScanStep,
    SequenceMapStep,
    Step,
    SubgraphKernelStep,
    WaitStep,
)

__all__ = ["Program", "compile_step"]


class Program:
    """Instructions of a plan.

    Args:
        plan: The plan.
        reuses_memory: Whether runs may write into memory that their frame keeps; see `planned_runs`.

    Attributes:
        plan: The plan.
        instructions: ``instructions[i]`` runs ``plan.steps[i]``.
        runs: What is known of its runs, and planned for the next.
    """

    __slots__ = ("__weakref__", "_nested", "instructions", "plan", "runs")

    def __init__(self, plan: ExecutionPlan, *, reuses_memory: bool = True) -> None:
        self.plan = plan
        self._nested: dict[int, Program] = {}
        self.instructions: list[Instruction] = []
        self.runs = PlannedRuns(self, None, reuses_memory=reuses_memory)
        pending = [self]
        while pending:
            program = pending.pop()
            program.instructions = [compile_step(step) for step in program.plan.steps]
            for _, body in program.plan.nested():
                inner = Program.__new__(Program)
                inner.plan = body.plan
                inner._nested = {}
                inner.instructions = []
                captured = [slot for _, slot in body.captures]
                inner.runs = PlannedRuns(inner, captured, reuses_memory=reuses_memory)
                program._nested[body.frame] = inner
                pending.append(inner)

    def nested(self, body: NestedPlan) -> Program:
        """The program of a body of this program's plan."""
        return self._nested[body.frame]

    def bodies(self) -> dict[int, Program]:
        """The programs of all bodies directly inside, by the slot of their frame."""
        return self._nested


def compile_step(step: Step) -> Instruction:
    """The instruction of one step."""
    match step:
        case KernelStep():
            return compile_kernel(step)
        case RegionStep():
            return compile_region(step)
        case CopyStep():
            return compile_copy(step)
        case WaitStep():
            return compile_wait(step)
        case ContiguousStep():
            return compile_contiguous(step)
        case _:
            return _compile_nesting(step)


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
