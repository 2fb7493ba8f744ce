"""Drives the engine rooms without a session: from model text to a program, and runs of it.

For tests of the rooms between loading and the API. `HostProvider` completes what other providers leave; its kernels
are the fake device's, over NumPy, so results are always compared with `onnx.reference`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

from ort_py.contracts import CompiledRegion, IAllocator, IExecutionProvider, IStream, KernelDef
from ort_py.devices import Device
from ort_py.engine.runner import finish_result
from ort_py.execution.compile_plan import compile_plan
from ort_py.execution.frame import FramePool
from ort_py.execution.program import Program
from ort_py.execution.sequential import run_frame
from ort_py.execution.watch import RunWatch
from ort_py.graph.checking.schema import SchemaRegistry
from ort_py.graph.checking.validate import check_types, validate
from ort_py.graph.ir import Model
from ort_py.graph.reading.loader import load_model
from ort_py.graph.typing.shapes import infer_types
from ort_py.graph.view import ModelGraphView
from ort_py.kernels.registry import KernelRegistry
from ort_py.kernels.services import KernelServices
from ort_py.limits import Limits
from ort_py.memory.transfer import TransferTable
from ort_py.partition.assignment import Assignment, Region
from ort_py.partition.cost_model import CostModel, always_pays
from ort_py.partition.partitioner import partition
from ort_py.planning.builder import build_plan
from ort_py.planning.constants import ConstantPool
from ort_py.planning.plan import ExecutionPlan
from ort_py.planning.resources import PlanResources
from ort_py_kit.fake_device import fake_kernels

__all__ = ["Driven", "HostProvider", "drive", "floats", "model_of", "reference", "typed_model"]


class HostProvider(IExecutionProvider):
    """A provider on the host with any kernels; the fake device's where none are given."""

    def __init__(self, kernels: Sequence[KernelDef] | None = None, name: str = "HostExecutionProvider") -> None:
        self._kernels = fake_kernels() if kernels is None else list(kernels)
        self._name = name

    @property
    def name(self) -> str:
        return self._name

    def kernel_registry(self) -> Sequence[KernelDef]:
        return self._kernels


@dataclass
class Driven:
    """A model brought to a program."""

    model: Model
    assignment: Assignment
    compiled: Mapping[Region, CompiledRegion]
    constants: ConstantPool
    program: Program
    errors: list[tuple[str, Exception]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.pool = FramePool(self.program)

    @property
    def plan(self) -> ExecutionPlan:
        """The plan."""
        return self.program.plan

    def runner_of(self, name: str) -> str:
        """The provider of the node with this name or first output, in any graph."""
        for node, assigned in self.assignment:
            first = node.outputs[0]
            if node.name == name or (first is not None and first.name == name):
                return assigned.provider
        raise KeyError(name)

    def run(self, feeds: Mapping[str, Any], watch: RunWatch | None = None) -> list[Any]:
        """One run, as a session does it."""
        frame = self.pool.take()
        frame.watch = watch
        try:
            for value in self.plan.inputs:
                if not value.default or value.name in feeds:
                    frame.slots[value.slot] = feeds[value.name]
            with frame.current_streams():
                frame.context.run(run_frame, frame)
            results = [finish_result(frame.slots[value.slot], value.copy) for value in self.plan.outputs]
        except BaseException:
            frame.close()
            raise
        frame.watch = None
        frame.clear()
        self.pool.give_back(frame)
        return results


def model_of(text: str | onnx.ModelProto) -> onnx.ModelProto:
    """A model from ONNX's text form, with a header put in front where it has none."""
    if isinstance(text, onnx.ModelProto):
        return text
    header = "" if text.lstrip().startswith("<") else '<ir_version: 10, opset_import: ["" : 21]>\n'
    return onnx.parser.parse_model(header + text)


def typed_model(text: str | onnx.ModelProto, limits: Limits | None = None) -> Model:
    """Loaded, validated and typed."""
    schemas = SchemaRegistry()
    model = load_model(model_of(text), limits=limits)
    validate(model, schemas)
    infer_types(model, schemas)
    check_types(model, schemas)
    return model


def reference(text: str | onnx.ModelProto, feeds: Mapping[str, Any]) -> list[Any]:
    """Run a model with `onnx.reference`."""
    return list(ReferenceEvaluator(model_of(text)).run(None, dict(feeds)))


def drive(
    text: str | onnx.ModelProto,
    *providers: IExecutionProvider,
    cost_model: CostModel | None = None,
    limits: Limits | None = None,
    parallel_for: Callable[..., None] | None = None,
    model: Model | None = None,
) -> Driven:
    """Bring a model to a program on these providers, in this order."""
    providers = providers or (HostProvider(),)
    model = model or typed_model(text, limits)
    kernels = KernelRegistry()
    for provider in providers:
        kernels.register(provider.name, provider.kernel_registry(), provider.name)
    errors: list[tuple[str, Exception]] = []
    assignment = partition(
        model.graph, providers, kernels, cost_model or always_pays(), lambda name, error: errors.append((name, error))
    )
    assert not assignment.unassigned, assignment.unassigned
    by_name = {provider.name: provider for provider in providers}
    compiled: dict[Region, CompiledRegion] = {}
    for graph, regions in assignment.regions.items():
        place = {node: index for index, node in enumerate(graph.nodes)}
        for region in regions:
            view = ModelGraphView(graph).region([place[node] for node in region.nodes])
            compiled[region] = by_name[region.provider].compile(view)
    streams: dict[Device, Callable[[], IStream | None]] = {}
    for provider in providers:
        if type(provider).create_stream is not IExecutionProvider.create_stream:
            streams.setdefault(provider.device, provider.create_stream)
    transfers = TransferTable(transfer for provider in providers for transfer in provider.data_transfers())
    constants = ConstantPool(transfers, streams)
    services = KernelServices(limits or Limits())
    if parallel_for is not None:
        services = KernelServices(limits or Limits(), parallel_for)
    allocators: dict[Device, IAllocator] = {}
    for provider in providers:
        allocator = provider.allocator()
        if allocator is not None:
            allocators.setdefault(provider.device, allocator)
    resources = PlanResources(
        assignment, by_name, compiled, transfers, constants, services, streams, allocators=allocators
    )
    return Driven(model, assignment, compiled, constants, compile_plan(build_plan(model.graph, resources)), errors)


def floats(*shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    """Seeded float32 numbers."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
