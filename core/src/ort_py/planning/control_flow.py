"""Steps for If, Loop, Scan, SequenceMap and kernels that hold graphs: the places of values of bodies and of results.

A branch of If leaves its results on the same devices as the other. A Scan goes over one sequence along any axis since
opset 9, over a batch of sequences in opset 8. A kernel says in its declaration which values of its graphs it gives and
takes on the host; all others are on its provider's device. Comes after `bodies`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ort_py.contracts import Subgraph
from ort_py.devices import HOST, Device
from ort_py.errors import InvalidGraph
from ort_py.graph.ir import Graph, Node, Value
from ort_py.planning.bodies import (
    BodyPlanner,
    allocation_checker,
    array_modules,
    body_planner,
    captured_slots,
    define_outputs,
    expect,
    flags,
    integers,
    nest,
)
from ort_py.planning.plan import BatchedScanStep, IfStep, LoopStep, ScanStep, SequenceMapStep, SubgraphKernelStep
from ort_py.planning.resources import PlanResources
from ort_py.planning.slices import slice_types

if TYPE_CHECKING:
    from ort_py.kernels.binding import BoundKernel


def _emit_if(planner: BodyPlanner, node: Node) -> None:
    (condition,) = planner.slots.acquire([(node.inputs[0], HOST, False)])
    branches = [body_planner(planner, node, name) for name in ("then_branch", "else_branch")]
    for branch in branches:
        expect(node, "branch outputs", branch.graph.name, len(branch.graph.outputs), len(branches[0].graph.outputs))
    made = [branch.natural_devices() for branch in branches]
    devices = [left if left == right else HOST for left, right in zip(*made, strict=True)]
    then_branch, else_branch = (nest(planner, branch, devices) for branch in branches)
    planner.slots.steps.append(
        IfStep(
            inputs=(condition, *captured_slots(then_branch, else_branch)),
            outputs=define_outputs(planner, node, devices),
            location=node.location,
            then_branch=then_branch,
            else_branch=else_branch,
        )
    )


def _emit_loop(planner: BodyPlanner, node: Node) -> None:
    body = body_planner(planner, node, "body")
    count = len(body.graph.inputs) - 2
    padded = [*node.inputs, None, None][: max(2, len(node.inputs))]
    expect(node, "loop-carried inputs", body.graph.name, count, len(padded) - 2)
    carried_devices = body.input_devices[2:]
    scan_devices = body.natural_devices()[1 + count :]
    wanted: list[tuple[Value | None, Device, bool]] = [(padded[0], HOST, False), (padded[1], HOST, False)]
    wanted += [(value, device, False) for value, device in zip(padded[2:], carried_devices, strict=True)]
    slots = planner.slots.acquire(wanted)
    nested = nest(planner, body, [HOST, *carried_devices, *scan_devices])
    planner.slots.steps.append(
        LoopStep(
            inputs=(*slots, *captured_slots(nested)),
            outputs=define_outputs(planner, node, [*carried_devices, *scan_devices]),
            location=node.location,
            trip_count=slots[0],
            condition=slots[1],
            carried=slots[2:],
            body=nested,
            scan_types=slice_types(body.graph, 1 + count),
            scan_modules=array_modules(planner, scan_devices),
            check_allocation=allocation_checker(planner, node),
        )
    )


def _emit_scan(planner: BodyPlanner, node: Node) -> None:
    body = body_planner(planner, node, "body")
    batched = node.since_version < 9  # the lengths of the sequences come first
    given = node.inputs[batched:]
    scan_count = _scan_count(node, body, given)
    state_count = len(given) - scan_count
    state_devices = body.input_devices[:state_count]
    scan_devices = body.natural_devices()[state_count:]
    devices = [*state_devices, *scan_devices]
    lengths = [(node.inputs[0], HOST, False)] if batched else []
    wanted = [(value, device, False) for value, device in zip(given, body.input_devices, strict=True)]
    slots = planner.slots.acquire([*lengths, *wanted])
    nested = nest(planner, body, devices)
    inputs, outputs = (*slots, *captured_slots(nested)), define_outputs(planner, node, devices)
    states, scans = slots[batched : batched + state_count], slots[batched + state_count :]
    modules, check_allocation = array_modules(planner, scan_devices), allocation_checker(planner, node)
    if batched:
        planner.slots.steps.append(
            BatchedScanStep(
                inputs=inputs,
                outputs=outputs,
                location=node.location,
                body=nested,
                lengths=slots[0],
                states=states,
                scans=scans,
                directions=flags(node, "directions", scan_count),
                scan_types=slice_types(body.graph, state_count),
                scan_modules=modules,
                state_modules=array_modules(planner, state_devices),
                check_allocation=check_allocation,
            )
        )
        return
    output_axes = integers(node, "scan_output_axes", len(scan_devices))
    planner.slots.steps.append(
        ScanStep(
            inputs=inputs,
            outputs=outputs,
            location=node.location,
            body=nested,
            states=states,
            scans=scans,
            input_axes=integers(node, "scan_input_axes", scan_count),
            directions=flags(node, "scan_input_directions", scan_count),
            output_axes=output_axes,
            output_directions=flags(node, "scan_output_directions", len(scan_devices)),
            scan_types=slice_types(body.graph, state_count),
            scan_modules=modules,
            check_allocation=check_allocation,
        )
    )


def _scan_count(node: Node, body: BodyPlanner, given: Sequence[Value | None]) -> int:
    expect(node, "inputs", body.graph.name, len(body.graph.inputs), len(given))
    scan_count = int(node.attributes["num_scan_inputs"])
    if not 0 < scan_count <= len(given):
        raise InvalidGraph(
            f"Scan has {len(given)} input(s), {scan_count} of which would be scanned.",
            where=node.location,
            fix="num_scan_inputs is the number of inputs at the end that are scanned, at least one.",
        )
    return scan_count


def _emit_sequence_map(planner: BodyPlanner, node: Node) -> None:
    """Emit the step of a SequenceMap node. Which inputs are sequences is seen when it runs: they are lists."""
    body = body_planner(planner, node, "body")
    expect(node, "inputs", body.graph.name, len(body.graph.inputs), len(node.inputs))
    wanted = [(value, device, False) for value, device in zip(node.inputs, body.input_devices, strict=True)]
    slots = planner.slots.acquire(wanted)
    devices = body.natural_devices()
    nested = nest(planner, body, devices)
    planner.slots.steps.append(
        SequenceMapStep(
            inputs=(*slots, *captured_slots(nested)),
            outputs=define_outputs(planner, node, devices),
            location=node.location,
            mapped=slots,
            body=nested,
        )
    )


_EMIT: dict[str, Callable[[BodyPlanner, Node], None]] = {
    "If": _emit_if,
    "Loop": _emit_loop,
    "Scan": _emit_scan,
    "SequenceMap": _emit_sequence_map,
}


def emit_control_flow(planner: BodyPlanner, node: Node) -> None:
    """Emit the step of a node that the core runs itself.

    Raises:
        InvalidGraph: A body has the wrong number of inputs or outputs.
    """
    _EMIT[node.op_type](planner, node)


def subgraph_input_device(resources: PlanResources, owner: Node, graph: Graph, position: int) -> Device:
    """Device on which the kernel of `owner` supplies an input of one of its graphs."""
    assigned = resources.assignment.nodes[owner]
    assert assigned.kernel is not None
    for subgraph in assigned.kernel.subgraphs:
        if owner.attributes.get(subgraph.name) is graph and position in subgraph.host_inputs:
            return HOST
    return resources.device_of(assigned)


def emit_subgraph_kernel(planner: BodyPlanner, node: Node, bound: BoundKernel, arguments: tuple[int, ...]) -> None:
    """Emit the step of a node whose kernel runs graphs.

    Args:
        arguments: Slots of the node's inputs.
    """
    resources = planner.resources
    assigned = resources.assignment.nodes[node]
    declared = {subgraph.name: subgraph for subgraph in bound.definition.subgraphs}
    nested = []
    for handle in bound.subgraphs:
        body = body_planner(planner, node, handle.name)
        devices = _output_devices(body, declared[handle.name], resources.device_of(assigned))
        nested.append((handle, nest(planner, body, devices)))
    # The kernel may hand on what a graph returned, which may be a view or an outer value: nothing is known of layouts.
    outputs = tuple(
        planner.slots.discard()
        if value is None
        else planner.slots.define(value, resources.output_device(node, position), strided=True)
        for position, value in enumerate(node.outputs)
    )
    planner.slots.steps.append(
        SubgraphKernelStep(
            inputs=(*arguments, *captured_slots(*(plan for _, plan in nested))),
            outputs=outputs,
            location=node.location,
            provider=assigned.provider,
            call=bound.call,
            arguments=arguments,
            subgraphs=tuple(nested),
        )
    )


def _output_devices(body: BodyPlanner, subgraph: Subgraph, device: Device) -> list[Device]:
    return [HOST if position in subgraph.host_outputs else device for position in range(len(body.graph.outputs))]
