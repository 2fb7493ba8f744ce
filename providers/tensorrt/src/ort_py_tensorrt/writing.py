"""The provider behind `writer`: it takes a whole model, builds the engines of its regions, and writes what results.

It claims all nodes as one region, so that the engine hands over the model as it is optimised. Inside, it does what
`provider` does for a session: the nodes that the parser takes become engines, each a node of the new model, and the
others stay as they are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx
from onnx import helper

from ort_py.contracts import (
    Capability,
    Claim,
    ClaimKind,
    CompiledRegion,
    FrameResources,
    GraphView,
    IAllocator,
    IDataTransfer,
    IStream,
    KernelLookup,
    NodeSpec,
    Refusal,
    RegionInstance,
    RegionView,
    SessionContext,
    ValueSpec,
)
from ort_py.devices import HOST, Device
from ort_py.dtypes import TensorType
from ort_py.errors import EPFail, OptionError
from ort_py_cuda.opening import OpenDevice
from ort_py_tensorrt.context_nodes import Embedded, make_node
from ort_py_tensorrt.context_schema import DOMAIN
from ort_py_tensorrt.profiles import declared
from ort_py_tensorrt.provider import EngineProvider
from ort_py_tensorrt.variants import Variant

__all__ = ["EngineWriter"]

_MOST_BYTES = (1 << 31) - (1 << 20)
"""A model is one protocol buffer, of which none is larger than 2 GiB."""


class EngineWriter(EngineProvider):
    """Writes a model whose regions are engines, and runs nothing.

    Args:
        variant: The library.
        name: As registered.
        options: Validated options.
        context: The session's wishes.
        target: The model to write. Engines that it does not contain are written beside it.
    """

    def __init__(
        self, variant: Variant, name: str, options: Mapping[str, Any], context: SessionContext, target: Path
    ) -> None:
        super().__init__(variant, options, context)
        if self.wishes.build.stripped:
            raise OptionError(
                f"{variant.prefix}_weight_stripped_engine_enable is set for a model that is to hold engines.",
                why="the model holds no weights beside its engines",
                fix="Leave the option out.",
            )
        self._name = name
        self._target = target
        self._inputs: Sequence[ValueSpec] = ()

    def _open_device(self) -> OpenDevice | None:
        """None for a library that builds for devices that are not there."""
        return None if self.variant.compiles_ahead else super()._open_device()

    @property
    def name(self) -> str:
        """Name as registered."""
        return self._name

    @property
    def device(self) -> Device:
        """The host: nothing is run."""
        return HOST

    @property
    def array_module(self) -> Any:
        """NumPy."""
        import numpy as np

        return np

    @property
    def checks_inputs(self) -> bool:
        """True, so that the whole model is handed over: nothing is run."""
        return True

    @property
    def computes_empty_values(self) -> bool:
        """True, for the same reason."""
        return True

    @property
    def computes_late_broadcasts(self) -> bool:
        """True, for the same reason."""
        return True

    def allocator(self) -> IAllocator | None:  # type: ignore[override]  # the base class has a device
        """None: nothing is run."""
        return None

    def data_transfers(self) -> Sequence[IDataTransfer]:
        """None: nothing is run."""
        return ()

    def create_stream(self) -> IStream | None:  # type: ignore[override]  # as above
        """None: nothing is run."""
        return None

    def group_refusal(self, nodes_left: Sequence[NodeSpec], graph: GraphView) -> str | None:
        """None: the whole model is taken."""
        return None

    def get_capability(self, graph: GraphView, kernels: KernelLookup) -> Capability:
        """Claim the whole model, unless no part of it would become an engine."""
        if any(node.path for node in graph.nodes):
            return Capability()  # the body of a node that is written as it is
        found = super().get_capability(graph, kernels)
        if not found.claims:
            return found
        open_sizes = [
            Refusal(index, self._open_sizes(graph.region(claim.nodes)))
            for claim in found.claims
            if declared(graph.region(claim.nodes).inputs, self.wishes) is None
            for index in claim.nodes
        ]
        if open_sizes:
            return Capability((), tuple(open_sizes))
        self._inputs = graph.inputs
        return Capability((Claim(tuple(node.index for node in graph.nodes), ClaimKind.COMPILE, "it is written"),))

    def compile(self, region: RegionView) -> CompiledRegion:
        """Build the engines of a model and write it, unless there was a region before: the core then refuses it.

        Raises:
            EPFail: An engine cannot be built, a size is not known, or the model would be too large.
        """
        if not self._target.exists():
            found = super().get_capability(region, _NoKernels())
            model = self._written([claim.nodes for claim in found.claims], region)
            if model.ByteSize() > _MOST_BYTES:
                raise EPFail(
                    f"The model would have {model.ByteSize():,} bytes with its engines.",
                    why="a file of this kind is smaller than 2 GiB",
                    fix=f"Write the engines to files beside it ({self.variant.prefix}_ep_context_embed_mode=0), or a "
                    "file that ends in .ortpy, with this provider among --providers.",
                )
            self._target.write_bytes(model.SerializeToString())
        return _Written()

    def _written(self, groups: Sequence[tuple[int, ...]], region: RegionView) -> onnx.ModelProto:
        inside = {index for group in groups for index in group}
        left = [node.index for node in region.nodes if node.index not in inside]
        whole = onnx.ModelProto.FromString(region.to_model("reference", standard=True))
        rest = onnx.ModelProto.FromString(region.region(left).to_model("inline", standard=True)) if left else None
        engines = [self._node(number, region.region(group)) for number, group in enumerate(groups)]
        others = list(rest.graph.node) if rest is not None else []
        constants = {one.name for one in region.initializers}
        inputs = {one.name: one for one in whole.graph.input if one.name not in constants}
        unread = [_info(one) for one in self._inputs if one.name not in inputs and not one.constant]
        order = {one.name: place for place, one in enumerate(self._inputs)}
        listed = sorted([*inputs.values(), *unread], key=lambda one: order.get(one.name, len(order)))
        outputs = {one.name for one in whole.graph.output}
        graph = helper.make_graph(
            _ordered([*engines, *others], {one.name for one in listed} | constants),
            whole.graph.name or "graph",
            listed,
            list(whole.graph.output),
            list(rest.graph.initializer) if rest is not None else [],
            value_info=[
                _info(value) for group in groups for value in region.region(group).outputs if value.name not in outputs
            ],
        )
        made = helper.make_model(graph, producer_name="ort-py", ir_version=whole.ir_version)
        del made.opset_import[:]
        used = {node.domain for node in others}
        made.opset_import.extend(one for one in whole.opset_import if one.domain in used - {DOMAIN} or not one.domain)
        made.opset_import.add(domain=DOMAIN, version=1)
        made.functions.extend(whole.functions)
        return made

    def _node(self, number: int, region: RegionView) -> onnx.NodeProto:
        profile = declared(region.inputs, self.wishes)
        if profile is None:
            raise EPFail("An engine cannot be built.", why=self._open_sizes(region), fix="Fix these sizes.")
        engine = self.source_of(region).obtain(profile)
        inputs, outputs = [one.name for one in region.inputs], [one.name for one in region.outputs]
        capabilities, file = self.wishes.build.capabilities, ""
        if not self.wishes.embeds:
            file = f"{self.variant.module}_{hashlib.sha256(engine).hexdigest()[:32]}.engine"
            self._target.with_name(file).write_bytes(engine)
        return make_node(
            self.variant,
            self.toolkit.version,
            Embedded(engine, inputs, outputs, profile),
            name=f"{self.variant.module}_{number}",
            hardware=",".join(capabilities) if self.variant.compiles_ahead else str(self.capability),
            inputs=inputs,
            outputs=outputs,
            file=file,
        )

    def _open_sizes(self, region: RegionView) -> str:
        """Explain why no engine can be built for a region whose sizes only a run tells."""
        unknown = [one.name for one in region.inputs if not all(isinstance(size, int) for size in one.shape or ())]
        return (
            f"the sizes of {', '.join(unknown)} are not known: fix them with --fix, or give --ep-option "
            f"{self.variant.prefix}_profile_min_shapes, …_opt_shapes and …_max_shapes"
        )


class _NoKernels(KernelLookup):
    """The look-up of a provider that has none."""

    def find(self, node: NodeSpec) -> Any:
        """Not called: engines are not kernels."""
        raise NotImplementedError


class _Written(CompiledRegion):
    """A model that was written."""

    def instantiate(self, frame: FrameResources) -> RegionInstance:
        """Refuse to run.

        Raises:
            EPFail: Always.
        """
        raise EPFail("A model that is written to a file is not run.", fix="load the file that was written")


def _ordered(nodes: Iterable[onnx.NodeProto], known: set[str]) -> list[onnx.NodeProto]:
    """Return nodes in an order in which each follows those that it reads."""
    made: list[onnx.NodeProto] = []
    left = list(nodes)
    outputs = {name for node in left for name in node.output if name}
    there = set(known)
    while left:
        waiting = []
        for node in left:
            if all(name in there or name not in outputs for name in _read(node)):
                made.append(node)
                there |= set(node.output)
            else:
                waiting.append(node)
        assert len(waiting) < len(left), "regions are convex"
        left = waiting
    return made


def _read(node: onnx.NodeProto) -> set[str]:
    """Return the names that a node reads, those inside of its graphs included."""
    names = {name for name in node.input if name}
    for attribute in node.attribute:
        for graph in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
            names |= {name for inner in graph.node for name in _read(inner)}
            names |= {one.name for one in graph.output}
    return names


def _info(value: ValueSpec) -> onnx.ValueInfoProto:
    assert isinstance(value.type, TensorType), "an engine reads and writes tensors"
    return helper.make_tensor_value_info(value.name, int(value.type.data_type), value.type.shape)
