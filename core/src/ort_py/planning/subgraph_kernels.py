"""The step of a kernel that holds graphs: where the graphs get their values and where they leave them.

The counterpart of `control_flow` for operators of plug-ins. The kernel says in its declaration which values of its
graphs it gives and takes on the host; all others are on its provider's device.
"""

from __future__ import annotations

from ort_py.contracts import Subgraph
from ort_py.devices import HOST, Device
from ort_py.graph.ir import Graph, Node
from ort_py.kernels.binding import BoundKernel
from ort_py.planning.bodies import BodyPlanner, body_planner, captured_slots, nest
from ort_py.planning.plan import SubgraphKernelStep
from ort_py.planning.resources import PlanResources

__all__ = ["emit_subgraph_kernel", "subgraph_input_device"]


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
        planner: Planner of the node's graph.
        node: The node.
        bound: Its kernel.
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
