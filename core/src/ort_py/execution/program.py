"""A program: a plan with one instruction for each step, and the programs of its bodies.

Immutable once `compile_plan` has made it, and shared by threads, like the plan it comes from. Does not know frames.
"""

from __future__ import annotations

from ort_py.execution.instructions import Instruction
from ort_py.execution.planned_runs import PlannedRuns
from ort_py.planning.plan import ExecutionPlan


class Program:
    """Instructions of a plan.

    Attributes:
        instructions: ``instructions[i]`` runs ``plan.steps[i]``.
        runs: Results of earlier runs, and the memory plans that were made from them.
        bodies: Programs of the bodies directly inside, by the slot of their frame.
        demanding: By step, whether runs under limits estimate its work before it begins; None until the first of them.
    """

    __slots__ = ("__weakref__", "bodies", "demanding", "instructions", "plan", "runs")

    def __init__(self, plan: ExecutionPlan, instructions: list[Instruction], runs: PlannedRuns) -> None:
        self.plan = plan
        self.instructions = instructions
        self.runs = runs
        self.bodies: dict[int, Program] = {}
        self.demanding: tuple[bool, ...] | None = None

    def peak_of_body(self, frame: int) -> int:
        """The most bytes that were alive at once in a recorded run of a body, which is named by its frame's slot."""
        return self.bodies[frame].runs.high_water
