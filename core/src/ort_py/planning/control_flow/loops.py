"""The step of a Loop node: carried values stay on one device through all iterations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ort_py.devices import HOST, Device
from ort_py.graph.ir import Node, Value
from ort_py.planning.control_flow.bodies import (
    allocation_checker,
    array_modules,
    body_planner,
    captured_slots,
    define_outputs,
    expect,
    nest,
    slice_types,
)
from ort_py.planning.steps import LoopStep

if TYPE_CHECKING:
    from ort_py.planning.builder import GraphPlanner

__all__ = ["emit_loop"]


def emit_loop(planner: GraphPlanner, node: Node) -> None:
    """Emit the step of a Loop node."""
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
            scan_types=slice_types(body.graph.outputs[1 + count :], node.outputs[count:], ((0,),) * len(scan_devices)),
            scan_modules=array_modules(planner, scan_devices),
            check_allocation=allocation_checker(planner, node),
        )
    )
