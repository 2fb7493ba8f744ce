"""The provider of a session: claims of regions that the parser takes, and their engines.

Comes after everything else of this package. Memory, streams and copies are those of ort-py-cuda.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from ort_py.contracts import (
    ArtifactValidity,
    Capability,
    Claim,
    ClaimKind,
    CompiledRegion,
    FailureKind,
    GraphView,
    IAllocator,
    IDataTransfer,
    IExecutionProvider,
    IStream,
    KernelLookup,
    NodeSpec,
    Refusal,
    RegionView,
    SessionContext,
)
from ort_py.devices import Device
from ort_py_cuda.capture import Capturing
from ort_py_cuda.code.cache import CodeCache
from ort_py_cuda.memory.failures import failure_kind
from ort_py_cuda.modules import cupy
from ort_py_cuda.opening import OpenDevice, open_device
from ort_py_tensorrt import context_nodes, nodes
from ort_py_tensorrt.artifact import unpack
from ort_py_tensorrt.capability import find, refusals_of
from ort_py_tensorrt.engine_cache import open_cache, region_key
from ort_py_tensorrt.engine_source import EngineSource, Rebuilds
from ort_py_tensorrt.execution import ContextSettings, Engine, load_engine
from ort_py_tensorrt.precision import lowered
from ort_py_tensorrt.profiles import declared
from ort_py_tensorrt.questions import Asker
from ort_py_tensorrt.region import Border, EngineRegion
from ort_py_tensorrt.region_model import RegionModel, model_of
from ort_py_tensorrt.toolkit import open_toolkit
from ort_py_tensorrt.variants import Variant
from ort_py_tensorrt.wishes import wishes_of

__all__ = ["EngineProvider"]

_ANSWER_SECONDS = 60.0
"""The least limit of a question where builds are limited: it takes milliseconds, and a process to start."""


class EngineProvider(IExecutionProvider):
    """Compiles regions to engines on one GPU; runs no single kernels.

    Args:
        variant: The library.
        options: Validated options.
        context: The session's wishes.

    Raises:
        OptionError: An option has an invalid value, or two contradict each other.
        EPFail: The library does not import, or CUDA shows no GPU of this number.
    """

    def __init__(self, variant: Variant, options: Mapping[str, Any], context: SessionContext) -> None:
        self.variant = variant
        self.wishes = wishes_of(variant, options, context)
        self.toolkit = open_toolkit(variant)
        self.toolkit.detailed = self.toolkit.detailed or self.wishes.detailed_log
        self.cache = open_cache(self.toolkit, self.wishes)
        self._opened = self._open_device()
        self._holds_engines = False
        self._rebuilds: dict[str, Rebuilds] = {}
        self._asker = Asker(
            self.toolkit,
            self.cache,
            None if variant.compiles_ahead else self.wishes.cuda.device,
            None if self.wishes.build_seconds is None else max(self.wishes.build_seconds, _ANSWER_SECONDS),
            detailed=self.wishes.detailed_log,
        )

    def _open_device(self) -> OpenDevice | None:
        return open_device(self.wishes.cuda)

    @property
    def opened(self) -> OpenDevice:
        """The GPU."""
        assert self._opened is not None, "a provider that only writes has no device"
        return self._opened

    @property
    def name(self) -> str:
        """Name as registered by the plug-in."""
        return self.variant.provider

    @property
    def device(self) -> Device:
        """The GPU."""
        return self.opened.device

    @property
    def array_module(self) -> Any:
        """CuPy."""
        return cupy()

    @property
    def checks_inputs(self) -> bool:
        """True for a model that holds engines, whose shapes are compared with those that they were built for. False for
        others: what an engine does with sizes that the specification forbids is not documented.
        """
        return self._holds_engines

    @property
    def computes_empty_values(self) -> bool:
        """The same as `checks_inputs`: no engine has run yet, so it is not known what it does with such values."""
        return self._holds_engines

    @property
    def computes_late_broadcasts(self) -> bool:
        """The same as `checks_inputs`, for its reason."""
        return self._holds_engines

    def precision_refusal(self, precision: str) -> str | None:
        """Engines compute in each of the three."""
        return None if precision in {"float32", "float16", "bfloat16"} else f"engines do not compute in {precision}"

    def allocator(self) -> IAllocator:
        """Memory of the GPU."""
        return self.opened.allocator

    def data_transfers(self) -> Sequence[IDataTransfer]:
        """Copies to and from it."""
        return (self.opened.transfer,)

    def create_stream(self) -> IStream:
        """The stream of one frame: the caller's where the options name one."""
        return self.opened.new_stream()

    def get_capability(self, graph: GraphView, kernels: KernelLookup) -> Capability:
        """Claim groups of nodes that the parser takes and that pay. Of a model that holds engines, these alone: it was
        divided when it was written.
        """
        if any(context_nodes.is_context(node) for node in graph.nodes):
            self._holds_engines = True
            return self._engines_of(graph)
        reasons = {
            node.index: reason
            for node in graph.nodes
            if (reason := nodes.refusal(node, graph, self.variant, self.wishes)) is not None
        }
        able = [node.index for node in graph.nodes if node.index not in reasons]
        found = find(graph, able, partial(refusals_of, self._asker.ask), self.wishes.iterations)
        reasons |= found.reasons
        claims: list[Claim] = []
        for group in found.groups:
            small = nodes.group_refusal([graph.nodes[index] for index in group], self.wishes)
            if small is None:
                claims.append(Claim(group, ClaimKind.COMPILE, f"the parser takes a region of {len(group)}"))
            else:
                reasons |= dict.fromkeys(group, small)
        return Capability(tuple(claims), tuple(Refusal(index, reasons[index]) for index in sorted(reasons)))

    def group_refusal(self, nodes_left: Sequence[NodeSpec], graph: GraphView) -> str | None:
        """Ask the parser again about what others have left of a region: its border has moved."""
        if any(context_nodes.is_context(node) for node in nodes_left):
            return None
        small = nodes.group_refusal(nodes_left, self.wishes)
        if small is not None:
            return small
        group = tuple(sorted(node.index for node in nodes_left))
        return next(iter(refusals_of(self._asker.ask, graph, group).values()), None)

    def compile(self, region: RegionView) -> CompiledRegion:
        """Return a region with its engine: from the cache, built now, or built at the first run if that decides sizes.

        Raises:
            RegionNotReady: The engine is being built in the background.
            EPFail: No engine can be built.
        """
        if any(context_nodes.is_context(node) for node in region.nodes):
            return self._embedded(region)
        source = self.source_of(region)
        profile = declared(region.inputs, self.wishes)
        static = profile is not None and profile.static
        made = self._region(Border.of(region), None if static else source)
        if profile is None:
            return made
        found = source.engine(profile)
        with self.opened.new_stream():
            made.adopt(found, profile, source.weights)
        return made

    def source_of(self, region: RegionView) -> EngineSource:
        """Return what builds the engines of a region."""
        model = model_of(region)
        weights = [region.weight(name) for name in model.weights]
        build = self.wishes.build
        model = lowered(model, build.precision, normalisations_in_float32=build.normalisations_in_float32)
        key = region_key(self.toolkit, model, self.wishes, self.capability) if self.cache.keeps else None
        return EngineSource(
            self.toolkit,
            model,
            key,
            self.cache,
            self.wishes,
            self.wishes.cuda.device,
            self.capability,
            tuple(one.held() for one in weights if one is not None),
            self._asker.take_worker,
            Rebuilds() if key is None else self._rebuilds.setdefault(key.text, Rebuilds()),
        )

    @property
    def capability(self) -> int:
        """Compute capability of the GPU, times 10; 0 for engines that are not built for one."""
        return 0 if self.variant.compiles_ahead else self.opened.capability

    @property
    def facts(self) -> Mapping[str, Any]:
        """Facts that have to be equal for an engine to be valid."""
        return {
            "library": self.variant.module,
            "version": self.toolkit.version,
            "capability": self.capability,
            "build": {**asdict(self.wishes.build), "capabilities": list(self.wishes.build.capabilities)},
        }

    def validate(self, artifact: bytes) -> ArtifactValidity:
        """Return whether an engine was built by this version, with these options, for this kind of device."""
        try:
            found = unpack(artifact)
        except ValueError:
            return ArtifactValidity.UNSUPPORTED
        return ArtifactValidity.VALID if found.facts == self.facts else ArtifactValidity.STALE

    def restore(self, artifact: bytes) -> CompiledRegion:
        """Load an engine that was kept.

        Raises:
            EPFail: The library does not load it.
        """
        found = unpack(artifact)
        made = self._region(Border(tuple(found.inputs), tuple(found.outputs)), None)
        with self.opened.new_stream():
            made.adopt(found.engine, found.profile)
        return made

    def failure_kind(self, error: BaseException) -> FailureKind | None:
        """CUDA's own errors by their numbers."""
        return failure_kind(error)

    def synchronize(self) -> None:
        """Wait for all work of the GPU."""
        with cupy().cuda.Device(self.device.index) as device:
            device.synchronize()

    def close(self) -> None:
        """End the process that asks the parser."""
        self._asker.close()

    def _region(self, border: Border, source: EngineSource | None) -> EngineRegion:
        capturing = None
        if self.wishes.graphs and not self.variant.compiles_ahead:  # which captures runs itself
            capturing = Capturing("an engine", self.array_module, signatures=1)
        return EngineRegion(border, self._load, source, self.device.index, self.facts, capturing)

    def _load(self, plan: bytes, weights: RegionModel | None) -> Engine:
        kernels, folder = None, self.wishes.runtime_cache_folder
        if folder and self.variant.compiles_ahead:
            kernels = CodeCache(Path(folder))
        settings = ContextSettings(self.opened.allocator.empty, self.wishes.graphs, kernels)
        return load_engine(self.toolkit, plan, settings, weights)

    def _engines_of(self, graph: GraphView) -> Capability:
        """Claim the engines that a model holds."""
        claims: list[Claim] = []
        refusals: list[Refusal] = []
        for node in graph.nodes:
            reason: str | None = "the model holds engines, and this node was left out of them"
            if context_nodes.is_context(node):
                reason = context_nodes.refusal(node, self.toolkit, self.wishes)
            if reason is None:
                claims.append(Claim((node.index,), ClaimKind.COMPILE, "an engine of the model"))
            else:
                refusals.append(Refusal(node.index, reason))
        return Capability(tuple(claims), tuple(refusals))

    def _embedded(self, region: RegionView) -> CompiledRegion:
        (node,) = region.nodes
        found = context_nodes.read(node, self.toolkit, self.wishes)
        border = Border(tuple(found.inputs), tuple(found.outputs))
        made = self._region(border, None)
        with self.opened.new_stream():
            made.adopt(found.engine, found.profile)
        return made
