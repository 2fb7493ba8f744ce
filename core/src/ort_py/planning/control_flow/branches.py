"""The step of an If node: one of two bodies runs, and both leave their results on the same devices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ort_py.devices import HOST
from ort_py.graph.ir import Node
from ort_py.planning.control_flow.bodies import body_planner, captured_slots, define_outputs, expect, nest
from ort_py.planning.steps import IfStep

if TYPE_CHECKING:
    from ort_py.planning.builder import GraphPlanner

__all__ = ["emit_if"]


def emit_if(planner: GraphPlanner, node: Node) -> None:
    """Emit the step of an If node."""
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
