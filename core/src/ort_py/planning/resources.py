"""The input of planning: the partitioner's decisions and the session's services, in one record."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING

from ort_py.devices import HOST
from ort_py.lazy_dataclass import dataclass
from ort_py.partition.assignment import RunnerKind

if TYPE_CHECKING:
    from ort_py.contracts import CompiledRegion, IAllocator, IExecutionProvider, IStream
    from ort_py.devices import Device
    from ort_py.graph.ir import Node
    from ort_py.kernels.services import KernelServices
    from ort_py.limits.limits import Limits
    from ort_py.memory.transfer import TransferTable
    from ort_py.partition.assignment import Assignment, NodeAssignment, Region
    from ort_py.planning.constants import ConstantPool
    from ort_py.planning.stand_in import StandIns


@dataclass(frozen=True, slots=True)
class PlanResources:
    """Inputs of planning, the same for all graphs of a model.

    Attributes:
        threads: Threads a region instance may use.
        allocators: Allocator for each device that has one; the host has none.
        stand_ins: Stand-ins that run the nodes of regions that decline a run, or None.
        precision: Type that float32 models are computed in; see `SessionOptions.precision`.
    """

    assignment: Assignment
    providers: Mapping[str, IExecutionProvider]
    compiled: Mapping[Region, CompiledRegion]
    transfers: TransferTable
    constants: ConstantPool
    services: KernelServices
    streams: Mapping[Device, Callable[[], IStream | None]]
    threads: int = 1
    allocators: Mapping[Device, IAllocator] = field(default_factory=dict)
    stand_ins: StandIns | None = None
    limits: Limits | None = None
    precision: str = "float32"

    def device_of(self, assigned: NodeAssignment) -> Device:
        """Device of the provider that runs a node; control flow is on the host."""
        if assigned.runner is RunnerKind.CONTROL_FLOW:
            return HOST
        return self.providers[assigned.provider].device

    def input_device(self, node: Node, position: int) -> Device:
        """Device on which a node needs an input: the host if its kernel declares so, else its provider's device."""
        assigned = self.assignment.nodes.get(node)
        if assigned is None:
            return HOST
        if assigned.kernel is not None and position in assigned.kernel.host_inputs:
            return HOST
        return self.device_of(assigned)

    def output_device(self, node: Node, position: int) -> Device:
        """Device on which a node that is not control flow leaves an output."""
        assigned = self.assignment.nodes[node]
        if assigned.kernel is not None and position in assigned.kernel.host_outputs:
            return HOST
        return self.device_of(assigned)
