"""From a model and providers to a program: each stage of the way takes a value and returns one.

``optimise → partition → compile → plan``, after `loading`. The session calls `assemble` as often as it plans, because
run fallback plans again without a provider. What changes graphs needs the onnx package and is in `preparation`, and
providers are asked in `partitioning`. Both are imported when they are called: a session restored from the cache begins
with `plan_restored`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from ort_py.constraints import check_memory
from ort_py.contracts import IExecutionProvider, RegionNotReady
from ort_py.errors import EPFail, Location
from ort_py.execution.compile_plan import compile_plan
from ort_py.graph.weights.accounting import release_weights
from ort_py.hooks.guard import describe
from ort_py.lazy_dataclass import dataclass
from ort_py.limits import checking_time
from ort_py.memory.transfer import TransferTable
from ort_py.options import reuses_memory
from ort_py.planning.builder import build_plan, plan_region
from ort_py.planning.constants import ConstantPool
from ort_py.planning.host_inputs import host_inputs
from ort_py.planning.resources import PlanResources
from ort_py.planning.stand_in import StandIns

if TYPE_CHECKING:
    from ort_py.contracts import CompiledRegion, IStream, PackedForms
    from ort_py.devices import Device
    from ort_py.engine.contributions import Contributions
    from ort_py.engine.load_report import LoadReport
    from ort_py.execution.program import Program
    from ort_py.graph.checking.schema import SchemaRegistry
    from ort_py.graph.ir import Model
    from ort_py.graph.weights.packed_forms import PackedFormCache
    from ort_py.kernels.services import KernelServices
    from ort_py.options import SessionOptions
    from ort_py.partition.assignment import Assignment, Region
    from ort_py.partition.rates import Calibration
    from ort_py.planning.stand_in import Declined


@dataclass(frozen=True, slots=True)
class Assembled:
    """A runnable model and what was decided on the way.

    Attributes:
        transfers: Makes the copies between devices.
    """

    program: Program
    assignment: Assignment
    compiled: Mapping[Region, CompiledRegion]
    constants: ConstantPool
    transfers: TransferTable


@dataclass(slots=True, kw_only=True, eq=False)
class Assembler:
    """Makes programs of one model.

    Attributes:
        model: Loaded and typed; transforms change it.
        schemas: Makes the operator schemas, when they are first needed.
        contributions: Kernels, transforms and copies of providers and plug-ins.
        on_provider_error: Called for a provider that failed in a survey or while compiling: (provider, error, node).
        calibration: Known times of the providers on this machine.
        explicit: Whether the user named the providers in this order.
        named: Names of the providers that the user requested, without the CPU provider's role.
        on_declined: Called for each run that a region left to other kernels.
    """

    model: Model
    options: SessionOptions
    schemas: Callable[[], SchemaRegistry]
    services: KernelServices
    contributions: Contributions
    on_provider_error: Callable[[str, Exception, str], None]
    compile_region: Callable[[IExecutionProvider, Region, PackedForms, frozenset[str]], CompiledRegion]
    threads: int
    calibration: Calibration
    explicit: bool
    named: Collection[str] = ()
    on_declined: Callable[[Declined], None] | None = None

    def optimise(self, providers: Sequence[IExecutionProvider], report: LoadReport) -> None:
        """Run the graph transforms of the session's level.

        Raises:
            LimitError: It was too short.
        """
        if int(self.options.graph_optimization_level) == 0:
            with report.stage("optimise"):
                self.model.budget.pause()
                return
        # Before the clock starts: importing does not count as work on this model.
        from ort_py.engine.preparation import optimise

        with report.stage("optimise") as notes:
            schemas = self.schemas()
            done = optimise(self.model, self.options, schemas, self.contributions, self.services, providers, self.named)
            self.model.budget.pause()
            report.optimisation = done
            notes.extend(done.lines())

    def write_optimised(self) -> None:
        """Write the graph as it is now where the options ask for it; see `ort_py.engine.optimised_model`."""
        if self.options.optimized_model_filepath:
            from ort_py.engine.optimised_model import write_optimised

            write_optimised(self.model, self.options)

    def assemble(self, providers: Sequence[IExecutionProvider], report: LoadReport) -> Assembled:
        """Partition, compile and plan. The time for loading ends with the first plan, and does not count compiling.

        Raises:
            KernelNotFoundError: No provider runs some nodes; lists every refusal.
            OrtPyError: A kernel refused its node, or a provider failed and may not be replaced.
            LimitError: The time for loading was too short.
        """
        providers = list(providers)
        while True:
            with report.stage("partition") as notes, self.model.budget.resumed():
                from ort_py.engine.partitioning import assign

                assignment = assign(
                    self.model,
                    providers,
                    self.contributions.kernels,
                    self.options,
                    schemas=self.schemas,
                    calibration=self.calibration,
                    explicit=self.explicit,
                    on_provider_error=self.on_provider_error,
                )
                notes.extend(f"{name}: {count} nodes" for name, count in assignment.counts().items())
                notes.extend(assignment.notes)
            constants = self._constants(providers)
            try:
                compiled = self._compile(assignment, providers, constants, report)
            except _RegionFailedError as failed:
                region = failed.region
                for one in (failed, *failed.others):
                    self.on_provider_error(region.provider, one.error, one.region.nodes[0].name)
                del one  # the errors' frames lead here
                # The provider keeps its kernels' claims out too: one that cannot compile what it claimed is not asked
                # again for this model.
                providers = [provider for provider in providers if provider.name != region.provider]
                continue
            return self._plan(assignment, compiled, providers, constants, report)

    def plan_restored(
        self,
        assignment: Assignment,
        providers: Sequence[IExecutionProvider],
        report: LoadReport,
        kept: PackedFormCache | None = None,
    ) -> Assembled:
        """Compile or restore the regions of an assignment that is known already, and plan.

        Args:
            kept: Packed forms that an earlier process made of the constants.

        Raises:
            Exception: An error of a provider; nothing falls back here.
        """
        constants = self._constants(providers, kept)
        try:
            compiled = self._compile(assignment, providers, constants, report)
        except _RegionFailedError as failed:
            raise failed.error from failed.error.__cause__
        return self._plan(assignment, compiled, providers, constants, report)

    def _constants(self, providers: Sequence[IExecutionProvider], kept: PackedFormCache | None = None) -> ConstantPool:
        transfers = TransferTable(
            [one for provider in providers for one in self.contributions.provider_transfers[provider.name]]
            + self.contributions.transfers
        )
        return ConstantPool(transfers, _stream_makers(providers), kept=kept)

    def _plan(
        self,
        assignment: Assignment,
        compiled: Mapping[Region, CompiledRegion],
        providers: Sequence[IExecutionProvider],
        constants: ConstantPool,
        report: LoadReport,
    ) -> Assembled:
        try:
            budget = self.model.budget
            with report.stage("plan"), budget.resumed(), checking_time(budget.check_kernel):
                plan = build_plan(
                    self.model.graph,
                    PlanResources(
                        assignment=assignment,
                        providers={provider.name: provider for provider in providers},
                        compiled=compiled,
                        transfers=constants.transfers,
                        constants=constants,
                        services=self.services,
                        streams=constants.streams,
                        threads=self.threads,
                        allocators=self.contributions.allocators_on(providers),
                        stand_ins=StandIns(self.contributions.kernels, providers, plan_region, self.on_declined),
                        limits=self.options.limits,
                        precision=self.options.precision,
                    ),
                )
                program = compile_plan(plan, reuses_memory=reuses_memory(self.options))
                release_weights(self.model)
                self.model.node_types.clear()
            budget.end()
        except BaseException:
            _close_all(compiled)
            raise
        return Assembled(program, assignment, compiled, constants, constants.transfers)

    def _compile(
        self,
        assignment: Assignment,
        providers: Sequence[IExecutionProvider],
        constants: ConstantPool,
        report: LoadReport,
    ) -> dict[Region, CompiledRegion]:
        """Compile or restore every region.

        Raises:
            _RegionFailedError: A region could not be compiled; the others are closed again.
            LimitError: A region makes a value that is larger than one allocation may be, whatever its inputs are.
        """
        by_name = {provider.name: provider for provider in providers}
        compiled: dict[Region, CompiledRegion] = {}
        waiting: list[_RegionFailedError] = []  # all of a provider's regions are begun before others take over
        try:
            with report.stage("compile"):
                for region in (region for regions in assignment.regions.values() for region in regions):
                    if waiting and region.provider != waiting[0].region.provider:
                        continue
                    provider = by_name[region.provider]
                    if (gate := assignment.gates.get(region)) is not None:
                        check_memory(gate.largest, self.options.limits.single_allocation_bytes)
                    try:
                        host = host_inputs(region, assignment, by_name)
                        forms = constants.forms(provider.device)
                        compiled[region] = self.compile_region(provider, region, forms, host)
                    except RegionNotReady as error:
                        waiting.append(_RegionFailedError(region, error))
                    except Exception as error:  # a plug-in's code: another provider may take over
                        raise _RegionFailedError(region, error) from error
            if waiting:
                waiting[0].others = waiting[1:]
                raise waiting[0] from waiting[0].error
        except BaseException:
            _close_all(compiled)
            raise
        finally:
            waiting = []  # the errors hold this frame, which must not hold them
        return compiled


class _RegionFailedError(Exception):
    """A provider could not compile a region."""

    def __init__(self, region: Region, error: Exception) -> None:
        super().__init__(region.name)
        self.region = region
        self.error = error
        self.others: list[_RegionFailedError] = []


def _close_all(compiled: Mapping[Region, CompiledRegion]) -> None:
    for region in compiled.values():
        region.close()


def _stream_makers(providers: Sequence[IExecutionProvider]) -> dict[Device, Callable[[], IStream | None]]:
    makers: dict[Device, Callable[[], IStream | None]] = {}
    for provider in providers:
        # One stream a device: the first provider there makes it, others on the device share it.
        if provider.device in makers or type(provider).create_stream is IExecutionProvider.create_stream:
            continue
        if _make_stream(provider) is not None:  # a base class may have the method for devices without streams, too
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
