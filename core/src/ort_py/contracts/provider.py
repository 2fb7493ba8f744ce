"""Execution providers: the factory a plug-in registers and the provider a session holds.

The factory is light: it names, describes and probes, and imports no vendor package before `create`. The provider
is what a session asks for capability, kernels, compiled regions, memory and streams.

Required members are abstract; the others have a default that is right for a provider whose device is the host.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ort_py.contracts.capability import Capability, Claim, ClaimKind, Refusal
from ort_py.contracts.provider_records import ArtifactValidity, Availability, OptionSpec, SessionContext
from ort_py.contracts.version import API_VERSION, ApiRange
from ort_py.devices import HOST, Device, DeviceClass, Hardware

if TYPE_CHECKING:
    from pathlib import Path

    from ort_py.contracts.compiled import CompiledRegion
    from ort_py.contracts.device_memory import IDeviceMemory
    from ort_py.contracts.failure import FailureKind
    from ort_py.contracts.graph_view import GraphView, NodeSpec, RegionView
    from ort_py.contracts.kernel import KernelCatalog, KernelDef, KernelLookup
    from ort_py.contracts.memory import IAllocator, IDataTransfer, IStream
    from ort_py.contracts.transform import Transform
    from ort_py.dtypes import DataType

CHANNELS_LAST = "ort_py.channels_last"
"""Domain of operators whose data has the channels as its last axis; their names are those of the standard form."""


class IExecutionProvider(ABC):
    """A provider inside one session. Created on the thread that creates the session, closed once.

    Unless a method says otherwise it is called on the thread that plans: the creating one, or that of a run after which
    the session plans again without another provider. An exception gives its nodes to the next provider, with an entry
    in the fallback report; where fallback is off, in strict mode, or where no other provider is left, it is the cause
    of the error that is raised.
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """Required. The factory's name."""

    @property
    def device(self) -> Device:
        """Optional. Where its kernels and regions read and write; the host where not overridden."""
        return HOST

    @property
    def array_module(self) -> Any:
        """Optional. The module whose arrays its kernels take: `KernelContext.xp`. NumPy where not overridden."""
        import numpy as np

        return np

    def kernel_registry(self) -> Sequence[KernelDef] | KernelCatalog:
        """Optional. Its kernels. Called once, after creation; the list is not changed afterwards. Two that claim the
        same versions and types are a `KernelConflictError`.

        A large library gives a `KernelCatalog`, which is asked for an operator when the first node of it is met.
        """
        return ()

    def get_capability(self, graph: GraphView, kernels: KernelLookup) -> Capability:
        """Optional. Claim the nodes that the provider can run natively. The core calls it for each graph, nested ones
        included, whenever a session plans: also after nodes that no provider runs were replaced by their function,
        after another provider failed, and during optimisation if a provider's wishes depend on the placement.

        The default claims each node that has a kernel and gives the registry's refusals for the others.

        Args:
            graph: The graph; valid during the call.
            kernels: Look-up in this provider's kernels, those that plug-ins added included.
        """
        claims: list[Claim] = []
        refusals: list[Refusal] = []
        for node in graph.nodes:
            match = kernels.find(node)
            if match.kernel is not None:
                claims.append(Claim((node.index,), ClaimKind.KERNEL, match.kernel.title))
            else:
                refusals.append(Refusal(node.index, "; ".join(match.refusals)))
        return Capability(tuple(claims), tuple(refusals))

    def compile(self, region: RegionView) -> CompiledRegion:
        """Optional. Compile a region it claimed with COMPILE. May take over the weights it packs.

        An exception gives the region's nodes to the next provider, with an entry in the fallback report.
        """
        raise NotImplementedError(f"{type(self).__name__} claims no regions")

    def allocator(self) -> IAllocator | None:
        """Optional. Memory of its device; None for the host's. Called once, after creation."""
        return None

    def data_transfers(self) -> Sequence[IDataTransfer]:
        """Optional. Copies between its device and the host, and others it knows. Called once, after creation."""
        return ()

    def create_stream(self) -> IStream | None:
        """Optional. A stream for one frame; None where the device runs in the caller's order. Any thread.

        Called while planning and when a frame is made; an exception ends the planning or the run with `EPFail`.
        """
        return None

    def transforms(self) -> Sequence[Transform]:
        """Optional. Transforms it wants run before it is asked for its capability. Called once, after creation."""
        return ()

    def precision_refusal(self, precision: str) -> str | None:
        """Optional. Why it computes float32 models in float32 although the session asks for another precision, None
        where it does as it is asked. Called once, after creation; the reason is in the session's load report.

        Args:
            precision: As in `SessionContext`.
        """
        return None if precision == "float32" else "it computes in the types of the model"

    @property
    def checks_inputs(self) -> bool:
        """Optional. True if its compiled regions themselves refuse shapes, sizes and indices that the specification
        forbids, for nodes that the engine cannot check before they run: operators of other domains, and sizes that
        depend on the data of a run.

        Where it is False, the engine keeps such nodes out of the provider's regions. Sessions with
        `Limits.unchecked_regions` switched off do so for every provider.
        """
        return True

    @property
    def computes_empty_values(self) -> bool:
        """Optional. True if its compiled regions compute what the specification says where an input, an output or a
        value between nodes has no elements.

        Where it is False, the engine leaves runs with such a value to the kernels of the region's nodes, as with
        `RunDeclined`. It learns the sizes from the shapes of the inputs before each region is run, and keeps nodes
        whose results' sizes depend on the data of a run out of the provider's regions.
        """
        return True

    @property
    def computes_late_broadcasts(self) -> bool:
        """Optional. True if its compiled regions compute what the specification says where a size that was not known
        when the region was compiled is 1 in a run and repeats an operand, or is smaller than the window of a pool.

        If it is False, the engine leaves such runs to the kernels of the region's nodes.
        """
        return True

    @property
    def widened_types(self) -> frozenset[DataType]:
        """Optional. Narrow floating types that it has kernels for, but computes faster in float32.

        From level EXTENDED on, regions of such a type that would be its own become float32, with a Cast where a value
        enters or leaves. Read while a graph is optimised; none where not overridden.
        """
        return frozenset()

    @property
    def dequantizes_constants(self) -> bool:
        """Optional. True if it has no use for a DequantizeLinear of constants that it would run.

        From level EXTENDED on the session does that once, then, and the provider gets floating-point weights. False
        where not overridden: who computes in integers, or packs weights as they are, looks for these nodes.
        """
        return False

    def prefers_channels_last(self, node: NodeSpec) -> bool:
        """Optional. Return whether the provider would rather compute a node with the channels as the last axis of its
        data.

        The core asks at level LAYOUT about nodes that the provider claims, for operators whose data has channels:
        convolutions, pooling, normalisation and the like. If the answer is True, the node returns in the domain
        `CHANNELS_LAST` and carries the node it stands for; inputs other than data (weights, scales, sizes) and all
        attributes are as in the standard form. The provider then claims that node, by a kernel or in a region. If it
        does not, the standard form comes back between Transposes.
        """
        return False

    def group_refusal(self, nodes: Sequence[NodeSpec], graph: GraphView) -> str | None:
        """Optional. Why some nodes of a COMPILE claim are not worth a region by themselves, None where they are.

        Asked about what is left of a claim where a provider before it took the rest, or a cut made it convex. Where
        others would take all of these nodes, they get them, and the reason is shown to users as it is. An exception
        counts as a reason.
        """
        return None

    def estimate_cost(self, node: NodeSpec) -> float | None:
        """Optional. Microseconds one run of a node takes on it, copies not counted; None to leave it to the core.

        Asked for each node of a claim without a cost of its own. An exception leaves the node to the next provider,
        with the reason.
        """
        return None

    def validate(self, artifact: bytes) -> ArtifactValidity:
        """Optional. Return whether an artifact from `CompiledRegion.serialize` can be restored here."""
        return ArtifactValidity.UNSUPPORTED

    def restore(self, artifact: bytes) -> CompiledRegion:
        """Optional. A region from an artifact that `validate` called VALID."""
        raise NotImplementedError(f"{type(self).__name__} keeps no artifacts")

    def on_run_start(self) -> None:  # noqa: B027 - optional
        """Optional. Before each run, on the running thread. An exception fails the run."""

    def on_run_end(self) -> None:  # noqa: B027 - optional
        """Optional. After each run, also a failed one, on the running thread. An exception is logged."""

    def failure_kind(self, error: BaseException) -> FailureKind | None:
        """Optional. What an exception of its kernels, regions, copies or streams means; None leaves that to the core,
        which reads MemoryError, `DeviceReset` and ort_py's own classes. Called after a failed run, on its thread; what
        it raises itself is logged.

        Args:
            error: As its code raised it.
        """
        return None

    def reset_device(self) -> bool:
        """Optional. Make a lost device usable again; whether it is. Called after a run that lost it, on its thread, for
        one session at a time and at most a few times; must come to an end.

        All that sessions have on the device is given up: each plans again, with constants copied again, its first run
        that fails with the lost device telling it so. An exception counts as no, and is logged.
        """
        return False

    def use_backup_device(self) -> bool:
        """Optional. Go on with another device where there is one; whether there was. Called where the device could not
        be reset, on the thread of the failed run; the session plans again afterwards.

        From then on `device`, `array_module`, `allocator`, `data_transfers` and `create_stream` answer for that device;
        the latter ones are asked again, kernels and transforms are not. An exception counts as no, and is logged.
        """
        return False

    def synchronize(self) -> None:  # noqa: B027 - optional
        """Optional. Block until all of its work is done. Called when the session closes, before anything is released;
        an exception is logged. Any thread."""

    def close(self) -> None:  # noqa: B027 - optional
        """Optional. Called once when the session closes, after its regions; an exception is logged."""


class ProviderFactory(ABC):
    """The factory that a plug-in registers through the hook ``ort_py_providers``. There is one instance per process.

    Members may be read at any time on any thread and must not import a vendor package, start a thread or touch a
    device; `create`, `hardware` and `device_memory` alone may.
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """Required. The provider's name, equal to the entry point's name, e.g. ``"CPUExecutionProvider"``."""

    @property
    def vendor(self) -> str:
        """Optional. Who makes the device or library."""
        return ""

    @property
    def api_range(self) -> ApiRange:
        """Optional. Contract versions it was written for."""
        return ApiRange(API_VERSION, API_VERSION)

    @property
    def device_class(self) -> DeviceClass:
        """Optional. Class of its best device; automatic ranking begins with it."""
        return DeviceClass.CPU

    @property
    def default_rank(self) -> int:
        """Optional. Place among providers of the same device class: higher is asked first."""
        return 0

    @property
    def stands_in_for(self) -> str | None:
        """Optional. A role it fills when that role is asked for: ``"CPUExecutionProvider"`` for fast CPU providers."""
        return None

    def fills_role(self, options: Mapping[str, Any]) -> bool:
        """Optional. Return whether a provider that is made with these options fills the role of `stands_in_for`.

        A session has at most one provider that fills a role. A provider of several devices answers no where the options
        name another device than the role's: such a provider does not keep others out of the role. Called while a
        session is created, before `create`, on the thread that creates it, and only where `stands_in_for` is not None.
        An exception is logged, and counts as a yes.

        Args:
            options: Every option of `option_schema`, validated.
        """
        return True

    @property
    def assisting_options(self) -> Mapping[str, Any] | None:
        """Optional. The options with which it joins sessions whose role of `stands_in_for` another provider fills; None
        where it stays out of them.

        It is asked for nodes behind that provider. Right for a few operators that the others lack and whose results may
        differ as much, where sharing the processor with a second pool of threads was measured to pay.
        """
        return None

    @property
    def automatic(self) -> bool:
        """Optional. True if sessions that name no provider use it. Without it, listings put it behind all others, and
        it runs nothing unless it is asked for, by name or by a policy for its kind of accelerator: right for oracles,
        for what is on trial, and for other people's libraries.
        """
        return True

    @property
    def option_schema(self) -> Sequence[OptionSpec]:
        """Optional. Options it takes.

        Of others, those onnxruntime knows are ignored and reported, those close to one it takes are refused with "did
        you mean", and the rest is warned about.
        """
        return ()

    @abstractmethod
    def probe(self) -> Availability:
        """Required. Return whether it is usable here, in at most 20 ms.

        Imports no vendor package, creates no context and no thread, is fork-safe. The result is cached; the call has a
        time limit, and an exception makes the provider's record *broken*.
        """

    @abstractmethod
    def create(self, options: Mapping[str, Any], context: SessionContext) -> IExecutionProvider:
        """Required. A provider for one session.

        Args:
            options: Validated against `option_schema`: every option present, with its default or the user's value.
            context: The session's wishes.
        """

    def file_writer(self, target: Path) -> ProviderFactory | None:
        """Optional. A factory whose provider writes the one region that it compiles to `target`, as programs of its
        vendor load it; None if names that end so are none of its files.

        The provider runs nothing and needs no device: `ort-py compile` makes a session of it. Any thread.
        """
        return None

    def hardware(self) -> Sequence[Hardware] | None:
        """Optional. Devices that its library finds, for ``get_ep_devices`` and policies; None where they are those that
        `probe` names. Any thread; an exception is logged, and counts as no device.
        """
        return None

    def device_memory(self, device: Device) -> IDeviceMemory | None:
        """Optional. Memory of a device for values that users make without a session, None where it is not one of its
        devices: what ``OrtValue.ortvalue_from_numpy(array, kind, index)`` and bindings to a device need.

        Asked for any device that a user names, on any thread; what it gives is kept. An exception is raised to the
        user.
        """
        return None
