"""The choice of the executor of a plan, made once when a session is created or planned again.

Comes after the plan. The executors themselves are `sequential`, `counted_runs` and `parallel_runs`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from ort_py.execution.counted_runs import CountedRuns, is_light, short_run
from ort_py.execution.parallel_runs import ParallelRuns
from ort_py.execution.sequential import run
from ort_py.planning.dependencies import dependencies_of
from ort_py.planning.plan import ExecutionPlan

if TYPE_CHECKING:
    from ort_py.execution.frame import Frame

__all__ = ["Execute", "executor_of"]

Execute: TypeAlias = Callable[["Frame"], None]


def executor_of(plan: ExecutionPlan, lanes: int) -> tuple[Execute, Callable[[], str]]:
    """Return the function that runs a main frame of a plan, and a function that describes this choice and its reason.

    Args:
        plan: The plan.
        lanes: Steps that may run at the same time.
    """
    reason = "sequential"
    if lanes > 1:
        dependencies = dependencies_of(plan)
        if dependencies.branches:
            runs = ParallelRuns(plan, dependencies, lanes)
            return runs, runs.describe
        reason = "sequential: no two of its steps can run at the same time"
    return run if is_light(plan) else CountedRuns(plan.threads, short_run(plan)), lambda: reason
