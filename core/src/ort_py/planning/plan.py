"""The ExecutionPlan: an immutable, printable list of steps over numbered slots, shared by threads.

Holds plain data and callables, no graph. A frame is a copy of the plan's `template` plus what one run may write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ort_py.contracts import IAllocator, IStream
from ort_py.devices import Device
from ort_py.dtypes import ValueType
from ort_py.planning.steps import NestedPlan, RegionStep, Step

__all__ = ["ExecutionPlan", "PlanInput", "PlanOutput"]


@dataclass(frozen=True, slots=True)
class PlanInput:
    """A value given to each run.

    Attributes:
        name: Name in the model.
        slot: Where it goes.
        device: Device it must be on.
        type: Declared type.
        default: Whether the template holds a value for runs that do not feed it (overridable initializers).
    """

    name: str
    slot: int
    device: Device
    type: ValueType | None
    default: bool = False


@dataclass(frozen=True, slots=True)
class PlanOutput:
    """A value taken from each run.

    Attributes:
        name: Name in the model.
        slot: Where it is found.
        device: Device it is on.
        type: Type as far as known.
        copy: It may share memory with a feed, a constant or another output, so the caller gets a copy.
    """

    name: str
    slot: int
    device: Device
    type: ValueType | None
    copy: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class ExecutionPlan:
    """How to run one graph.

    Attributes:
        name: Name of the graph.
        steps: In order.
        template: Initial content of the slots: constants in place, None elsewhere.
        inputs: In the graph's order, overridable initializers last.
        outputs: In the graph's order.
        clear: Slots emptied after each run, so that a pooled frame keeps no feed and no result alive.
        streams: Maker of the stream of each device that has one; nested plans use their parent's streams.
        threads: Threads a region instance may use.
        streaming: Providers on a device that has a stream, whose steps keep their order.
        allocators: Allocator of reused memory for each device that has one; the host has none.
    """

    name: str
    steps: tuple[Step, ...]
    template: tuple[Any, ...]
    inputs: tuple[PlanInput, ...]
    outputs: tuple[PlanOutput, ...]
    clear: tuple[int, ...]
    streams: tuple[tuple[Device, Callable[[], IStream | None]], ...] = ()
    threads: int = 1
    streaming: frozenset[str] = frozenset()
    allocators: Mapping[Device, IAllocator] = field(default_factory=dict)

    def nested(self) -> Iterator[tuple[str, NestedPlan]]:
        """(role, body) of each body directly inside."""
        for step in self.steps:
            yield from step.bodies

    @property
    def regions(self) -> tuple[RegionStep, ...]:
        """Steps that run compiled regions, those of bodies not counted."""
        return tuple(step for step in self.steps if isinstance(step, RegionStep))

    def __str__(self) -> str:
        from ort_py.planning.reuse import reusing_steps  # which reads plans

        lines: list[str] = []
        pending: list[tuple[int, str, ExecutionPlan | str]] = [(0, "plan", self)]
        while pending:
            depth, role, item = pending.pop()
            indent = "  " * depth
            if isinstance(item, str):
                lines.append(indent + item)
                continue
            reused = {one.number: one for one in reusing_steps(item)}
            lines.append(f"{indent}{role} '{item.name}': {len(item.steps)} steps, {len(item.template)} slots")
            later: list[tuple[int, str, ExecutionPlan | str]] = [
                (depth + 1, "", f"in  {value.name} -> %{value.slot} on {value.device}") for value in item.inputs
            ]
            for number, step in enumerate(item.steps):
                memory = f"  {reused[number]}" if number in reused else ""
                later.append((depth + 1, "", f"{number:4} {step}{memory}"))
                later.extend((depth + 3, "", line) for line in step.remarks)
                later.extend((depth + 3, role, body.plan) for role, body in step.bodies)
            later.extend(
                (depth + 1, "", f"out {value.name} <- %{value.slot}{' (copied)' if value.copy else ''}")
                for value in item.outputs
            )
            pending.extend(reversed(later))
        return "\n".join(lines)
