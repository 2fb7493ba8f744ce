"""Common parts of nodes with bodies: the body's plan is nested in its parent's, and its outputs are defined there.

It does not depend on operators. A body's planner is done with its own steps when this is called; here its outputs are
brought to their devices and its captures get slots of the enclosing plan.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from ort_py.devices import Device
from ort_py.errors import InvalidGraph
from ort_py.graph.ir import Graph, Node
from ort_py.limits import check_allocation
from ort_py.planning.plan import ExecutionPlan, NestedPlan
from ort_py.planning.resources import PlanResources
from ort_py.planning.slots import SlotTable


class BodyPlanner(Protocol):
    """The planner of one graph, as steps with bodies see it; `GraphPlanner` is the one there is."""

    slots: SlotTable
    input_devices: list[Device]

    @property
    def graph(self) -> Graph:
        """The graph that is planned."""

    @property
    def resources(self) -> PlanResources:
        """Parts that its steps are made from."""

    @property
    def bodies(self) -> Mapping[Graph, BodyPlanner]:
        """Planners of the graphs inside, whose own steps are there already."""

    def natural_devices(self) -> list[Device]:
        """Devices on which outputs are made."""

    def finish(self, devices: list[Device]) -> ExecutionPlan:
        """Bring the outputs to their devices and close the plan."""


def body_planner(planner: BodyPlanner, node: Node, name: str) -> BodyPlanner:
    """The planner of the graph that is a node's attribute.

    Raises:
        InvalidGraph: The node has no such attribute.
    """
    graph = node.attributes.get(name)
    if not isinstance(graph, Graph):
        raise InvalidGraph(
            f"{node.op_type} has no graph attribute '{name}'.", where=node.location, fix="Export the model again."
        )
    return planner.bodies[graph]


def nest(planner: BodyPlanner, body: BodyPlanner, devices: Sequence[Device]) -> NestedPlan:
    """Close a body's plan with its outputs on these devices, and bring what it captures to where it reads it."""
    plan = body.finish(list(devices))
    captures: list[tuple[int, int]] = []
    for (value, device), inner in body.slots.captures.items():
        (outer,) = planner.slots.acquire([(value, device, False)])
        captures.append((outer, inner))
    return NestedPlan(plan, planner.slots.reserve(), tuple(captures))


def captured_slots(*bodies: NestedPlan) -> tuple[int, ...]:
    """Slots of the enclosing plan that the bodies read: inputs of the step, so that they live until it is done."""
    return tuple(outer for body in bodies for outer, _ in body.captures)


def define_outputs(planner: BodyPlanner, node: Node, devices: Sequence[Device]) -> tuple[int, ...]:
    """Slots of what a node makes, one per entry of `devices`.

    Raises:
        InvalidGraph: The node has more outputs than its body makes.
    """
    missing = len(devices) - len(node.outputs)
    if missing < 0:
        expect(node, "outputs", "the body", len(devices), len(node.outputs))
    # Trailing outputs that are not used are not written to the model.
    values = [*node.outputs, *[None] * missing]
    # A body may return a view or an outer value as it is, so nothing is known of the layout.
    return tuple(
        planner.slots.discard() if value is None else planner.slots.define(value, device, strided=True)
        for value, device in zip(values, devices, strict=True)
    )


def integers(node: Node, name: str, count: int) -> tuple[int, ...]:
    """An attribute of `count` integers, zeros where it is absent.

    Raises:
        InvalidGraph: It has another number of entries.
    """
    given = node.attributes.get(name)
    values = tuple(int(item) for item in given) if given else (0,) * count
    expect(node, name, "the node", len(values), count)
    return values


def flags(node: Node, name: str, count: int) -> tuple[int, ...]:
    """`integers` that are all 0 or 1, as directions are.

    Raises:
        InvalidGraph: One is neither, or there is another number of them.
    """
    values = integers(node, name, count)
    if not {0, 1}.issuperset(values):
        raise InvalidGraph(
            f"{node.op_type} has the {name} {list(values)}.",
            where=node.location,
            fix="Each entry must be 0 (forward) or 1 (backward).",
        )
    return values


def expect(node: Node, what: str, where: str, found: int, needed: int) -> None:
    """Refuse a node whose counts do not fit its body's.

    Raises:
        InvalidGraph: `found` is not `needed`.
    """
    if found != needed:
        raise InvalidGraph(
            f"{node.op_type} and its body do not match: {what}.",
            where=node.location,
            why=f"'{where}' has {found}, {needed} needed",
            fix="Make the body's inputs and outputs agree with the node's.",
        )


def array_modules(planner: BodyPlanner, devices: Sequence[Device]) -> tuple[Any, ...]:
    return tuple(planner.slots.array_module(device) for device in devices)


def allocation_checker(planner: BodyPlanner, node: Node) -> Callable[[Any, Any], None]:
    """``f(shape, dtype)`` that asks the session's limits on behalf of a node."""
    limits, location = planner.resources.services.limits, node.location

    def check(shape: Any, dtype: Any) -> None:
        check_allocation(limits, shape, dtype, location)

    return check
