"""Construction of an ExecutionPlan from an assigned graph: units in order become steps.

Bodies of control flow are planned before the graph that holds them (`build_plan` goes from the inside out, without
recursion), because a body decides where it wants its inputs and captures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ort_py.constraints import Admissions
from ort_py.devices import HOST, Device
from ort_py.dtypes import DataType, TensorType
from ort_py.graph.ir import Graph, Node, Value, walk
from ort_py.kernels.services import KernelConstants
from ort_py.partition.assignment import Region, RunnerKind
from ort_py.planning.aliasing import outputs_to_copy
from ort_py.planning.constants import ConstantPool
from ort_py.planning.fixed_values import is_deterministic
from ort_py.planning.lifetimes import with_releases
from ort_py.planning.plan import ExecutionPlan, KernelStep, PlanInput, PlanOutput, RegionStep
from ort_py.planning.resources import PlanResources
from ort_py.planning.schedule import schedule
from ort_py.planning.slots import SlotTable
from ort_py.platform.processors import products_per_second

if TYPE_CHECKING:
    from ort_py.contracts import IExecutionProvider, KernelDef
    from ort_py.kernels.binding import BoundKernel


def build_plan(graph: Graph, resources: PlanResources) -> ExecutionPlan:
    """Plan a main graph and every body in it.

    Raises:
        OrtPyError: A kernel refused its node, or a copy between two devices does not exist.
    """
    planners: dict[Graph, GraphPlanner] = {}
    with resources.constants.current_streams():
        for current in reversed(list(walk(graph))):
            if _inside_provider(current, resources):
                continue
            planner = GraphPlanner(current, resources, planners)
            planner.emit()
            planners[current] = planner
        plan = planners[graph].finish([HOST] * len(graph.outputs), outputs_to_copy(graph, resources.assignment))
    planners.clear()  # they refer to each other through it, and would keep the constants until cycles are collected
    return plan


def _inside_provider(graph: Graph, resources: PlanResources) -> bool:
    """Return whether the graph belongs to a node that a provider runs as a whole."""
    current = graph
    while current.owner is not None:
        assigned = resources.assignment.nodes.get(current.owner)
        if assigned is not None and current not in assigned.planned_graphs(current.owner):
            return True
        current = current.owner.graph
    return False


class GraphPlanner:
    """Plans one graph. Its owner reads `input_devices` and `slots.captures`, then calls `finish`."""

    def __init__(self, graph: Graph, resources: PlanResources, bodies: Mapping[Graph, GraphPlanner]) -> None:
        self.graph = graph
        self.resources = resources
        self.bodies = bodies
        self.slots = SlotTable(graph, resources)
        self.input_devices: list[Device] = []
        self._inputs: list[PlanInput] = []

    def emit(self) -> None:
        tick = self.graph.model.budget.tick
        self._define_inputs()
        for unit in schedule(self.graph, self.resources.assignment.regions.get(self.graph, [])):
            tick()
            if isinstance(unit, Region):
                self._emit_region(unit)
            elif self.resources.assignment.nodes[unit].runner is RunnerKind.CONTROL_FLOW:
                from ort_py.planning.control_flow import emit_control_flow

                emit_control_flow(self, unit)
            else:
                self._emit_kernel(unit)

    def natural_devices(self) -> list[Device]:
        """Devices on which outputs are made; the host for constants and outer values."""
        return [self.slots.home.get(value, HOST) for value in self.graph.outputs]

    def finish(
        self, devices: list[Device], copies: list[bool] | None = None, values: Sequence[Value] | None = None
    ) -> ExecutionPlan:
        """Bring the outputs to their devices and close the plan.

        Args:
            copies: Whether the caller must get a copy, one entry per output; never for bodies.
        """
        values = self.graph.outputs if values is None else values
        self.graph.model.budget.check_time()
        wanted = [(value, device, False) for value, device in zip(values, devices, strict=True)]
        slots = self.slots.acquire(wanted)
        copies = copies or [False] * len(slots)
        outputs = tuple(
            PlanOutput(value.name, slot, device, value.type, copy)
            for value, slot, device, copy in zip(values, slots, devices, copies, strict=True)
        )
        persistent = self.slots.persistent
        keep = persistent | set(slots)
        main = self.graph.owner is None
        given = {value.slot for value in self._inputs if not value.default}
        clear = sorted((given | set(slots)) - persistent)
        return ExecutionPlan(
            name=self.graph.name,
            steps=with_releases(self.slots.steps, keep),
            template=tuple(self.slots.template),
            inputs=tuple(self._inputs),
            outputs=outputs,
            clear=tuple(clear),
            streams=tuple(self.resources.streams.items()) if main else (),
            threads=self.resources.threads,
            streaming=frozenset(
                name
                for name, provider in self.resources.providers.items()
                if main and provider.device in self.resources.streams
            ),
            allocators=self.resources.allocators,
        )

    def _define_inputs(self) -> None:
        owner = self.graph.owner
        assigned = None if owner is None else self.resources.assignment.nodes.get(owner)
        tick = self.graph.model.budget.tick
        for position, value in enumerate(self.graph.inputs):
            tick()
            if owner is None or assigned is None:
                device = HOST
            elif assigned.kernel is not None:
                from ort_py.planning.control_flow import subgraph_input_device

                device = subgraph_input_device(self.resources, owner, self.graph, position)
            elif owner.op_type == "Loop" and position < 2:
                device = HOST  # the executor makes the iteration number and the condition itself
            else:
                device = self._wanted_device(value)
            slot = self.slots.define(value, device, strided=owner is not None)
            self.input_devices.append(device)
            self._inputs.append(PlanInput(value.name, slot, device, value.type))
        for value in self.graph.initializers.values():
            if value.overridable and value.weight is not None:
                slot = self.slots.define(value, HOST, strided=False)
                self.slots.keep(slot, value.weight.array())
                self._inputs.append(PlanInput(value.name, slot, HOST, value.type, default=True))

    def _wanted_device(self, value: Value) -> Device:
        """Device on which a body's input is read first; the host if only control flow reads it."""
        for node, position in value.uses:
            assigned = self.resources.assignment.nodes.get(node)
            if node.graph is self.graph and assigned is not None and assigned.runner is not RunnerKind.CONTROL_FLOW:
                return self.resources.input_device(node, position)
        return HOST

    def _emit_kernel(self, node: Node) -> None:
        resources = self.resources
        assigned = resources.assignment.nodes[node]
        kernel = assigned.kernel
        assert kernel is not None
        provider = resources.providers[assigned.provider]
        from ort_py.kernels.binding import bind_kernel  # a model of regions alone binds no kernel

        bound = bind_kernel(
            resources.assignment.specs[node],
            kernel,
            provider,
            resources.services,
            ConstantInputs(node.inputs, resources.constants, provider.device),
        )
        if bound.replaced or kernel.host_inputs:
            inputs = self._acquire_inputs(node, bound)
        else:
            inputs = self.slots.acquire_on(provider.device, node.inputs, contiguous=not kernel.strided)
        if bound.subgraphs:
            from ort_py.planning.control_flow import emit_subgraph_kernel

            emit_subgraph_kernel(self, node, bound, inputs)
            return
        strided_input = kernel.strided and self.slots.may_be_strided(*inputs)
        viewing = {result for result, _ in kernel.views}
        device = provider.device
        outputs = []
        for position, value in enumerate(node.outputs):
            on, strided = HOST if position in kernel.host_outputs else device, strided_input or position in viewing
            outputs.append(self.slots.discard() if value is None else self.slots.define(value, on, strided=strided))
        from ort_py.kernels.results import result_check  # a plan of regions alone has no kernel to check

        self.slots.steps.append(
            KernelStep(
                inputs=inputs,
                outputs=tuple(outputs),
                location=node.location,
                provider=assigned.provider,
                call=bound.call,
                into=bound.into if not kernel.host_outputs or device == HOST else None,
                over=bound.over,
                inplace=kernel.inplace,
                views=kernel.views,
                device=device,
                check=result_check(resources.assignment.specs[node], kernel, assigned.provider, device),
                node=resources.assignment.specs[node],
                bind=None if bound.replaced or device != HOST else self._binder(node, kernel, provider),
            )
        )

    def _binder(
        self, node: Node, kernel: KernelDef, provider: IExecutionProvider
    ) -> Callable[[Mapping[int, Any]], BoundKernel]:
        from ort_py.kernels.binding import bind_kernel

        return partial(bind_kernel, self.resources.assignment.specs[node], kernel, provider, self.resources.services)

    def _acquire_inputs(self, node: Node, bound: BoundKernel) -> tuple[int, ...]:
        resources, kernel = self.resources, bound.definition
        device, dense = resources.input_device, not kernel.strided
        wanted = [None if position in bound.replaced else value for position, value in enumerate(node.inputs)]
        inputs = list(self.slots.acquire([(one, device(node, place), dense) for place, one in enumerate(wanted)]))
        for position in bound.replaced:
            value = node.inputs[position]
            assert value is not None
            inputs[position] = self.slots.stand_in(value, device(node, position))
        return tuple(inputs)

    def _emit_region(self, region: Region) -> None:
        resources = self.resources
        provider = resources.providers[region.provider]
        # The same order as in the view the provider compiled.
        inputs, outputs, _ = region.border
        wanted = resources.compiled[region].host_inputs
        places = [HOST if place in wanted else provider.device for place in range(len(inputs))]
        slots = self.slots.acquire([(value, device, True) for value, device in zip(inputs, places, strict=True)])
        results = tuple(self.slots.define(value, provider.device, strided=False) for value in outputs)
        self.slots.steps.append(
            RegionStep(
                inputs=slots,
                outputs=results,
                location=region.nodes[0].location,
                provider=region.provider,
                region=resources.compiled[region],
                instance=self.slots.reserve(),
                device=provider.device,
                name=region.name,
                node_count=len(region.nodes),
                stand_in=None if resources.stand_ins is None else resources.stand_ins.of(region, resources),
                admissions=self._admissions(region),
                deterministic=provider.device == HOST
                and all(is_deterministic(node.op_type, node.domain) for node in region.nodes),
            )
        )

    def _admissions(self, region: Region) -> Admissions | None:
        gate = self.resources.assignment.gates.get(region)
        provider = self.resources.providers[region.provider]
        if gate is None or not gate.answers_on(provider.device):
            return None
        return Admissions(
            gate,
            self.resources.limits,
            self.resources.threads,
            region.nodes[0].location,
            rate=self._rate(region) if provider.device == HOST else None,
            empty_values=provider.computes_empty_values,
            late_broadcasts=provider.computes_late_broadcasts,
        )

    def _rate(self, region: Region) -> float:
        """Multiplications that a thread cannot exceed in a second, by the narrowest type in a region."""
        types = [
            value.type.data_type
            for node in region.nodes
            for value in (*node.inputs, *node.outputs)
            if value is not None and isinstance(value.type, TensorType)
        ]
        kinds = {kind for kind in types if kind is not None and kind.bits and kind is not DataType.BOOL}
        bits = min((kind.bits for kind in kinds), default=0)
        if self.resources.precision != "float32":  # wide numbers may be multiplied as bfloat16
            return products_per_second(min(bits, 16))
        return products_per_second(
            min(bits, 32), halves={kind for kind in kinds if kind.bits == bits} == {DataType.FLOAT16}
        )


class _RegionPlanner(GraphPlanner):
    """Plans the nodes of a region; see `plan_region`."""

    def __init__(self, region: Region, resources: PlanResources) -> None:
        super().__init__(region.nodes[0].graph, resources, {})
        self._region = region

    def plan(self) -> ExecutionPlan:
        """The plan: its inputs and outputs are the region's, in the same order."""
        members = set(self._region.nodes)
        inputs, outputs, _ = self._region.border
        there = self.resources.providers[self._region.provider].device
        on_host = self.resources.compiled[self._region].host_inputs
        for place, value in enumerate(inputs):
            device = HOST if place in on_host else there
            slot = self.slots.define(value, device, strided=False)
            self._inputs.append(PlanInput(value.name, slot, device, value.type))
        for node in self.graph.nodes:
            if node in members:
                self._emit_kernel(node)
        return self.finish([there] * len(outputs), values=outputs)


def plan_region(region: Region, resources: PlanResources) -> ExecutionPlan:
    """Plan the nodes of one region as steps of their own, for runs that the region declines.

    Args:
        resources: Kernels of its nodes, in place of the region.
    """
    return _RegionPlanner(region, resources).plan()


class ConstantInputs(KernelConstants):
    """Constant inputs of a node, read only when a factory asks: weights may be mapped files."""

    def __init__(self, inputs: list[Value | None], pool: ConstantPool, device: Device) -> None:
        self._weights = {
            index: value.weight
            for index, value in enumerate(inputs)
            if value is not None and value.constant and value.weight is not None
        }
        self._pool = pool
        self._device = device

    def __getitem__(self, index: int) -> Any:
        return self._weights[index].array()

    def __iter__(self) -> Iterator[int]:
        return iter(self._weights)

    def __len__(self) -> int:
        return len(self._weights)

    def __contains__(self, index: object) -> bool:
        return index in self._weights  # the mapping's own question would read the weight

    def packed(self, positions: Sequence[int], form: str, make: Callable[[], Any]) -> Any:
        return self._pool.packed([self._weights[position] for position in positions], self._device, form, make)
