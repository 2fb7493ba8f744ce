"""The ExecutionPlan: an immutable, printable list of steps over numbered slots, shared by threads.

A plan holds plain data and callables, no graph. A frame is a copy of the plan's `template` plus what one run may write.
Steps are plain records. Every copy and every wait is a step of its own, so that reading a plan is reading what happens;
how a step runs is `execution`'s business. Slot 0 of every frame holds the frame itself, slot 1 always None: what an
absent optional input reads.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from ort_py.devices import HOST
from ort_py.errors import Location
from ort_py.lazy_dataclass import dataclass
from ort_py.logs import lazy_logger
from ort_py.printable import one_line

if TYPE_CHECKING:
    from ort_py.constraints import Admissions
    from ort_py.contracts import CompiledRegion, IAllocator, IStream, NodeSpec
    from ort_py.devices import Device
    from ort_py.dtypes import ValueType
    from ort_py.kernels.binding import BoundKernel
    from ort_py.kernels.subgraphs import BoundSubgraph
    from ort_py.memory.transfer import Hop

_logger = lazy_logger("ort_py.planning")

FRAME_SLOT = 0
NONE_SLOT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseStep:
    """The common base of steps.

    Attributes:
        inputs: Slots read.
        outputs: Slots written.
        release: Slots whose content is dropped afterwards, because this was its last use.
        location: The node, for errors and reports; empty for steps the planner added.
        provider: Provider that runs the step.
    """

    inputs: tuple[int, ...] = ()
    outputs: tuple[int, ...] = ()
    release: tuple[int, ...] = ()
    location: Location = field(default_factory=Location)
    provider: str = ""

    @property
    def title(self) -> str:
        """Describe the step in a few words."""
        return one_line(f"{self.location.op_type} '{self.location.node}'")

    @property
    def bodies(self) -> tuple[tuple[str, NestedPlan], ...]:
        """(role, plan) of each graph that runs inside the step."""
        return ()

    @property
    def remarks(self) -> tuple[str, ...]:
        """Remarks from the step's provider, one per line."""
        return ()

    def __str__(self) -> str:
        arrow = f"{_slots(self.inputs)} -> {_slots(self.outputs)}"
        freed = f"  release {_slots(self.release)}" if self.release else ""
        who = f" on {self.provider}" if self.provider else ""
        return f"{self.title}{who}: {arrow}{freed}"


def _slots(slots: tuple[int, ...]) -> str:
    return "(" + ", ".join("-" if slot == NONE_SLOT else f"%{slot}" for slot in slots) + ")"


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelStep(BaseStep):
    """Call a bound kernel: one output is returned bare, several as a tuple.

    Attributes:
        call: The bound kernel.
        into: The same with an array for each output behind the inputs; None where the kernel makes its outputs itself.
        over: The kernel with the array of an input, or None, for each output behind the inputs; None where it has no
            such form.
        inplace: (position of an input, position of an output) that may be one array for `into` or `over`.
        views: (position of an output, position of an input) that may share memory.
        device: Device of the kernel, and of its outputs where there is an `into`.
        check: ``f(inputs, result)`` → results, for a kernel whose results are looked at where a run is recorded.
        node: The node, from which the error of a failing kernel says which constraint of the operator is broken.
        bind: Binds the kernel once more, with these inputs known by position; None where that is of no use.
    """

    call: Callable[..., Any]
    into: Callable[..., Any] | None = None
    over: Callable[..., Any] | None = None
    inplace: tuple[tuple[int, int], ...] = ()
    views: tuple[tuple[int, int], ...] = ()
    device: Device = HOST
    check: Callable[[Sequence[Any], Any], Sequence[Any]] | None = None
    node: NodeSpec | None = None
    bind: Callable[[Mapping[int, Any]], BoundKernel] | None = None


class RegionStandIn(Protocol):
    """A replacement that runs the nodes of a region where it declines a run; `stand_in` makes it.

    Attributes:
        lock: Held while `program` is made.
        program: Returns the compiled plan while it is in use, else None.
    """

    lock: threading.Lock
    program: Callable[[], Any]

    def plan(self) -> ExecutionPlan:
        """A plan of the region's nodes."""

    def note(self, reason: str | None) -> None:
        """Count a run that the region declined for this reason; None where it was not asked."""

    def remarks(self) -> tuple[str, ...]:
        """The events so far, one per line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionStep(BaseStep):
    """Run the frame's instance of a compiled region.

    Attributes:
        region: The region.
        instance: Slot of the frame's instance.
        device: Device of the region.
        name: Its name in reports.
        node_count: Nodes it stands for.
        stand_in: Runs its nodes where the region declines a run; None where nothing does.
        admissions: Checks the inputs of a run before the region sees them; None where nothing can be checked.
        deterministic: Whether equal inputs, on the host, give equal outputs.
    """

    region: CompiledRegion
    instance: int
    device: Device
    name: str
    node_count: int
    stand_in: RegionStandIn | None = None
    admissions: Admissions | None = None
    deterministic: bool = False

    @property
    def title(self) -> str:
        return f"region {self.name} of {self.node_count} nodes"

    @property
    def remarks(self) -> tuple[str, ...]:
        declined = () if self.stand_in is None else self.stand_in.remarks()
        try:
            return (*self.region.remarks(), *declined)
        except Exception:  # a plug-in's code: the plan is shown without it
            _logger.exception("asking region %s for its remarks failed", self.name)
            return declined


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyStep(BaseStep):
    """Copy one array to another device.

    Attributes:
        hops: The copies in order; one, or two through the host.
    """

    hops: tuple[Hop, ...]

    @property
    def title(self) -> str:
        return f"copy {self.hops[0].source} to {self.hops[-1].target}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitStep(BaseStep):
    """Block until a device's stream has done what was enqueued so far: the host is about to read."""

    device: Device

    @property
    def title(self) -> str:
        return f"wait for {self.device}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContiguousStep(BaseStep):
    """Make a C-contiguous array for a kernel that cannot take strides; a no-op where it is contiguous already.

    Attributes:
        array_module: The module of the array's device.
    """

    array_module: Any

    @property
    def title(self) -> str:
        return "make contiguous"


@dataclass(frozen=True, slots=True)
class NestedPlan:
    """A body's plan inside a control-flow step.

    Attributes:
        plan: The plan.
        frame: Slot of the child frame in the parent's frame.
        captures: (parent's slot, body's slot) of each outer value the body reads.
    """

    plan: ExecutionPlan
    frame: int
    captures: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class IfStep(BaseStep):
    """Run one of two bodies. `inputs` begins with the condition, on the host; captures follow.

    Attributes:
        known: The condition, where it is the same in all runs that the step is compiled for.
    """

    then_branch: NestedPlan
    else_branch: NestedPlan
    known: bool | None = None

    @property
    def bodies(self) -> tuple[tuple[str, NestedPlan], ...]:
        return (("then", self.then_branch), ("else", self.else_branch))


@dataclass(frozen=True, slots=True, kw_only=True)
class BodyStep(BaseStep):
    """The common base of steps that run one graph of their node."""

    body: NestedPlan

    @property
    def bodies(self) -> tuple[tuple[str, NestedPlan], ...]:
        return (("body", self.body),)


@dataclass(frozen=True, slots=True, kw_only=True)
class StackingStep(BodyStep):
    """The common base of steps that run a body again and again and stack what it makes.

    Attributes:
        scan_types: Type of each scan output's slice, for steps that run no iteration.
        scan_modules: Array module of each scan output.
        check_allocation: Asked before scan outputs are stacked.
    """

    scan_types: tuple[ValueType | None, ...] = ()
    scan_modules: tuple[Any, ...] = ()
    check_allocation: Callable[[Any, Any], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopStep(StackingStep):
    """Run a body while its condition holds (ONNX Loop).

    Attributes:
        trip_count: Slot of the maximum trip count, on the host, or `NONE_SLOT`.
        condition: Slot of the first condition, on the host, or `NONE_SLOT`.
        carried: Slots of the initial loop-carried values.
    """

    trip_count: int
    condition: int
    carried: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SlicingStep(StackingStep):
    """The common base of steps that run a body over slices of their scan inputs.

    Attributes:
        states: Slots of the initial state values.
        scans: Slots of the scan inputs.
        directions: One entry a scan input; 1 is backwards.
    """

    states: tuple[int, ...]
    scans: tuple[int, ...]
    directions: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanStep(SlicingStep):
    """Run a body over one sequence, along any axis (ONNX Scan, version 9 on).

    Attributes:
        input_axes: One entry a scan input.
        output_axes, output_directions: One entry a scan output.
    """

    input_axes: tuple[int, ...]
    output_axes: tuple[int, ...]
    output_directions: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchedScanStep(SlicingStep):
    """Run a body over a batch of sequences, each up to its own length (ONNX Scan, version 8).

    States have a batch axis in front, scan inputs a batch and a time axis. Backwards is from a sequence's own end.

    Attributes:
        lengths: Slot of the length of each sequence, on the host, `NONE_SLOT` where all are as long as the inputs.
        state_modules: Array module of each state.
    """

    lengths: int
    state_modules: tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceMapStep(BodyStep):
    """Run a body once for each element of a sequence (ONNX SequenceMap).

    Attributes:
        mapped: Slots of the node's inputs: a sequence, then sequences that are walked with it and tensors that are not.
    """

    mapped: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SubgraphKernelStep(BaseStep):
    """Call a bound kernel that runs graphs of its node itself. `inputs` begins with the arguments; captures follow.

    Attributes:
        call: The bound kernel.
        arguments: Slots of the node's inputs.
        subgraphs: Each graph with the name of its attribute and what the kernel calls it by.
    """

    call: Callable[..., Any]
    arguments: tuple[int, ...]
    subgraphs: tuple[tuple[BoundSubgraph, NestedPlan], ...]

    @property
    def bodies(self) -> tuple[tuple[str, NestedPlan], ...]:
        return tuple((bound.name, body) for bound, body in self.subgraphs)


Step: TypeAlias = (
    KernelStep
    | RegionStep
    | CopyStep
    | WaitStep
    | ContiguousStep
    | IfStep
    | LoopStep
    | ScanStep
    | BatchedScanStep
    | SequenceMapStep
    | SubgraphKernelStep
)


@dataclass(frozen=True, slots=True)
class PlanInput:
    """A value given to each run.

    Attributes:
        name: Name in the model.
        slot: Slot of the value.
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
        slot: Slot of the value.
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
    """The steps and slots of one graph.

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
