"""Any provider, made to fail to order: how it, and the sessions it is in, come through failures.

`FaultyFactory` wraps a factory; what its providers do is theirs, until the `Faults` say otherwise::

    faults = Faults()
    ort_py.register_provider(FaultyFactory(MyFactory(), faults, "FaultyExecutionProvider"))
    session = ort_py.InferenceSession(model, providers=["FaultyExecutionProvider", "CPUExecutionProvider"])
    faults.fail()  # the next call of a kernel or region raises
    session.run(None, feed)  # right all the same
    assert session.state == "degraded"
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ort_py.contracts import (
    ArtifactValidity,
    Availability,
    Capability,
    CompiledRegion,
    FailureKind,
    FrameResources,
    GraphView,
    IAllocator,
    IDataTransfer,
    IExecutionProvider,
    IStream,
    KernelCatalog,
    KernelContext,
    KernelDef,
    KernelForms,
    KernelLookup,
    NodeSpec,
    OptionSpec,
    ProviderFactory,
    Refusal,
    RegionInstance,
    RegionView,
    SessionContext,
    Transform,
)
from ort_py.devices import Device, DeviceClass
from ort_py.dtypes import DataType
from ort_py.errors import DeviceReset


class Faults:
    """Faults to inject, for all sessions of a factory. Attributes may be set at any time, by any thread.

    Attributes:
        calls: Kernels and regions called so far.
        seconds: Each call takes so much longer.
        memory_bytes: A call whose inputs are larger raises MemoryError; None for no limit.
        refuse_every: Every so-manieth node of a graph is refused; 0 for none.
        resets: Calls of `reset_device` that will succeed.
        backups: Calls of `use_backup_device` that will succeed.
        reset_calls: Calls of `reset_device` so far.
    """

    def __init__(self) -> None:
        self.calls = 0
        self.seconds = 0.0
        self.memory_bytes: int | None = None
        self.refuse_every = 0
        self.resets = 0
        self.backups = 0
        self.reset_calls = 0
        self._lost = False
        self._failing = range(0)
        self._losing: int | None = None
        self._error: Callable[[], Exception] = _told_to_fail
        self._lock = threading.Lock()

    def fail(self, times: float = 1, *, after: int = 0, error: Callable[[], Exception] | None = None) -> None:
        """Let coming calls raise.

        Args:
            times: Number of calls; `math.inf` for all.
            after: Calls that go well before.
            error: Makes what they raise; a RuntimeError where None.
        """
        with self._lock:
            first = self.calls + after + 1
            self._failing = range(first, first + (1 << 62 if math.isinf(times) else int(times)))
            self._error = error or _told_to_fail

    def lose_device(self, *, after: int = 0) -> None:
        """Let the device be lost: coming calls raise `DeviceReset` until it is reset.

        Args:
            after: Calls that go well before.
        """
        with self._lock:
            self._losing = self.calls + after + 1

    def heal(self) -> None:
        """Nothing fails any more."""
        with self._lock:
            self._failing, self._losing, self._lost, self.memory_bytes = range(0), None, False, None

    def before_call(self, inputs: Sequence[Any]) -> None:
        """Count a call, and raise what is due."""
        with self._lock:
            self.calls += 1
            number = self.calls
            self._lost = self._lost or (self._losing is not None and number >= self._losing)
            lost, failing, limit = self._lost, number in self._failing, self.memory_bytes
        if self.seconds:
            time.sleep(self.seconds)
        if lost:
            raise DeviceReset(f"the device was lost, as requested, in call {number}")
        if failing:
            raise self._error()
        taken = sum(getattr(value, "nbytes", 0) for value in inputs)
        if limit is not None and taken > limit:
            raise MemoryError(f"{taken} bytes exceed the requested limit of {limit}")

    def reset(self) -> bool:
        with self._lock:
            self.reset_calls += 1
            return self._taken("resets")

    def use_backup(self) -> bool:
        with self._lock:
            return self._taken("backups")

    def _taken(self, name: str) -> bool:
        left = getattr(self, name)
        if left > 0:
            setattr(self, name, left - 1)
            self._lost, self._losing = False, None
        return bool(left > 0)


def _told_to_fail() -> Exception:
    return RuntimeError("set to fail")


class FaultyProvider(IExecutionProvider):
    """A provider with faults.

    Args:
        inner: The provider that does everything else.
    """

    def __init__(self, inner: IExecutionProvider, faults: Faults, name: str) -> None:
        self.inner = inner
        self._faults = faults
        self._name = name

    @property
    def name(self) -> str:
        return self._name

    @property
    def device(self) -> Device:
        return self.inner.device

    @property
    def array_module(self) -> Any:
        return self.inner.array_module

    def kernel_registry(self) -> Sequence[KernelDef] | KernelCatalog:
        found = self.inner.kernel_registry()
        if isinstance(found, KernelCatalog):
            return _FaultyCatalog(found, self._faults)
        return [_faulty_kernel(one, self._faults) for one in found]

    def get_capability(self, graph: GraphView, kernels: KernelLookup) -> Capability:
        found, every = self.inner.get_capability(graph, kernels), self._faults.refuse_every
        if not every:
            return found
        refused = [node.index for node in graph.nodes if node.index % every == every - 1]
        claims = tuple(claim for claim in found.claims if not set(claim.nodes) & set(refused))
        reasons = tuple(Refusal(index, "set to refuse") for index in refused)
        return Capability(claims, (*(one for one in found.refusals if one.node not in refused), *reasons))

    def compile(self, region: RegionView) -> CompiledRegion:
        return _FaultyRegion(self.inner.compile(region), self._faults)

    def allocator(self) -> IAllocator | None:
        return self.inner.allocator()

    def data_transfers(self) -> Sequence[IDataTransfer]:
        return self.inner.data_transfers()

    def create_stream(self) -> IStream | None:
        return self.inner.create_stream()

    def transforms(self) -> Sequence[Transform]:
        return self.inner.transforms()

    def precision_refusal(self, precision: str) -> str | None:
        return self.inner.precision_refusal(precision)

    @property
    def widened_types(self) -> frozenset[DataType]:
        return self.inner.widened_types

    @property
    def dequantizes_constants(self) -> bool:
        return self.inner.dequantizes_constants

    def prefers_channels_last(self, node: NodeSpec) -> bool:
        return self.inner.prefers_channels_last(node)

    def group_refusal(self, nodes: Sequence[NodeSpec], graph: GraphView) -> str | None:
        return self.inner.group_refusal(nodes, graph)

    def estimate_cost(self, node: NodeSpec) -> float | None:
        return self.inner.estimate_cost(node)

    def validate(self, artifact: bytes) -> ArtifactValidity:
        return self.inner.validate(artifact)

    def restore(self, artifact: bytes) -> CompiledRegion:
        return _FaultyRegion(self.inner.restore(artifact), self._faults)

    def failure_kind(self, error: BaseException) -> FailureKind | None:
        return self.inner.failure_kind(error)

    def reset_device(self) -> bool:
        return self._faults.reset()

    def use_backup_device(self) -> bool:
        return self._faults.use_backup()

    def synchronize(self) -> None:
        self.inner.synchronize()

    def close(self) -> None:
        self.inner.close()


class FaultyFactory(ProviderFactory):
    """Makes faulty providers of another factory's.

    Args:
        name: Name of the providers; the other's where empty.
        rank: Their rank among those of their device class; the other's where None.

    Attributes:
        created: Providers made so far, the newest last.
    """

    def __init__(self, inner: ProviderFactory, faults: Faults, name: str = "", *, rank: int | None = None) -> None:
        self._inner = inner
        self._faults = faults
        self._name = name or inner.name
        self._rank = inner.default_rank if rank is None else rank
        self.created: list[FaultyProvider] = []

    @property
    def name(self) -> str:
        return self._name

    @property
    def device_class(self) -> DeviceClass:
        return self._inner.device_class

    @property
    def default_rank(self) -> int:
        return self._rank

    @property
    def option_schema(self) -> Sequence[OptionSpec]:
        return self._inner.option_schema

    def probe(self) -> Availability:
        return self._inner.probe()

    def create(self, options: Mapping[str, Any], context: SessionContext) -> IExecutionProvider:
        self.created.append(FaultyProvider(self._inner.create(options, context), self._faults, self._name))
        return self.created[-1]


class _FaultyCatalog(KernelCatalog):
    def __init__(self, inner: KernelCatalog, faults: Faults) -> None:
        self._inner = inner
        self._faults = faults

    def kernels_of(self, domain: str, op_type: str) -> Sequence[KernelDef]:
        return [_faulty_kernel(one, self._faults) for one in self._inner.kernels_of(domain, op_type)]

    def __iter__(self) -> Iterator[KernelDef]:
        return (_faulty_kernel(one, self._faults) for one in self._inner)


class _FaultyRegion(CompiledRegion):
    def __init__(self, inner: CompiledRegion, faults: Faults) -> None:
        self._inner = inner
        self._faults = faults

    def instantiate(self, frame: FrameResources) -> RegionInstance:
        return _FaultyInstance(self._inner.instantiate(frame), self._faults)

    @property
    def host_inputs(self) -> frozenset[int]:
        return self._inner.host_inputs

    def serialize(self) -> bytes | None:
        return self._inner.serialize()

    def remarks(self) -> Sequence[str]:
        return self._inner.remarks()

    def close(self) -> None:
        self._inner.close()


class _FaultyInstance(RegionInstance):
    def __init__(self, inner: RegionInstance, faults: Faults) -> None:
        self._inner = inner
        self._faults = faults
        self._inputs: Sequence[Any] = ()

    def bind(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        self._inputs = inputs
        self._inner.bind(inputs, outputs)

    def __call__(self) -> Sequence[Any]:
        inputs, self._inputs = self._inputs, ()
        self._faults.before_call(inputs)
        return self._inner()

    def reserved_bytes(self) -> int:
        return self._inner.reserved_bytes()

    def close(self) -> None:
        self._inner.close()


def _faulty_kernel(definition: KernelDef, faults: Faults) -> KernelDef:
    def factory(ctx: KernelContext) -> Any:
        bound = definition.factory(ctx)
        if isinstance(bound, KernelForms):
            into = None if bound.into is None else faulty(bound.into)
            over = None if bound.over is None else faulty(bound.over)
            return KernelForms(bound.inputs, faulty(bound.call), into, over)
        return faulty(bound)

    def faulty(call: Callable[..., Any]) -> Callable[..., Any]:
        def checked(*arrays: Any) -> Any:
            faults.before_call(arrays)
            return call(*arrays)

        return checked

    return definition.replace(factory=factory)
