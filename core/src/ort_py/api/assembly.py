"""From a model and providers to a program: each stage of the way takes a value and returns one.

``load → validate → infer types → optimise → partition → compile → plan``. The session calls `load` once and
`assemble` as often as it plans, because run fallback plans again without a provider.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ort_py.api.contributions import Contributions
from ort_py.api.evaluation import KernelEvaluator
from ort_py.api.optimised_model import write_optimised
from ort_py.api.options import SessionOptions
from ort_py.api.replaced_values import external_folder, replace_initializers, supplied_by
from ort_py.api.reports import LoadReport
from ort_py.contracts import CompiledRegion, IExecutionProvider, IStream
from ort_py.devices import Device
from ort_py.errors import EPFail, KernelNotFoundError, Location, operator_title
from ort_py.execution.program import Program
from ort_py.graph.checking.schema import SchemaRegistry
from ort_py.graph.checking.validate import check_types, validate
from ort_py.graph.ir import Model, Node, walk
from ort_py.graph.reading.functions import expand_schema_function
from ort_py.graph.reading.loader import load_model
from ort_py.graph.reading.names import Names
from ort_py.graph.typing.shapes import infer_types
from ort_py.hooks.guard import describe
from ort_py.kernels.binding import KernelServices
from ort_py.memory.transfer import TransferTable
from ort_py.partition.assignment import Assignment, Region
from ort_py.partition.cost_model import AlwaysPays, CostModel, TransferCostModel
from ort_py.partition.partitioner import partition
from ort_py.planning.builder import build_plan
from ort_py.planning.constants import ConstantPool
from ort_py.planning.resources import PlanResources
from ort_py.transforms.builtin import builtin_transforms
from ort_py.transforms.pipeline import run_transforms

__all__ = ["Assembled", "Assembler", "load"]

EXPANSION_ROUNDS = 8
"""How often nodes nobody runs are replaced by their function bodies: bodies may hold function operators again."""


@dataclass(frozen=True, slots=True)
class Assembled:
    """A runnable model and what was decided on the way.

    Attributes:
        program: Ready to run.
        assignment: Who runs each node.
        compiled: The compiled regions, to be closed with the session.
        constants: Constants on their devices.
    """

    program: Program
    assignment: Assignment
    compiled: Mapping[Region, CompiledRegion]
    constants: ConstantPool


def load(
    source: str | os.PathLike[str] | bytes | Any, options: SessionOptions, schemas: SchemaRegistry, report: LoadReport
) -> Model:
    """Read, validate and type a model.

    Raises:
        OrtPyError: Anything wrong with the model, all problems of a stage in one message.
    """
    with report.stage("load") as notes:
        flag = options.additions().load_flag
        model = load_model(
            source,
            limits=options.limits,
            external_data_folder=external_folder(options, source),
            supplied=supplied_by(options.additions()),
            cancelled=lambda: flag.cancelled,
        )
        replace_initializers(model, options.additions().initializers)
        notes.append(f"{sum(len(graph.nodes) for graph in walk(model.graph))} nodes")
    with report.stage("validate"):
        validate(model, schemas)
    model.declared_outputs = [value.type for value in model.graph.outputs]
    with report.stage("infer types"):
        infer_types(model, schemas)
        check_types(model, schemas)
    if any(node.op_type == "Gradient" for graph in walk(model.graph) for node in graph.nodes):
        _differentiate(model, options, schemas, report)
    return model


def _differentiate(model: Model, options: SessionOptions, schemas: SchemaRegistry, report: LoadReport) -> None:
    """Replace Gradient nodes, before anything renames or removes the tensors they name."""
    from ort_py.transforms.gradient.lowering import lower_gradients  # few models need it, and it is large

    with report.stage("gradients") as notes:
        count = lower_gradients(model, schemas, options.limits)
        notes.append(f"{count} Gradient nodes")


class Assembler:
    """Makes programs of one model.

    Args:
        model: Loaded and typed; transforms change it.
        options: The session's options.
        schemas: Operator schemas.
        services: What kernels are bound with.
        contributions: Kernels, transforms and copies of providers and plug-ins.
        on_provider_error: Told about a provider that failed while asked or compiling: (provider, error, node).
        compile_region: Compiles one region, or restores it from the cache.
        threads: Threads of one run.
    """

    def __init__(
        self,
        model: Model,
        *,
        options: SessionOptions,
        schemas: SchemaRegistry,
        services: KernelServices,
        contributions: Contributions,
        on_provider_error: Callable[[str, Exception, str], None],
        compile_region: Callable[[IExecutionProvider, Region], CompiledRegion],
        threads: int,
    ) -> None:
        self.model = model
        self._options = options
        self._schemas = schemas
        self._contributions = contributions
        self._services = services
        self._on_provider_error = on_provider_error
        self._compile_region = compile_region
        self._threads = threads

    def optimise(self, providers: Sequence[IExecutionProvider], report: LoadReport) -> None:
        """Run the graph transforms of the session's level."""
        level = int(self._options.graph_optimization_level)
        with report.stage("optimise") as notes:
            if level == 0:
                return
            result = run_transforms(
                self.model,
                [*builtin_transforms(), *self._contributions.transforms],
                level,
                KernelEvaluator(providers, self._contributions.kernels, self._services),
                schemas=self._schemas,
                disabled=tuple(self._options.disabled_transforms),
            )
            notes.extend(str(result).splitlines())

    def write_optimised(self) -> None:
        """Write the graph as it is now where the options ask for it; see `ort_py.api.optimised_model`."""
        write_optimised(self.model, self._options)

    def assemble(self, providers: Sequence[IExecutionProvider], report: LoadReport) -> Assembled:
        """Partition, compile and plan.

        Raises:
            KernelNotFoundError: Nodes nobody runs, with every refusal.
            OrtPyError: A kernel refused its node, or a provider failed and may not be replaced.
        """
        providers = list(providers)
        while True:
            with report.stage("partition") as notes:
                assignment = self._partition(providers)
                notes.extend(f"{name}: {count} nodes" for name, count in assignment.counts().items())
            with report.stage("compile"):
                compiled, failed = self._compile(assignment, providers)
            if failed is None:
                break
            # The provider keeps its kernels' claims out too: one that cannot compile what it claimed is not asked
            # again for this model.
            providers = [provider for provider in providers if provider.name != failed]
        with report.stage("plan"):
            transfers = TransferTable(
                [one for provider in providers for one in self._contributions.provider_transfers[provider.name]]
                + self._contributions.transfers
            )
            streams = _stream_makers(providers)
            constants = ConstantPool(transfers, streams)
            plan = build_plan(
                self.model.graph,
                PlanResources(
                    assignment=assignment,
                    providers={provider.name: provider for provider in providers},
                    compiled=compiled,
                    transfers=transfers,
                    constants=constants,
                    services=self._services,
                    streams=streams,
                    threads=self._threads,
                ),
            )
            program = Program(plan)
        return Assembled(program, assignment, compiled, constants)

    def _partition(self, providers: Sequence[IExecutionProvider]) -> Assignment:
        cost_model: CostModel = AlwaysPays() if self._options.cost_model == "always" else TransferCostModel()

        def report_error(provider: str, error: Exception) -> None:
            self._on_provider_error(provider, error, "")

        for _ in range(EXPANSION_ROUNDS):
            assignment = partition(self.model.graph, providers, self._contributions.kernels, cost_model, report_error)
            if not assignment.unassigned:
                return assignment
            names = Names.of(self.model)
            expanded = [
                expand_schema_function(node, self._schemas, names=names, limits=self._options.limits)
                for node in assignment.unassigned
            ]
            if not any(expanded):
                break
            infer_types(self.model, self._schemas)
            check_types(self.model, self._schemas)
        raise _nobody_runs(assignment.unassigned)

    def _compile(
        self, assignment: Assignment, providers: Sequence[IExecutionProvider]
    ) -> tuple[dict[Region, CompiledRegion], str | None]:
        """Compile every region; on a failure that may be answered, the name of the provider that failed."""
        by_name = {provider.name: provider for provider in providers}
        compiled: dict[Region, CompiledRegion] = {}
        for regions in assignment.regions.values():
            for region in regions:
                try:
                    compiled[region] = self._compile_region(by_name[region.provider], region)
                except Exception as error:  # a plug-in's code: another provider may take over
                    for done in compiled.values():
                        done.close()
                    self._on_provider_error(region.provider, error, region.nodes[0].name)
                    return {}, region.provider
        return compiled, None


def _stream_makers(providers: Sequence[IExecutionProvider]) -> dict[Device, Callable[[], IStream | None]]:
    makers: dict[Device, Callable[[], IStream | None]] = {}
    for provider in providers:
        # One stream a device: the first provider there makes it, others on the device share it.
        if provider.device not in makers and type(provider).create_stream is not IExecutionProvider.create_stream:
            makers[provider.device] = partial(_make_stream, provider)
    return makers


def _make_stream(provider: IExecutionProvider) -> IStream | None:
    try:
        return provider.create_stream()
    except Exception as error:  # a plug-in's code; with its provider's name, run fallback can answer it
        raise EPFail(
            f"{provider.name} could not make a stream on {provider.device}.",
            where=Location(provider=provider.name),
            why=describe(error),
            fix="Check the device, or name another provider first.",
        ) from error


def _nobody_runs(unassigned: Mapping[Node, tuple[tuple[str, str], ...]]) -> KernelNotFoundError:
    shown = list(unassigned.items())[:10]
    why = [
        f"{node.location}: " + "; ".join(f"{provider}: {reason}" for provider, reason in refusals)
        for node, refusals in shown
    ]
    if len(unassigned) > len(shown):
        why.append(f"and {len(unassigned) - len(shown)} more")
    first = shown[0][0]
    return KernelNotFoundError(
        f"No provider of this session runs {len(unassigned)} node(s), the first is "
        f"{operator_title(first.op_type, first.domain)}({first.since_version}).",
        where=first.location,
        why=why,
        fix="Install a provider that has the operator, or contribute a kernel (see docs/plugin-author).",
    )
