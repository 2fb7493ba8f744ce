"""The step of a Scan node: over one sequence along any axis since opset 9, over a batch of sequences in opset 8."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ort_py.devices import HOST
from ort_py.errors import InvalidGraph
from ort_py.graph.ir import Node, Value
from ort_py.planning.control_flow.bodies import (
    allocation_checker,
    array_modules,
    body_planner,
    captured_slots,
    define_outputs,
    expect,
    flags,
    integers,
    nest,
    slice_types,
)
from ort_py.planning.steps import BatchedScanStep, ScanStep

if TYPE_CHECKING:
    from ort_py.planning.builder import GraphPlanner

__all__ = ["emit_scan"]

_BATCH_AND_TIME = (0, 1)


def emit_scan(planner: GraphPlanner, node: Node) -> None:
    """Emit the step of a Scan node."""
    (_emit_batched if node.since_version < 9 else _emit_single)(planner, node)


def _emit_single(planner: GraphPlanner, node: Node) -> None:
    body = body_planner(planner, node, "body")
    scan_count = _scan_count(node, body, node.inputs)
    state_count = len(node.inputs) - scan_count
    state_devices = body.input_devices[:state_count]
    scan_devices = body.natural_devices()[state_count:]
    outputs = len(body.graph.outputs) - state_count
    output_axes = integers(node, "scan_output_axes", outputs)
    wanted = [(value, device, False) for value, device in zip(node.inputs, body.input_devices, strict=True)]
    slots = planner.slots.acquire(wanted)
    nested = nest(planner, body, [*state_devices, *scan_devices])
    planner.slots.steps.append(
        ScanStep(
            inputs=(*slots, *captured_slots(nested)),
            outputs=define_outputs(planner, node, [*state_devices, *scan_devices]),
            location=node.location,
            states=slots[:state_count],
            scans=slots[state_count:],
            body=nested,
            input_axes=integers(node, "scan_input_axes", scan_count),
            input_directions=flags(node, "scan_input_directions", scan_count),
            output_axes=output_axes,
            output_directions=flags(node, "scan_output_directions", outputs),
            scan_types=slice_types(
                body.graph.outputs[state_count:], node.outputs[state_count:], [(axis,) for axis in output_axes]
            ),
            scan_modules=array_modules(planner, scan_devices),
            check_allocation=allocation_checker(planner, node),
        )
    )


def _emit_batched(planner: GraphPlanner, node: Node) -> None:
    body = body_planner(planner, node, "body")
    given = node.inputs[1:]  # the sequence lengths come first
    scan_count = _scan_count(node, body, given)
    state_count = len(given) - scan_count
    state_devices = body.input_devices[:state_count]
    scan_devices = body.natural_devices()[state_count:]
    made = [*state_devices, *scan_devices]
    wanted = [(value, device, False) for value, device in zip(given, body.input_devices, strict=True)]
    slots = planner.slots.acquire([(node.inputs[0], HOST, False), *wanted])
    nested = nest(planner, body, made)
    planner.slots.steps.append(
        BatchedScanStep(
            inputs=(*slots, *captured_slots(nested)),
            outputs=define_outputs(planner, node, made),
            location=node.location,
            lengths=slots[0],
            states=slots[1 : 1 + state_count],
            scans=slots[1 + state_count :],
            body=nested,
            directions=flags(node, "directions", scan_count),
            slice_types=slice_types(
                body.graph.outputs[state_count:],
                node.outputs[state_count:],
                (_BATCH_AND_TIME,) * len(scan_devices),
            ),
            modules=array_modules(planner, made),
            check_allocation=allocation_checker(planner, node),
        )
    )


def _scan_count(node: Node, body: GraphPlanner, given: Sequence[Value | None]) -> int:
    expect(node, "inputs", body.graph.name, len(body.graph.inputs), len(given))
    scan_count = int(node.attributes["num_scan_inputs"])
    if not 0 < scan_count <= len(given):
        raise InvalidGraph(
            f"Scan has {len(given)} input(s), {scan_count} of which would be scanned.",
            where=node.location,
            fix="num_scan_inputs counts the last inputs, at least one.",
        )
    return scan_count
