"""A region as a list of steps over numbered slots: kernels, and inside them element-wise parts compiled to one kernel.

The same program runs eagerly and while a graph is captured. Values are dropped behind their last reader, so that the
pool uses their memory again in both. Comes after `binding`; before `region`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ort_py.contracts import (
    CompiledRegion,
    FrameResources,
    KernelCatalog,
    KernelDef,
    KernelForms,
    NodeSpec,
    RegionInstance,
    RegionView,
)
from ort_py.contracts.graph_view import Array
from ort_py.devices import Device
from ort_py.errors import ExecutionError, KernelNotFoundError, OrtPyError
from ort_py.lazy_dataclass import dataclass
from ort_py_cuda.capture.binding import RegionContext, weights_of
from ort_py_cuda.capture.claims import definition_of

__all__ = ["Program", "Step", "program_of"]


@dataclass(slots=True)
class Step:
    """One kernel, or one compiled part.

    Attributes:
        label: For messages: the node.
        inputs: Slots; -1 for an absent input.
        outputs: Slots; -1 for an unused output.
        call: The kernel; None for a compiled part.
        part: The compiled part; None for a kernel.
        single: Whether the kernel returns a bare array.
        contiguous: Whether inputs have to be C-contiguous.
        release: Slots that are not read after this step.
    """

    label: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    call: Callable[..., Any] | None
    part: CompiledRegion | None = None
    single: bool = True
    contiguous: bool = True
    release: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Program:
    """Steps of a region. Immutable, shared by all frames.

    Attributes:
        steps: In an order in which they can run.
        template: Slots as a run begins: constants, and None for all else.
        inputs: Slots of the region's inputs.
        outputs: Slots of its outputs.
        borrowed: Outputs, by position, that may share memory with inputs, constants or each other.
    """

    steps: tuple[Step, ...]
    template: tuple[Any, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    borrowed: frozenset[int]

    def parts(self, frame: FrameResources) -> dict[int, RegionInstance]:
        """Instances of the compiled parts for one frame, by step."""
        return {number: step.part.instantiate(frame) for number, step in enumerate(self.steps) if step.part is not None}

    def run(self, arrays: Sequence[Array], parts: dict[int, RegionInstance], xp: Any) -> list[Array]:
        """Enqueue all steps; returns the outputs as they are, perhaps views.

        Raises:
            ExecutionError: A kernel failed; it says which.
        """
        slots = list(self.template)
        for slot, array in zip(self.inputs, arrays, strict=True):
            slots[slot] = array
        for number, step in enumerate(self.steps):
            given = [None if slot < 0 else slots[slot] for slot in step.inputs]
            if step.contiguous:
                given = [_contiguous(xp, one) for one in given]
            try:
                made = _made(step, given, parts.get(number))
            except (OrtPyError, MemoryError):
                raise
            except Exception as error:
                raise ExecutionError(
                    f"{type(error).__name__}: {error}", where=step.label, fix="See the cause below."
                ) from error
            for slot, value in zip(step.outputs, made, strict=False):
                if slot >= 0:
                    slots[slot] = value
            for slot in step.release:
                slots[slot] = None
        return [slots[slot] for slot in self.outputs]


def _contiguous(xp: Any, x: Any) -> Any:
    flags = getattr(x, "flags", None)
    return x if flags is None or flags.c_contiguous or x.ndim == 0 else xp.ascontiguousarray(x)


def _made(step: Step, given: list[Any], part: RegionInstance | None) -> Sequence[Any]:
    if part is not None:
        part.bind(given, (None,) * len(step.outputs))
        return part()
    assert step.call is not None
    result = step.call(*given)
    return (result,) if step.single else tuple(result)


class _Builder:
    """Collects steps; slots are given out as names come."""

    def __init__(self, region: RegionView, kernels: KernelCatalog, xp: Any, device: Device) -> None:
        self.region, self.kernels, self.xp, self.device = region, kernels, xp, device
        self.slots: dict[str, int] = {}
        self.template: list[Any] = []
        self.constants: dict[str, int] = {}
        self.steps: list[Step] = []
        self.viewed: set[int] = set()
        self.inputs = tuple(self._slot(value.name) for value in region.inputs)

    def _slot(self, name: str) -> int:
        if name not in self.slots:
            self.slots[name] = self._new(None)
        return self.slots[name]

    def _new(self, value: Any) -> int:
        self.template.append(value)
        return len(self.template) - 1

    def kernel(self, node: NodeSpec) -> None:
        """A step for a node."""
        definition = definition_of(node, self.kernels)
        if definition is None:
            raise KernelNotFoundError(f"No kernel for {node.op_type}.", where=node.location)
        weights = weights_of(self.region, node)
        context = RegionContext(node, self.xp, self.device, weights, self.region.packed_forms)
        if (node.domain, node.op_type) == ("", "Concat"):
            made: Any = _concat(context)
        else:
            made = definition.factory(context)
        inputs = []
        for position, value in enumerate(node.inputs):
            if value is None:
                inputs.append(-1)
            elif position in weights:
                on_host = position in definition.host_inputs
                inputs.append(self._constant(value.name, on_host, position in context.replaced))
            else:
                inputs.append(self._slot(value.name))
        outputs = tuple(-1 if value is None else self._slot(value.name) for value in node.outputs)
        self.viewed.update(slot for place, slot in enumerate(outputs) if _is_view(definition, place))
        self.steps.append(
            Step(
                f"{node.op_type} '{node.name}'",
                tuple(inputs),
                outputs,
                made.call if isinstance(made, KernelForms) else made,
                single=definition.outputs == 1,
                contiguous=not definition.strided,
            )
        )

    def part(self, view: RegionView, compiled: CompiledRegion) -> None:
        """A step for a compiled part."""
        names = [node.name for node in view.nodes]
        self.steps.append(
            Step(
                f"{len(names)} nodes from '{names[0]}' on",
                tuple(self._slot(value.name) for value in view.inputs),
                tuple(self._slot(value.name) for value in view.outputs),
                None,
                compiled,
            )
        )

    def _constant(self, name: str, on_host: bool, replaced: bool) -> int:
        """The slot of a constant: on the host, on the device, or without values where a kernel has packed it."""
        kind = "host" if on_host else "shape" if replaced else "device"
        key = f"{kind} {name}"
        if key not in self.constants:
            weight = self.region.weight(name)
            assert weight is not None
            array = weight.array()
            value: Any = array
            if replaced and not on_host:
                value = self.xp.broadcast_to(self.xp.zeros((), array.dtype), array.shape)
            elif not on_host:
                make = self.xp.asarray
                form = f"{self.device} a copy"
                value = self.region.packed_forms.packed([weight.key], form, lambda: make(array))
                weight.replaced()
            self.constants[key] = self._new(value)
        return self.constants[key]

    def program(self) -> Program:
        """The whole, with what can be dropped after each step."""
        outputs = tuple(self._slot(value.name) for value in self.region.outputs)
        kept = {*outputs, *self.constants.values()}
        last: dict[int, int] = {}
        for number, step in enumerate(self.steps):
            for slot in (*step.inputs, *step.outputs):
                last[slot] = number
        for number, step in enumerate(self.steps):
            ends = {slot for slot in (*step.inputs, *step.outputs) if slot >= 0 and last[slot] == number}
            step.release = tuple(sorted(ends - kept))
        given = {*self.inputs, *self.constants.values()}
        borrowed = {place for place, slot in enumerate(outputs) if slot in self.viewed or slot in given}
        return Program(tuple(self.steps), tuple(self.template), self.inputs, outputs, frozenset(borrowed))


def _is_view(definition: KernelDef, output: int) -> bool:
    return any(place == output for place, _ in definition.views)


def _concat(ctx: RegionContext) -> Callable[..., Array]:
    """Concat by one copy an input: CuPy's sends a list of addresses from the host, which a graph would send again."""
    xp, axis = ctx.xp, int(ctx.node.attributes.get("axis", 1))

    def run(*arrays: Array) -> Array:
        along = axis % arrays[0].ndim
        sizes = [x.shape[along] for x in arrays]
        shape = (*arrays[0].shape[:along], sum(sizes), *arrays[0].shape[along + 1 :])
        y = xp.empty(shape, arrays[0].dtype)
        start = 0
        for x, size in zip(arrays, sizes, strict=True):
            y[(*(slice(None),) * along, slice(start, start + size))] = x
            start += size
        return y

    return run


def program_of(
    region: RegionView,
    kernels: KernelCatalog,
    xp: Any,
    device: Device,
    parts: Sequence[tuple[int, ...]] = (),
    compile_part: Callable[[RegionView], CompiledRegion] | None = None,
) -> Program:
    """Bind all nodes of a region.

    Args:
        region: The region.
        kernels: The provider's kernels.
        xp: Array module.
        device: Where its arrays are.
        parts: Groups of nodes, by index, that are compiled to one step each.
        compile_part: Compiles one.

    Raises:
        KernelNotFoundError: A node has no kernel.
    """
    builder = _Builder(region, kernels, xp, device)
    for unit in _ordered(region, parts):
        if len(unit) == 1 and unit not in parts:
            builder.kernel(region.nodes[unit[0]])
            continue
        assert compile_part is not None
        view = region.region(unit)
        builder.part(view, compile_part(view))
    return builder.program()


def _ordered(region: RegionView, parts: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Parts and single nodes in an order in which each comes after what it reads; parts are convex, so there is one."""
    unit_of = {index: unit for unit in parts for index in unit}
    done: set[tuple[int, ...]] = set()
    ordered: list[tuple[int, ...]] = []
    for node in region.nodes:
        pending = [unit_of.get(node.index, (node.index,))]
        while pending:
            unit = pending[-1]
            needed = {
                unit_of.get(producer, (producer,))
                for index in unit
                for value in region.nodes[index].inputs
                if value is not None and (producer := region.producer(value.name)) is not None and producer not in unit
            } - done
            if unit in done:
                pending.pop()
            elif needed:
                pending.extend(sorted(needed))
            else:
                done.add(unit)
                ordered.append(unit)
                pending.pop()
    return ordered
