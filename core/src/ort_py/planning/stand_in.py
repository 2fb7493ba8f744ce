"""Stand-ins of regions: the plan that runs a region's own nodes, one kernel each, in runs that the region declines.

Most regions never decline a run, so the plan is made when it is first needed: kernels are bound, and weights that were
packed away are read again. What is counted here is shown with the session's plan. Comes beside `builder`, which makes
the plan; knows neither frames nor how a plan is run, which is `execution.declined`'s business.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ort_py.devices import HOST
from ort_py.errors import EPFail, Location
from ort_py.lazy_dataclass import dataclass
from ort_py.partition.assignment import Assignment, NodeAssignment, RunnerKind

if TYPE_CHECKING:
    from ort_py.contracts import IExecutionProvider
    from ort_py.graph.ir import Node
    from ort_py.kernels.registry import KernelRegistry
    from ort_py.partition.assignment import Region
    from ort_py.planning.plan import ExecutionPlan
    from ort_py.planning.resources import PlanResources


@dataclass(frozen=True, slots=True)
class Declined:
    """One run that a region did not answer.

    Attributes:
        reason: The region's reason; its last one, where it was not asked in this run.
        asked: Whether the region was asked at all, or a pause after earlier answers of this kind went on.
    """

    provider: str
    region: str
    node: str
    reason: str
    replacement: tuple[str, ...]
    asked: bool


class StandIns:
    """Makes the stand-ins of one session.

    Args:
        providers: Its providers in rank order; the last one on the host that has a kernel for a node runs it.
        plan_region: Plans the nodes of a region as steps of their own; `builder.plan_region`.
        on_declined: Called for each run that a region declined, on the thread of the run.
    """

    def __init__(
        self,
        kernels: KernelRegistry,
        providers: Sequence[IExecutionProvider],
        plan_region: Callable[[Region, PlanResources], ExecutionPlan],
        on_declined: Callable[[Declined], None] | None = None,
    ) -> None:
        self.plan_region = plan_region
        self._kernels = kernels
        self._providers = [provider.name for provider in reversed(providers) if provider.device == HOST]
        self._on_declined = on_declined

    def of(self, region: Region, resources: PlanResources) -> StandIn:
        return StandIn(self, region, resources)

    def assignment(self, region: Region, planned: Assignment) -> Assignment:
        """Kernels for all nodes of a region."""
        found = Assignment()
        for node in region.nodes:
            found.specs[node] = planned.specs[node]
            found.nodes[node] = self._assigned(node, planned, region)
        return found

    def report(self, declined: Declined) -> None:
        """Pass on what happened."""
        if self._on_declined is not None:
            self._on_declined(declined)

    def _assigned(self, node: Node, planned: Assignment, region: Region) -> NodeAssignment:
        refusals: list[str] = []
        for provider in self._providers:
            match = self._kernels.find(provider, planned.specs[node])
            if match.kernel is not None and not node.subgraphs:
                return NodeAssignment(provider, RunnerKind.KERNEL, match.kernel)
            refusals += [f"{provider}: {reason}" for reason in match.refusals]
        if node.subgraphs:
            refusals = ["it holds graphs"]
        raise EPFail(
            f"The region '{region.name}' declined a run, and no other provider computes its node '{node.name}'.",
            where=Location(node.name, node.op_type, node.domain, region.provider),
            why=refusals,
            fix="Add CPUExecutionProvider to the providers.",
        )


class StandIn:
    """A replacement that runs a region's nodes. Threads share it.

    Attributes:
        lock: Held while `program` is made.
        program: The compiled plan, kept while it is in use.
    """

    def __init__(self, owner: StandIns, region: Region, resources: PlanResources) -> None:
        self.lock = threading.Lock()
        self.program: Callable[[], Any] = _nothing
        self._owner = owner
        self._region = region
        self._resources = resources
        self._counting = threading.Lock()
        self._asked = 0
        self._paused = 0
        self._reason = ""
        self._replacement: tuple[str, ...] = ()

    def plan(self) -> ExecutionPlan:
        """A plan of the region's nodes: its inputs and outputs are the region's.

        Raises:
            EPFail: A node has no kernel on the host.
            OrtPyError: A kernel refused its node.
        """
        assignment = self._owner.assignment(self._region, self._resources.assignment)
        resources = replace(self._resources, assignment=assignment, stand_ins=None)
        plan = self._owner.plan_region(self._region, resources)
        self._replacement = tuple(sorted({step.provider for step in plan.steps if step.provider}))
        return plan

    def note(self, reason: str | None) -> None:
        """Count a run.

        Args:
            reason: Why the region declined it; None where it was not asked.
        """
        with self._counting:
            if reason is None:
                self._paused += 1
            else:
                self._asked += 1
                self._reason = reason
            known = self._reason
        node = self._region.nodes[0].name
        self._owner.report(
            Declined(self._region.provider, self._region.name, node, known, self._replacement, reason is not None)
        )

    def remarks(self) -> tuple[str, ...]:
        """The events so far, one per line."""
        if not self._asked:
            return ()
        paused = f", and was not asked in {self._paused} more" if self._paused else ""
        return (
            f"declined {self._asked} run(s){paused}; {', '.join(self._replacement)} answered them. "
            f"The last reason: {self._reason}",
        )


def _nothing() -> None:
    return None
