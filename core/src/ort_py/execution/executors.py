"""The choice of the executor of a plan, made once when a session is created or planned again.

Comes after the plan. The executors are `sequential`, `parallel_runs` and, here, `CountedRuns`, whose runs count among
those that share the machine's threads. Counting costs three microseconds. A plan that can only move and combine
elements calls no BLAS and is not counted; nor is any other whose last run was too short for BLAS to have used a second
thread. Regions received their number of threads when they were instantiated: a plan in which nothing else multiplies is
counted where its runs are long enough for others to be given less beside them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from ort_py.execution.sequential import run
from ort_py.planning.plan import ContiguousStep, CopyStep, ExecutionPlan, KernelStep, RegionStep, Step, WaitStep
from ort_py.platform.native_threads import PreviousThreads, active_runs

if TYPE_CHECKING:
    from ort_py.execution.frame import Frame

Execute: TypeAlias = Callable[["Frame"], None]


def executor_of(plan: ExecutionPlan, lanes: int) -> tuple[Execute, Callable[[], str]]:
    """Return the function that runs a main frame of a plan, and a function that describes this choice and its reason.

    Args:
        lanes: Steps that may run at the same time.
    """
    reason = "sequential"
    if lanes > 1:
        from ort_py.execution.parallel_runs import ParallelRuns
        from ort_py.planning.dependencies import dependencies_of

        dependencies = dependencies_of(plan)
        if dependencies.branches:
            runs = ParallelRuns(plan, dependencies, lanes)
            return runs, runs.describe
        reason = "sequential: no two of its steps can run at the same time"
    return run if is_light(plan) else CountedRuns(plan.threads, short_run(plan)), lambda: reason


_LIGHT = frozenset(
    (
        *("Abs", "Add", "And", "BitShift", "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor", "Cast", "Ceil"),
        *("Clip", "Concat", "Constant", "ConstantOfShape", "Cos", "Div", "Dropout", "Equal", "Erf", "Exp"),
        *("Expand", "Flatten", "Floor", "Gather", "Greater", "GreaterOrEqual", "HardSigmoid", "Identity"),
        *("LeakyRelu", "Less", "LessOrEqual", "Log", "Max", "Min", "Mod", "Mul", "Neg", "Not", "Or", "Pad", "Pow"),
        *("Range", "Reciprocal", "Relu", "Reshape", "Round", "Shape", "Sigmoid", "Sign", "Sin", "Size", "Slice"),
        *("Split", "Sqrt", "Squeeze", "Sub", "Tanh", "Tile", "Transpose", "Unsqueeze", "Where", "Xor"),
    )
)
"""Operators of ``ai.onnx`` that multiply no matrices."""

_SHORT = 5e-6
"""Seconds of a run in which no product was large enough for threads of BLAS: they begin at 64³ multiply-adds."""

_SHORT_REGIONS = 1e-3
"""Seconds of a run of regions that is over before another one could make use of knowing of it."""


def is_light(plan: ExecutionPlan) -> bool:
    """Return whether no step of a plan can call BLAS."""
    return all(_is_light_kernel(step) for step in plan.steps)


def short_run(plan: ExecutionPlan) -> float:
    """Seconds of a plan's run up to which the next is not counted."""
    return _SHORT_REGIONS if _only_regions_multiply(plan) else _SHORT


def _is_light_kernel(step: Step) -> bool:
    return isinstance(step, KernelStep) and not step.location.domain and step.location.op_type in _LIGHT


def _only_regions_multiply(plan: ExecutionPlan) -> bool:
    """Return whether a plan's kernels, and those of the bodies in it, call no BLAS."""
    for step in plan.steps:
        if isinstance(step, RegionStep | CopyStep | WaitStep | ContiguousStep) or _is_light_kernel(step):
            continue
        if not step.bodies or not all(_only_regions_multiply(body.plan) for _, body in step.bodies):
            return False
    return True


class CountedRuns:
    """Runs main frames of one plan, counted unless they are short.

    Args:
        short: Seconds up to which a run is short.
    """

    __slots__ = ("_bound", "_short", "_threads")

    def __init__(self, threads: int, short: float = _SHORT) -> None:
        self._threads = threads
        self._bound = short
        self._short = False
        active_runs.find_new()  # here, when all that a session imports has been imported

    def __call__(self, frame: Frame) -> None:
        start = time.perf_counter()
        if self._short:
            run(frame)
        else:
            before: PreviousThreads = ()
            try:
                before = active_runs.begin(self._threads)
                run(frame)
            finally:
                active_runs.end(before)
        self._short = time.perf_counter() - start < self._bound
