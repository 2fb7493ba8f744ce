"""Steps for If, Loop and Scan: where bodies get their values and where their results are left.

A body's planner is done with its own steps when this is called; here its outputs get their devices, its captures
get slots of the enclosing plan, and the step is emitted. Carried values stay on one device through all iterations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ort_py import errors
from ort_py.devices import HOST, Device
from ort_py.dtypes import TensorType, ValueType
from ort_py.errors import InvalidGraph
from ort_py.graph.ir import Graph, Node, Value
from ort_py.limits import check_allocation
from ort_py.planning.steps import IfStep, LoopStep, NestedPlan, ScanStep

if TYPE_CHECKING:
    from ort_py.planning.builder import GraphPlanner

__all__ = ["emit_control_flow"]


def emit_control_flow(planner: GraphPlanner, node: Node) -> None:
    """Emit the step of an If, Loop or Scan node.

    Raises:
        InvalidGraph: A body has the wrong number of inputs or outputs.
        NotImplemented: Scan of opset 8, whose batch axis later versions dropped.
    """
    _EMIT[node.op_type](planner, node)


def _emit_if(planner: GraphPlanner, node: Node) -> None:
    (condition,) = planner.slots.acquire([(node.inputs[0], HOST, False)])
    branches = [_body(planner, node, name) for name in ("then_branch", "else_branch")]
    for branch in branches:
        _expect(node, "branch outputs", branch.graph.name, len(branch.graph.outputs), len(branches[0].graph.outputs))
    made = [branch.natural_devices() for branch in branches]
    devices = [left if left == right else HOST for left, right in zip(*made, strict=True)]
    then_branch, else_branch = (_nest(planner, branch, devices) for branch in branches)
    captured = [outer for body in (then_branch, else_branch) for outer, _ in body.captures]
    planner.slots.steps.append(
        IfStep(
            inputs=(condition, *captured),
            outputs=_define(planner, node, devices),
            location=node.location,
            then_branch=then_branch,
            else_branch=else_branch,
        )
    )


def _emit_loop(planner: GraphPlanner, node: Node) -> None:
    body = _body(planner, node, "body")
    count = len(body.graph.inputs) - 2
    padded = [*node.inputs, None, None][: max(2, len(node.inputs))]
    _expect(node, "loop-carried inputs", body.graph.name, count, len(padded) - 2)
    carried_devices = body.input_devices[2:]
    made = body.natural_devices()
    scan_devices = made[1 + count :]
    wanted: list[tuple[Value | None, Device, bool]] = [(padded[0], HOST, False), (padded[1], HOST, False)]
    wanted += [(value, device, False) for value, device in zip(padded[2:], carried_devices, strict=True)]
    slots = planner.slots.acquire(wanted)
    nested = _nest(planner, body, [HOST, *carried_devices, *scan_devices])
    planner.slots.steps.append(
        LoopStep(
            inputs=(*slots, *(outer for outer, _ in nested.captures)),
            outputs=_define(planner, node, [*carried_devices, *scan_devices]),
            location=node.location,
            trip_count=slots[0],
            condition=slots[1],
            carried=slots[2:],
            body=nested,
            scan_types=_slice_types(body.graph.outputs[1 + count :], node.outputs[count:], (0,) * len(scan_devices)),
            scan_modules=_modules(planner, scan_devices),
            check_allocation=_checker(planner, node),
        )
    )


def _emit_scan(planner: GraphPlanner, node: Node) -> None:
    if node.since_version < 9:
        raise errors.NotImplemented(
            "Scan of opset 8 is not supported.",
            where=node.location,
            why="its batch axis and sequence lengths were dropped in opset 9",
            fix="Convert the model to opset 9 or later with onnx.version_converter.",
        )
    body = _body(planner, node, "body")
    scan_count = int(node.attributes["num_scan_inputs"])
    state_count = len(body.graph.inputs) - scan_count
    _expect(node, "inputs", body.graph.name, len(body.graph.inputs), len(node.inputs))
    if not 0 < scan_count <= len(node.inputs):
        raise InvalidGraph(
            f"Scan has {len(node.inputs)} input(s), {scan_count} of which would be scanned.",
            where=node.location,
            fix="num_scan_inputs counts the last inputs, at least one.",
        )
    made = body.natural_devices()
    state_devices = body.input_devices[:state_count]
    scan_devices = made[state_count:]
    outputs = len(body.graph.outputs) - state_count
    output_axes = _integers(node, "scan_output_axes", outputs)
    wanted = [(value, device, False) for value, device in zip(node.inputs, body.input_devices, strict=True)]
    slots = planner.slots.acquire(wanted)
    nested = _nest(planner, body, [*state_devices, *scan_devices])
    planner.slots.steps.append(
        ScanStep(
            inputs=(*slots, *(outer for outer, _ in nested.captures)),
            outputs=_define(planner, node, [*state_devices, *scan_devices]),
            location=node.location,
            states=slots[:state_count],
            scans=slots[state_count:],
            body=nested,
            input_axes=_integers(node, "scan_input_axes", scan_count),
            input_directions=_integers(node, "scan_input_directions", scan_count),
            output_axes=output_axes,
            output_directions=_integers(node, "scan_output_directions", outputs),
            scan_types=_slice_types(body.graph.outputs[state_count:], node.outputs[state_count:], output_axes),
            scan_modules=_modules(planner, scan_devices),
            check_allocation=_checker(planner, node),
        )
    )


_EMIT: dict[str, Callable[[GraphPlanner, Node], None]] = {
    "If": _emit_if,
    "Loop": _emit_loop,
    "Scan": _emit_scan,
}


def _body(planner: GraphPlanner, node: Node, name: str) -> GraphPlanner:
    graph = node.attributes.get(name)
    if not isinstance(graph, Graph):
        raise InvalidGraph(
            f"{node.op_type} has no graph attribute '{name}'.", where=node.location, fix="Export the model again."
        )
    return planner.bodies[graph]


def _nest(planner: GraphPlanner, body: GraphPlanner, devices: Sequence[Device]) -> NestedPlan:
    plan = body.finish(list(devices))
    captures: list[tuple[int, int]] = []
    for (value, device), inner in body.slots.captures.items():
        (outer,) = planner.slots.acquire([(value, device, False)])
        captures.append((outer, inner))
    return NestedPlan(plan, planner.slots.reserve(), tuple(captures))


def _define(planner: GraphPlanner, node: Node, devices: Sequence[Device]) -> tuple[int, ...]:
    missing = len(devices) - len(node.outputs)
    if missing < 0:
        _expect(node, "outputs", "the body", len(devices), len(node.outputs))
    # Trailing outputs that nobody wants are not written in the model.
    values = [*node.outputs, *[None] * missing]
    # A body may return a view or an outer value as it is, so nothing is known of the layout.
    return tuple(
        planner.slots.discard() if value is None else planner.slots.define(value, device, strided=True)
        for value, device in zip(values, devices, strict=True)
    )


def _slice_types(
    made: Sequence[Value], stacked: Sequence[Value | None], axes: Sequence[int]
) -> tuple[ValueType | None, ...]:
    """The type of each scan output's slice: what a loop of no iteration has to go by.

    Carried values may change their shape, so inference says little inside a body; the node's output may say more.
    """
    types: list[ValueType | None] = []
    for index, (value, axis) in enumerate(zip(made, axes, strict=True)):
        outer = stacked[index] if index < len(stacked) else None
        inside, outside = value.type, None if outer is None else outer.type
        if isinstance(inside, TensorType) and isinstance(outside, TensorType) and outside.shape:
            dims = list(outside.shape)
            if -len(dims) <= axis < len(dims):
                del dims[axis]
            known = dims if inside.shape is None or len(inside.shape) != len(dims) else inside.shape
            merged = (own if isinstance(own, int) else other for own, other in zip(known, dims, strict=True))
            inside = TensorType(inside.data_type, tuple(merged))
        types.append(inside)
    return tuple(types)


def _integers(node: Node, name: str, count: int) -> tuple[int, ...]:
    given = node.attributes.get(name)
    values = tuple(int(item) for item in given) if given else (0,) * count
    _expect(node, name, "the node", len(values), count)
    return values


def _expect(node: Node, what: str, where: str, found: int, needed: int) -> None:
    if found != needed:
        raise InvalidGraph(
            f"{node.op_type} and its body do not fit: {what}.",
            where=node.location,
            why=f"'{where}' has {found}, {needed} needed",
            fix="Make the body's inputs and outputs agree with the node's.",
        )


def _modules(planner: GraphPlanner, devices: Sequence[Device]) -> tuple[Any, ...]:
    return tuple(planner.slots.array_module(device) for device in devices)


def _checker(planner: GraphPlanner, node: Node) -> Callable[[Any, Any], None]:
    limits, location = planner.resources.services.limits, node.location

    def check(shape: Any, dtype: Any) -> None:
        check_allocation(limits, shape, dtype, location)

    return check
