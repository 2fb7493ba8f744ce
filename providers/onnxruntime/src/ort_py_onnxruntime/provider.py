"""The provider of one session: each region becomes a session of onnxruntime.

Comes after all other files of the package.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx

from ort_py.contracts import (
    ArtifactValidity,
    Capability,
    Claim,
    ClaimKind,
    CompiledRegion,
    GraphView,
    IAllocator,
    IDataTransfer,
    IStream,
    KernelLookup,
    NodeSpec,
    Refusal,
    RegionProvider,
    RegionView,
    ValueSpec,
    convex_groups,
)
from ort_py.devices import HOST, Device
from ort_py.errors import EPFail
from ort_py_onnxruntime.artifacts import pack, unpack, validity
from ort_py_onnxruntime.device_arrays import DeviceArrays
from ort_py_onnxruntime.device_values import Copies, Memory, Queue, Residence
from ort_py_onnxruntime.region import OnnxruntimeRegion
from ort_py_onnxruntime.routes import CPU, ROUTES
from ort_py_onnxruntime.sessions import Model, make_kept_session, make_session, model_of
from ort_py_onnxruntime.settings import Settings
from ort_py_onnxruntime.support import Support, taken_by_providers
from ort_py_onnxruntime.trials import failures

__all__ = ["OnnxruntimeProvider"]

_LARGE = 16_384
"""Elements of a tensor from which work on it is worth a call: some 20 µs of a processor's."""

_UNKNOWN = 64
"""Guess for a size that only a run knows."""

_HEAVY = frozenset(
    {"Attention", "Conv", "ConvInteger", "ConvTranspose", "DeformConv", "Einsum", "GRU", "Gemm", "LSTM", "MatMul"}
    | {"MatMulInteger", "QLinearConv", "QLinearMatMul", "RNN"}
)


class OnnxruntimeProvider(RegionProvider):
    """Hands what onnxruntime runs to it, in regions as large as they can be.

    Args:
        name: The factory's name.
        settings: How its sessions are made.
        claims_small: Whether regions that are not worth a call are taken too.
        residence: The device that values stay on; None for the host.
    """

    def __init__(
        self, name: str, settings: Settings, *, claims_small: bool = False, residence: Residence | None = None
    ) -> None:
        self._residence = residence
        self._claims_small = claims_small
        self._name = name
        self._settings = settings
        self._support = Support(settings.names)
        route = ROUTES.get(settings.names[0])
        self._tried = route is not None and route.tried and not settings.completes
        self._own_kernels = settings.names == (CPU,)

    @property
    def name(self) -> str:
        """The factory's name."""
        return self._name

    @property
    def device(self) -> Device:
        """The device that values are on between regions."""
        return HOST if self._residence is None else self._residence.device

    @property
    def array_module(self) -> Any:
        """Functions for values on its device, which control flow calls."""
        return np if self._residence is None else DeviceArrays(self._residence.place)

    def allocator(self) -> IAllocator | None:
        """onnxruntime's memory of its device."""
        return None if self._residence is None else Memory(self._residence)

    def data_transfers(self) -> Sequence[IDataTransfer]:
        """onnxruntime's copies."""
        return () if self._residence is None else (Copies(self._residence),)

    def create_stream(self) -> IStream | None:
        """The order of runs on the user's stream; None where onnxruntime waits after each run."""
        return Queue(self._residence) if self._residence is not None and self._residence.stream else None

    @property
    def checks_inputs(self) -> bool:
        """True for onnxruntime's kernels for processors alone; nothing is known of other people's."""
        return self._own_kernels

    @property
    def computes_empty_values(self) -> bool:
        """False: sums of nothing are what memory held before, and a plug-in was seen that ends the process."""
        return False

    @property
    def computes_late_broadcasts(self) -> bool:
        """True for onnxruntime's kernels for processors alone, as `checks_inputs`."""
        return self._own_kernels

    def refusal(self, node: NodeSpec, graph: GraphView) -> str | None:
        """Explain why a node is not handed over, or return None."""
        if self._tried and not all(map(_has_known_sizes, (*node.inputs, *node.outputs))):
            return "its sizes are not known: the plug-in is used for sizes that were tried only"
        return self._support.refusal(node)

    def group_refusal(self, nodes: Sequence[NodeSpec], graph: GraphView) -> str | None:
        """A call of a device costs more than a few small sums: it takes a product, or a large tensor.

        Not asked of onnxruntime's own kernels for processors, which are an oracle.
        """
        if self._own_kernels or self._claims_small or any(map(_pays, nodes)):
            return None
        return f"does not pay: too little work for a call, no product and no tensor of {_LARGE:,} elements or more"

    def get_capability(self, graph: GraphView, kernels: KernelLookup) -> Capability:
        """Regions of what onnxruntime has kernels for; where its CPU provider does not complete, of what it gives to
        the provider itself.
        """
        possible = super().get_capability(graph, kernels)
        if self._settings.completes:
            return possible
        refusals = list(possible.refusals)
        taken: list[int] = []
        for claim in possible.claims:
            try:
                ours = taken_by_providers(graph, claim.nodes, self._settings)
                reason = f"onnxruntime does not give it to {', '.join(self._settings.names)}"
            except Exception as error:  # a session that cannot be made is onnxruntime's answer
                ours, reason = set(), f"onnxruntime makes no session of it: {_line(error)}"
            refusals += [Refusal(index, reason) for index in claim.nodes if index not in ours]
            if self._tried:
                kept = sorted(ours)
                failed = failures([model_of(graph.region([index])) for index in kept], self._settings)
                refusals += [Refusal(kept[number], why) for number, why in failed.items()]
                ours -= {kept[number] for number in failed}
            taken += [index for index in claim.nodes if index in ours]
        claims = []
        for whole in convex_groups(graph, sorted(taken)):
            for group in self._parts(graph, whole):
                small = self.group_refusal([graph.nodes[index] for index in group], graph)
                if small is None:
                    claims.append(Claim(group, ClaimKind.COMPILE, f"one of a region of {len(group)}"))
                else:
                    refusals += [Refusal(index, small) for index in group]
        return Capability(tuple(claims), tuple(refusals))

    def _parts(self, graph: GraphView, group: tuple[int, ...]) -> list[tuple[int, ...]]:
        """A group that is not tried, or runs as it should; otherwise the parts of its halves, of which this is true."""
        nodes = [graph.nodes[index] for index in group]
        alone = not self._tried or len(group) == 1 or self.group_refusal(nodes, graph) is not None
        if alone or not failures([model_of(graph.region(group))], self._settings):
            return [group]
        middle = len(group) // 2
        halves = [one for half in (group[:middle], group[middle:]) for one in convex_groups(graph, half)]
        return [part for half in halves for part in self._parts(graph, half)]

    def compile(self, region: RegionView) -> CompiledRegion:
        """A session of onnxruntime.

        Raises:
            EPFail: A plug-in that is tried does not run the region as it should.
            Fail: A provider that was asked for is not used: onnxruntime falls back silently.
            Exception: Whatever onnxruntime raises.
        """
        model = model_of(region)
        threads = self._settings.threads
        if self._settings.completes:
            session = make_session(model, self._settings)
            return OnnxruntimeRegion(session, model.weights, threads, residence=self._residence)
        if self._tried and len(region.nodes) > 1 and (failed := failures([model], self._settings)):
            raise EPFail(f"{self._name} does not run a region of {len(region.nodes)} nodes.", why=failed[0])
        session, made = make_kept_session(model, self._settings)
        artifact = pack(made, self._settings) if made else None
        return OnnxruntimeRegion(session, model.weights, threads, artifact, self._residence)

    def validate(self, artifact: bytes) -> ArtifactValidity:
        """Return whether it was made by this onnxruntime, for these providers, options and devices."""
        return validity(artifact, self._settings)

    def restore(self, artifact: bytes) -> CompiledRegion:
        """A session of what was compiled.

        Raises:
            Exception: Whatever onnxruntime raises.
        """
        model = Model(onnx.ModelProto.FromString(unpack(artifact)[1]), {})
        session = make_session(model, self._settings)
        return OnnxruntimeRegion(session, {}, self._settings.threads, residence=self._residence)


def _has_known_sizes(value: ValueSpec | None) -> bool:
    return value is None or (value.shape is not None and all(isinstance(dim, int) for dim in value.shape))


def _line(error: Exception) -> str:
    """Return onnxruntime's message without the place in its source that precedes it."""
    return re.split(r"\[ONNXRuntimeError\] : \d+ : \w+ : ", " ".join(str(error).split()))[-1][:300]


def _pays(node: NodeSpec) -> bool:
    if node.domain or node.op_type in _HEAVY:
        return True
    sizes = [value.shape for value in (*node.inputs, *node.outputs) if value is not None]
    return any(math.prod(dim if isinstance(dim, int) else _UNKNOWN for dim in shape or ()) >= _LARGE for shape in sizes)
