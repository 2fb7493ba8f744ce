"""Providers that are wrong in one way each, and otherwise right: what the kit must find out.

`Sound` is the right one they derive from: Relu, Add and Identity by kernels on the host.
"""

from __future__ import annotations

import ctypes
import importlib
import mmap
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ort_py.contracts import (
    ALL_FLOATS,
    ApiRange,
    Availability,
    Capability,
    Claim,
    ClaimKind,
    CompiledRegion,
    FrameResources,
    GraphView,
    IExecutionProvider,
    KernelDef,
    KernelLookup,
    NodeSpec,
    OptionSpec,
    ProviderFactory,
    Refusal,
    RegionInstance,
    RegionProvider,
    RegionView,
    SessionContext,
)
from ort_py.devices import HOST
from ort_py.hooks import hookimpl

__all__ = ["PROVIDERS", "Factory", "Sound", "ort_py_providers"]


def _relu(x: Any) -> Any:
    return np.maximum(x, x.dtype.type(0))


def _kernels(relu: Callable[[Any], Any]) -> list[KernelDef]:
    types = {"T": ALL_FLOATS}
    return [
        KernelDef("Relu", factory=lambda ctx: relu, since=6, until=14, types=types),
        KernelDef("Add", factory=lambda ctx: np.add, since=7, until=14, types=types),
    ]


class Sound(IExecutionProvider):
    """Relu and Add, rightly."""

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def name(self) -> str:
        return self._name

    def relu(self, x: Any) -> Any:
        """Compute Relu."""
        return _relu(x)

    def kernel_registry(self) -> Sequence[KernelDef]:
        return _kernels(self.relu)


class WrongResults(Sound):
    """Relu is a little off."""

    def relu(self, x: Any) -> Any:
        return _relu(x) + x.dtype.type(0.01)


class WritesToInputs(Sound):
    """Relu works in place without saying so."""

    def relu(self, x: Any) -> Any:
        np.maximum(x, x.dtype.type(0), out=x)
        return x.copy()


class Leaks(Sound):
    """Every result is kept."""

    kept: list[Any] = []  # noqa: RUF012 - a leak is meant

    def relu(self, x: Any) -> Any:
        self.kept.append(_relu(x))
        return self.kept[-1].copy()


class LeaksNatively(Sound):
    """Memory of the system is never given back."""

    def relu(self, x: Any) -> Any:
        library = ctypes.CDLL(None)
        library.mmap.restype = ctypes.c_void_p
        # Pages of the system: malloc could take memory that other tests freed, and the process would not grow.
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        size = ctypes.c_size_t(x.nbytes)
        made = library.mmap(None, size, mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, ctypes.c_size_t(0))
        ctypes.memset(ctypes.c_void_p(made), 1, x.nbytes)
        return _relu(x)


class LeaksSessions(Sound):
    """Every provider stays in a table of the module."""

    made: list[Any] = []  # noqa: RUF012 - a leak is meant

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.made.append(bytearray(100_000))


class SharesScratch(Sound):
    """Threads write to one array."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._scratch = np.zeros(1 << 16, np.float32)

    def relu(self, x: Any) -> Any:
        scratch = self._scratch[: x.size].reshape(x.shape)
        scratch[...] = _relu(x)
        time.sleep(0)  # a library would compute here, without the interpreter's lock
        return scratch.astype(x.dtype)


class OverwritesOutputs(Sound):
    """The result of one run is the buffer of the next."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._buffers: dict[Any, Any] = {}

    def relu(self, x: Any) -> Any:
        key = (threading.get_ident(), x.shape, x.dtype)
        buffer = self._buffers.setdefault(key, np.empty(x.shape, x.dtype))
        buffer[...] = _relu(x)
        return buffer


class FreesTooEarly(Sound):
    """Outputs are views of memory that goes with the provider."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._pool: list[Any] = []

    def relu(self, x: Any) -> Any:
        result = _relu(x)
        self._pool.append(result)
        return result[...]

    def close(self) -> None:
        for array in self._pool:
            array[...] = -1  # as memory does that is used for something else
        self._pool.clear()


class KeepsFeeds(Sound):
    """A view of the last input is kept."""

    def relu(self, x: Any) -> Any:
        self._last = x[...]
        return _relu(x)


class ReturnsInputs(Sound):
    """Transpose is a view of its input, and does not say so."""

    def kernel_registry(self) -> Sequence[KernelDef]:
        def factory(ctx: Any) -> Callable[[Any], Any]:
            return lambda x: x.transpose(ctx.node.attributes.get("perm"))

        view = KernelDef("Transpose", factory=factory, since=1, until=25, types={"T": ALL_FLOATS})
        return [*super().kernel_registry(), view]


class FirstShapeOnly(Sound):
    """The shape of the first run is taken for all."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._rows: dict[int, int] = {}

    def relu(self, x: Any) -> Any:
        if x.ndim < 2:
            return _relu(x)
        rows = self._rows.setdefault(x.ndim, len(x))
        return np.resize(_relu(x), (rows, *x.shape[1:])) if len(x) != rows else _relu(x)


class NotEmpty(Sound):
    """Arrays without elements are refused when it is too late."""

    def relu(self, x: Any) -> Any:
        if not x.size:
            raise ValueError("the library takes no empty tensors")
        return _relu(x)


class LiesAboutRegions(Sound):
    """Every node is claimed, and most cannot be compiled."""

    def get_capability(self, graph: GraphView, kernels: KernelLookup) -> Capability:
        return Capability(tuple(Claim((node.index,), ClaimKind.COMPILE, "surely") for node in graph.nodes))

    def compile(self, region: RegionView) -> CompiledRegion:
        raise RuntimeError(f"no translation of {region.nodes[0].op_type}")


class LiesAboutKernels(Sound):
    """Kernels are claimed that are not there."""

    def get_capability(self, graph: GraphView, kernels: KernelLookup) -> Capability:
        return Capability(tuple(Claim((node.index,), ClaimKind.KERNEL, "surely") for node in graph.nodes))


class FailsInRuns(Sound):
    """Raises when a claimed node is run."""

    def relu(self, x: Any) -> Any:
        raise NotImplementedError("Relu of this shape")


class ClaimsOtherNodes(Sound):
    """Indices beyond the graph are claimed, and some twice."""

    def get_capability(self, graph: GraphView, kernels: KernelLookup) -> Capability:
        found = super().get_capability(graph, kernels)
        return Capability((*found.claims, *found.claims, Claim((len(graph.nodes) + 3,))), found.refusals)


class RefusesSilently(Sound):
    """Gives no reason for unclaimed nodes."""

    def get_capability(self, graph: GraphView, kernels: KernelLookup) -> Capability:
        found = super().get_capability(graph, kernels)
        return Capability(found.claims, tuple(Refusal(one.node, " ") for one in found.refusals))


class ChangesItsMind(Sound):
    """Every second answer is another one."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._asked = 0

    def get_capability(self, graph: GraphView, kernels: KernelLookup) -> Capability:
        self._asked += 1
        return super().get_capability(graph, kernels) if self._asked % 2 else Capability()


class _BoundOnce(RegionInstance):
    def __init__(self) -> None:
        self._inputs: Sequence[Any] = ()

    def bind(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        if not self._inputs or [one.shape for one in inputs] != [one.shape for one in self._inputs]:
            self._inputs = tuple(np.array(one) for one in inputs)

    def __call__(self) -> Sequence[Any]:
        return [_relu(self._inputs[0])]


class _BoundOnceRegion(CompiledRegion):
    def instantiate(self, frame: FrameResources) -> RegionInstance:
        return _BoundOnce()


class BindsOnce(RegionProvider):
    """A region computes with the numbers of its first run forever."""

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def name(self) -> str:
        return self._name

    def refusal(self, node: NodeSpec, graph: GraphView) -> str | None:
        return None if node.op_type == "Relu" else "only Relu is compiled"

    def compile(self, region: RegionView) -> CompiledRegion:
        return _BoundOnceRegion()


class _Unwritten(RegionInstance):
    def bind(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        self._result = _relu(inputs[0])
        self._target = outputs[0]

    def __call__(self) -> Sequence[Any]:
        return [self._result if self._target is None else self._target]


class _UnwrittenRegion(CompiledRegion):
    def instantiate(self, frame: FrameResources) -> RegionInstance:
        return _Unwritten()


class ReturnsUnwritten(BindsOnce):
    """An array to write to is given back as it came."""

    def compile(self, region: RegionView) -> CompiledRegion:
        return _UnwrittenRegion()


class Misnamed(Sound):
    """The provider calls itself otherwise than its factory does."""

    @property
    def name(self) -> str:
        return "SomeoneElsesExecutionProvider"


class Factory(ProviderFactory):
    """Makes providers of a class.

    Args:
        kind: The class; its name begins the provider's.
        probe: Called by the probe.
        **members: Members of the factory that are other than usual: `api_range`, `option_schema`.
    """

    def __init__(self, kind: Callable[[str], IExecutionProvider], name: str = "", **members: Any) -> None:
        self._kind = kind
        self._name = f"{name or getattr(kind, '__name__', '')}ExecutionProvider"
        self._members: Mapping[str, Any] = members

    @property
    def name(self) -> str:
        return self._name

    @property
    def api_range(self) -> ApiRange:
        return self._members.get("api_range", ApiRange(1, 1))  # type: ignore[no-any-return] # as a test gives it

    @property
    def option_schema(self) -> Sequence[OptionSpec]:
        return self._members.get("option_schema", ())  # type: ignore[no-any-return] # as a test gives it

    def probe(self) -> Availability:
        self._members.get("probe", lambda: None)()
        return Availability(
            self._members.get("available", True), devices=() if "no_devices" in self._members else (HOST,)
        )

    def create(self, options: Mapping[str, Any], context: SessionContext) -> IExecutionProvider:
        return self._kind(self._name)


def _start_thread() -> None:
    threading.Thread(target=time.sleep, args=(2,), daemon=True).start()


def _say_hello() -> None:
    print("Acme SDK 3.1, (c) Acme")  # noqa: T201 - what a library's banner does


_BAD_OPTIONS = (
    OptionSpec("device", int, "zero", "Number of the device."),
    OptionSpec("mode", str, "fast", "How to compute.", ("slow", "slower")),
    OptionSpec("Cache Size", int, 3),
    OptionSpec("device", int, 0, "Number of the device."),
)

PROVIDERS: dict[str, Factory] = {
    factory.name: factory
    for factory in (
        *map(
            Factory,
            (
                Sound,
                WrongResults,
                WritesToInputs,
                Leaks,
                LeaksNatively,
                LeaksSessions,
                SharesScratch,
                OverwritesOutputs,
                FreesTooEarly,
                KeepsFeeds,
                ReturnsInputs,
                FirstShapeOnly,
                NotEmpty,
                LiesAboutRegions,
                LiesAboutKernels,
                FailsInRuns,
                ClaimsOtherNodes,
                RefusesSilently,
                ChangesItsMind,
                BindsOnce,
                ReturnsUnwritten,
                Misnamed,
            ),
        ),
        Factory(Sound, "TooNew", api_range=ApiRange(99, 99)),
        Factory(Sound, "AllVersions", api_range=ApiRange(1, 1000)),
        Factory(Sound, "SlowProbe", probe=lambda: time.sleep(0.1)),
        Factory(Sound, "VendorProbe", probe=lambda: importlib.import_module("acme_sdk")),
        Factory(Sound, "ThreadProbe", probe=_start_thread),
        Factory(Sound, "LoudProbe", probe=_say_hello),
        Factory(Sound, "Reasonless", available=False),
        Factory(Sound, "BadOptions", option_schema=_BAD_OPTIONS),
    )
}
"""The providers by name."""


@hookimpl
def ort_py_providers() -> Iterable[ProviderFactory]:
    """All of them: the kit asks for one by name."""
    return list(PROVIDERS.values())
