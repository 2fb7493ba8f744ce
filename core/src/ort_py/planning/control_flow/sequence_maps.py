"""The step of a SequenceMap node: its body once for each element of a sequence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ort_py.graph.ir import Node
from ort_py.planning.control_flow.bodies import body_planner, captured_slots, define_outputs, expect, nest
from ort_py.planning.steps import SequenceMapStep

if TYPE_CHECKING:
    from ort_py.planning.builder import GraphPlanner

__all__ = ["emit_sequence_map"]


def emit_sequence_map(planner: GraphPlanner, node: Node) -> None:
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
