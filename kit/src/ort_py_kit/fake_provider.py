"""A provider on the fake device: kernels or compiled regions, with costs and failures to order.

It proves that copies, waits, order and lifetimes are right, never that results are: compare those with another
provider. Every call checks that its inputs are where the contract says.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ort_py.contracts import (
    Availability,
    Capability,
    Claim,
    ClaimKind,
    CompiledRegion,
    GraphView,
    IAllocator,
    IDataTransfer,
    IDeviceMemory,
    IExecutionProvider,
    IStream,
    KernelContext,
    KernelDef,
    KernelForms,
    KernelLookup,
    NodeSpec,
    ProviderFactory,
    Refusal,
    RegionView,
    SessionContext,
    ValueSpec,
    convex_groups,
)
from ort_py.devices import Device, DeviceClass
from ort_py.dtypes import DataType, TensorType
from ort_py_kit.fake_array import FakeArray
from ort_py_kit.fake_kernels import channels_last_kernels, fake_kernels, refusal_of
from ort_py_kit.fake_memory import FakeDevice
from ort_py_kit.fake_module import module_of
from ort_py_kit.fake_region import FakeRegion
from ort_py_kit.fake_transfer import FakeAllocator, FakeTransfer
from ort_py_kit.fake_values import FakeDeviceMemory


@dataclass(frozen=True, slots=True)
class FakeBehaviour:
    """The behaviour of a fake provider.

    Attributes:
        kernels: Its kernels; `fake_kernels()` where None.
        operators: Names of the operators it takes; None for all it has kernels for.
        compiles: Claim connected nodes as regions instead of single nodes.
        cost_us: Cost it states for each node; ``-math.inf`` makes every island pay, None leaves it to the core.
        fail_capability: `get_capability` raises.
        fail_runs: Numbers of the runs, from 1 on, in which its first kernel or region raises.
        channels_last: Operators it prefers with the channels last, and has kernels for.
        lacks_channels_last: It has no such kernels after all.
        widened_types: Types it computes faster in float32.
        dequantizes_constants: Whether it wants constants dequantised once.
    """

    kernels: Sequence[KernelDef] | None = None
    operators: Collection[str] | None = None
    compiles: bool = False
    cost_us: float | None = None
    fail_capability: bool = False
    fail_compile: bool = False
    fail_runs: Collection[int] = ()
    channels_last: Collection[str] = ()
    lacks_channels_last: bool = False
    widened_types: frozenset[DataType] = frozenset()
    dequantizes_constants: bool = False


class FakeProvider(IExecutionProvider):
    """A provider for one session.

    Attributes:
        transfer: Its copies, which it counts.
        regions: Regions compiled so far.
        calls: Kernels and regions called.
        closed: Whether `close` was called.
    """

    def __init__(
        self,
        owner: FakeDevice | None = None,
        behaviour: FakeBehaviour | None = None,
        name: str = "FakeExecutionProvider",
    ) -> None:
        self.owner = owner or FakeDevice()
        self.behaviour = behaviour or FakeBehaviour()
        self.transfer = FakeTransfer(self.owner)
        self.regions: list[FakeRegion] = []
        self.runs = 0
        self.calls = 0
        self.closed = False
        self._name = name
        self._failing = False
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        return self._name

    @property
    def device(self) -> Device:
        return self.owner.device

    @property
    def array_module(self) -> Any:
        return module_of(self.owner)

    def kernel_registry(self) -> Sequence[KernelDef]:
        kernels = fake_kernels() if self.behaviour.kernels is None else list(self.behaviour.kernels)
        wanted = self.behaviour.operators
        if not self.behaviour.lacks_channels_last:
            kernels += channels_last_kernels(kernels, self.behaviour.channels_last)
        return [
            definition.replace(factory=self._checking(definition))
            for definition in kernels
            if wanted is None or definition.op_type in wanted
        ]

    @property
    def widened_types(self) -> frozenset[DataType]:
        return self.behaviour.widened_types

    @property
    def dequantizes_constants(self) -> bool:
        return self.behaviour.dequantizes_constants

    def prefers_channels_last(self, node: NodeSpec) -> bool:
        return node.op_type in self.behaviour.channels_last

    def get_capability(self, graph: GraphView, kernels: KernelLookup) -> Capability:
        if self.behaviour.fail_capability:
            raise RuntimeError("set to fail in get_capability")
        taken: list[int] = []
        refusals: list[Refusal] = []
        for node in graph.nodes:
            match = kernels.find(node)
            reason = refusal_of(node) if self.behaviour.kernels is None else None
            values = [value for value in (*node.inputs, *node.outputs) if value is not None]
            foreign = [str(value.type) for value in values if _is_foreign(value)]
            if foreign:
                refusals.append(Refusal(node.index, f"the device holds no {', '.join(foreign)}"))
            elif self.behaviour.compiles and match.kernel is not None and match.kernel.subgraphs:
                refusals.append(Refusal(node.index, "a fake region runs no graphs that nodes hold"))
            elif match.kernel is None or reason is not None:
                refusals.append(Refusal(node.index, reason or "; ".join(match.refusals)))
            else:
                taken.append(node.index)
        if not self.behaviour.compiles:
            claims = [Claim((index,), ClaimKind.KERNEL, "fake kernel", self.behaviour.cost_us) for index in taken]
        else:
            claims = [
                Claim(group, ClaimKind.COMPILE, "fake region", self.behaviour.cost_us)
                for group in convex_groups(graph, taken)
            ]
        return Capability(tuple(claims), tuple(refusals))

    def compile(self, region: RegionView) -> CompiledRegion:
        if self.behaviour.fail_compile:
            raise RuntimeError("set to fail in compile")
        compiled = FakeRegion(region, self.kernel_registry(), self.owner, self.transfer)
        self.regions.append(compiled)
        return compiled

    def allocator(self) -> IAllocator:
        return FakeAllocator(self.owner)

    def data_transfers(self) -> Sequence[IDataTransfer]:
        return (self.transfer,)

    def create_stream(self) -> IStream:
        return self.owner.create_stream()

    def estimate_cost(self, node: NodeSpec) -> float | None:
        return self.behaviour.cost_us

    def on_run_start(self) -> None:
        with self._lock:
            self.runs += 1
            self._failing = self.runs in self.behaviour.fail_runs

    def close(self) -> None:
        self.closed = True

    def _checking(self, definition: KernelDef) -> Callable[[KernelContext], Callable[..., Any]]:
        def factory(ctx: KernelContext) -> Callable[..., Any]:
            call, given = definition.factory(ctx), len(ctx.node.inputs)
            if isinstance(call, KernelForms):
                into = None if call.into is None else watched(call.into, given)
                return KernelForms(call.inputs, watched(call.call, given), into)
            return watched(call, given)

        def watched(call: Callable[..., Any], given: int) -> Callable[..., Any]:
            def checked(*inputs: Any) -> Any:
                self.calls += 1
                if self._failing:
                    self._failing = False
                    raise RuntimeError(f"set to fail in run {self.runs}")
                for position, value in enumerate(inputs):
                    on_host = position in definition.host_inputs and position < given  # outputs to write to follow
                    self._check(value, f"input {position}", on_host)
                    # What stands in for a packed constant takes no memory, and is for asking its shape only.
                    if not definition.strided and isinstance(value, FakeArray) and any(value.raw.strides):
                        assert value.flags.c_contiguous, f"input {position} of {definition} is not C-contiguous"
                results = call(*inputs)
                for position, value in enumerate([results] if definition.outputs == 1 else results):
                    self._check(value, f"output {position}", position in definition.host_outputs)
                return results

            return checked

        return factory

    def _check(self, value: Any, what: str, on_host: bool) -> None:
        if value is None:
            return
        if on_host:
            assert isinstance(value, np.ndarray | np.generic), f"{what} is a {type(value).__name__}, not on the host"
        else:
            assert isinstance(value, FakeArray), f"{what} is a {type(value).__name__}, not on {self.device}"
            assert value.owner is self.owner, f"{what} is on {value.owner.device}, not on {self.device}"


def _is_foreign(value: ValueSpec) -> bool:
    """Return whether a value can never be on a device: sequences, maps, optionals and strings."""
    if value.type is None:
        return False
    return not isinstance(value.type, TensorType) or value.type.data_type is DataType.STRING


class FakeFactory(ProviderFactory):
    """Makes fake providers, all on one device.

    Attributes:
        created: Providers made so far, the newest last.
        memory: Memory of the device for users' values.
    """

    def __init__(
        self,
        name: str = "FakeExecutionProvider",
        behaviour: FakeBehaviour | None = None,
        owner: FakeDevice | None = None,
        *,
        rank: int = 0,
    ) -> None:
        self._name = name
        self._behaviour = behaviour or FakeBehaviour()
        self._rank = rank
        self.owner = owner or FakeDevice()
        self.created: list[FakeProvider] = []
        self.memory = FakeDeviceMemory(self.owner)

    @property
    def name(self) -> str:
        return self._name

    @property
    def vendor(self) -> str:
        return "nobody"

    @property
    def device_class(self) -> DeviceClass:
        return DeviceClass.ACCELERATOR

    @property
    def default_rank(self) -> int:
        return self._rank

    def probe(self) -> Availability:
        return Availability(True, devices=(self.owner.device,))

    def create(self, options: Mapping[str, Any], context: SessionContext) -> IExecutionProvider:
        provider = FakeProvider(self.owner, self._behaviour, self._name)
        self.created.append(provider)
        return provider

    def device_memory(self, device: Device) -> IDeviceMemory | None:
        return self.memory if device == self.owner.device else None
