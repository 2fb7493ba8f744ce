"""An engine's plan run one step at a time: what each step read and wrote is looked at, and may be replaced.

These are the engine's own steps, with its kernels, regions and copies, in the order in which it runs them; only the
loop around them is another. Names of values come from the graph the plan was made of. It handles a single engine.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ort_py.devices import HOST, Device
from ort_py.engine.engine import Engine
from ort_py.execution.frame import Frame, session_closed
from ort_py.execution.sequential import cause_of, placed
from ort_py.graph.ir import Graph, Node, Value
from ort_py.lazy_dataclass import dataclass
from ort_py.partition.assignment import Assignment
from ort_py.planning.plan import CopyStep, ExecutionPlan, KernelStep, RegionStep, Step


@dataclass(frozen=True, slots=True)
class PlannedNodes:
    """The part of the graph that a step stands for.

    Attributes:
        nodes: Its nodes; none for copies and waits.
        inputs: Value of each input; none where the step holds graphs.
        outputs: Value of each output; None if it is not read.
    """

    nodes: tuple[Node, ...] = ()
    inputs: tuple[Value | None, ...] = ()
    outputs: tuple[Value | None, ...] = ()


@dataclass(frozen=True, slots=True)
class Executed:
    """A step that has run."""

    step: Step
    planned: PlannedNodes
    inputs: tuple[Any, ...]


class SteppedRun:
    """One run of an engine's plan.

    Args:
        engine: The engine; it must stay open, and may run in other threads meanwhile.
        feed: Values by input name, as for `InferenceSession.run`.

    Attributes:
        graph: The graph that the plan was made of: optimised and partitioned.

    Raises:
        InvalidArgument: The session is closed, or the feed does not fit.
    """

    def __init__(self, engine: Engine, feed: Mapping[str, Any]) -> None:
        runner, model, assembled = engine.runner, engine.model, engine.assembled
        if runner is None or model is None or assembled is None:
            raise session_closed()
        self._transfers = assembled.transfers
        self._pool = runner.pool
        self.graph: Graph = model.graph
        self._plan: ExecutionPlan = assembled.program.plan
        self.steps = _planned_nodes(self._plan, self.graph, assembled.assignment)
        self.position = 0
        self._engine = engine
        self._started_ns = 0
        self._frame: Frame = runner.begin(feed)

    def __enter__(self) -> SteppedRun:
        self._started_ns = time.perf_counter_ns()
        for provider in self._engine.providers.in_use:
            provider.on_run_start()
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.discard(self._frame)
        self._engine.end_run(self._started_ns)

    @property
    def done(self) -> bool:
        return self.position >= len(self._plan.steps)

    def step(self) -> Executed:
        """Run the next step."""
        frame, number = self._frame, self.position
        step = self._plan.steps[number]
        inputs = tuple([frame.slots[slot] for slot in step.inputs])
        try:
            with frame.current_streams():
                frame.context.run(frame.instructions[number], frame.slots)
        except Exception as error:  # kernels and regions may raise anything; it is placed and chained
            raise placed(error, step, _held(frame, step, inputs)) from cause_of(error)
        self.position += 1
        return Executed(step, self.steps[number], inputs)

    def outputs(self, executed: Executed) -> Iterator[tuple[int, Value]]:
        """(slot, value) of each output of a step that is read later."""
        step = executed.step
        for slot, value in zip(step.outputs, executed.planned.outputs, strict=False):
            if value is not None:
                yield slot, value

    def read(self, slot: int, step: Step) -> Any:
        """Read a step's output from a slot, to the host."""
        return self.on_host(self._frame.slots[slot], step)

    def replace(self, slot: int, value: Any, step: Step) -> None:
        """Let later steps read something else.

        Args:
            value: A host value of the same kind and type.
        """
        slots = self._frame.slots
        if _on_host(slots[slot]):
            slots[slot] = value
        else:
            slots[slot] = self._moved(value, HOST, _device_of(step))

    def on_host(self, value: Any, step: Step) -> Any:
        """A value that a step read or wrote, on the host: copied there where it is not."""
        if isinstance(value, list):
            return [self.on_host(item, step) for item in value]
        return value if _on_host(value) else self._moved(value, _device_of(step), HOST)

    def _moved(self, value: Any, source: Device, target: Device) -> Any:
        streams = self._frame.streams
        with self._frame.current_streams():
            for hop in self._transfers.route(source, target):
                stream = streams.get(hop.source) or streams.get(hop.target)
                value = hop.transfer.copy(value, hop.source, hop.target, stream)
                if stream is not None:
                    stream.synchronize()
        return value


def _held(frame: Frame, step: Step, inputs: tuple[Any, ...]) -> list[Any]:
    """The slots with what the step read still in them, for a message about it."""
    slots = list(frame.slots)
    for slot, value in zip(step.inputs, inputs, strict=True):
        slots[slot] = value
    return slots


def _planned_nodes(plan: ExecutionPlan, graph: Graph, assignment: Assignment) -> list[PlannedNodes]:
    nodes = {node.name: node for node in graph.nodes}
    regions = {region.name: region for region in assignment.regions.get(graph, [])}
    found: list[PlannedNodes] = []
    for step in plan.steps:
        if isinstance(step, RegionStep):
            region = regions[step.name]
            members = region.nodes
            taken: Sequence[Value | None] = region.border.inputs
            written: Sequence[Value | None] = region.border.outputs
        elif step.location.node in nodes:
            members = (nodes[step.location.node],)
            # A step that holds graphs reads more than its node says.
            taken = members[0].inputs if isinstance(step, KernelStep) else ()
            written = members[0].outputs
        else:
            found.append(PlannedNodes())
            continue
        gone = [slot in step.release for slot in step.outputs]
        read = [None if unread else value for unread, value in zip(gone, written, strict=False)]
        found.append(PlannedNodes(tuple(members), tuple(taken), tuple(read)))
    return found


def _on_host(value: Any) -> bool:
    if isinstance(value, list):
        return all(_on_host(item) for item in value)
    return value is None or isinstance(value, np.ndarray | np.generic | dict)


def _device_of(step: Step) -> Device:
    """The device on which a step has what is not on the host."""
    if isinstance(step, KernelStep | RegionStep):
        return step.device
    if isinstance(step, CopyStep):
        return step.hops[-1].target
    devices = [output.device for _, body in step.bodies for output in body.plan.outputs]
    return next((device for device in devices if device != HOST), HOST)
