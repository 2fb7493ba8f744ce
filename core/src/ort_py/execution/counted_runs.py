"""Whether a plan's runs are counted among those that share the machine's threads, and how they are run.

Counting costs about a microsecond. A plan that can only move and combine elements calls no BLAS and is not counted;
nor is any other whose last run was too short for BLAS to have used a second thread.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ort_py.execution.native_threads import Told, active_runs
from ort_py.execution.sequential import run
from ort_py.planning.plan import ExecutionPlan
from ort_py.planning.steps import KernelStep

if TYPE_CHECKING:
    from ort_py.execution.frame import Frame

__all__ = ["CountedRuns", "is_light"]

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


def is_light(plan: ExecutionPlan) -> bool:
    """Whether no step of a plan can call BLAS."""
    return all(
        isinstance(step, KernelStep) and not step.location.domain and step.location.op_type in _LIGHT
        for step in plan.steps
    )


class CountedRuns:
    """Runs main frames of one plan, counted unless they are short.

    Args:
        threads: Threads that one run may use.
    """

    __slots__ = ("_short", "_threads")

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._short = False
        active_runs.look()  # here, when all that a session imports has been imported

    def __call__(self, frame: Frame) -> None:
        """`sequential.run`."""
        start = time.perf_counter()
        if self._short:
            run(frame)
        else:
            before: Told = ()
            try:
                before = active_runs.begin(self._threads)
                run(frame)
            finally:
                active_runs.end(before)
        self._short = time.perf_counter() - start < _SHORT
