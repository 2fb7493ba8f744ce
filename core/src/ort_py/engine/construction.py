"""What a session is made of: providers chosen and created, the model assembled, and all of it released again.

`construct` is the sequence of rooms behind ``InferenceSession(...)``; the session itself only runs.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from ort_py.contracts import IExecutionProvider
from ort_py.discovery import (
    FallbackKind,
    FallbackRecord,
    ProviderInstances,
    ProviderRecord,
    Selected,
    Selection,
    create_instances,
    default_catalog,
    strictness,
)
from ort_py.engine.assembly import Assembled, Assembler
from ort_py.engine.cache_use import CacheUse, session_context
from ort_py.engine.completion import check_completion
from ort_py.engine.contributions import Contributions, provider_failure, quietly, schemas_when_needed
from ort_py.engine.load_report import LoadReport
from ort_py.engine.memory_limit import settle_memory
from ort_py.engine.memory_report import MemoryReport, memory_report
from ort_py.engine.metadata import ModelMetadata, NodeArg, metadata_of, node_arg
from ort_py.engine.participants import Participants
from ort_py.engine.precision import precision_notes
from ort_py.engine.provider_choice import choose, selection_notes
from ort_py.engine.recovery.retired_programs import RetiredPrograms, close_regions
from ort_py.engine.recovery.state import RecoveryState, expect_device
from ort_py.engine.replaced_values import report_negative_sizes
from ort_py.engine.run_callbacks import end_run, wants_runs
from ort_py.errors import KernelConflictError
from ort_py.execution.row_splitter import RowSplitter
from ort_py.execution.thread_count import ThreadCount, thread_count
from ort_py.execution.workspace import NO_WORKSPACE, Workspace
from ort_py.fallback.policy import FallbackPolicy, Strictness
from ort_py.fallback.report import FallbackLog
from ort_py.graph.ir import Model
from ort_py.graph.reading.collection import paused_collection
from ort_py.graph.reading.fingerprint import ContentHash
from ort_py.graph.weights.kept_bytes import KeptBytes
from ort_py.graph.weights.weight_store import process_store
from ort_py.hooks.manager import HookManager
from ort_py.kernels.binding import KernelServices
from ort_py.kernels.seeds import process_seed
from ort_py.memory.heap import give_back, keep_freed_memory
from ort_py.options import SessionOptions
from ort_py.profiling.chrome_trace import write_profile
from ort_py.profiling.recorder import Recorder

__all__ = ["Construction", "ProviderArgument", "construct"]

_logger = logging.getLogger("ort_py.session")

ProviderArgument = Sequence[str | tuple[str, Mapping[str, Any]]]


def construct(
    source: Any,
    options: SessionOptions,
    providers: ProviderArgument | None,
    provider_options: Sequence[Mapping[str, Any]] | None,
    *,
    session_id: str,
    fallback_enabled: bool,
) -> Construction:
    """Choose providers, create them, load the model and assemble it. What was made is released where a step fails.

    Raises:
        OrtPyError: The providers cannot be had, or the model is wrong.
    """
    catalog = default_catalog()
    strict = strictness(options.strict)
    selection = choose(
        providers, provider_options, options, source=source, strict=strict, fallback_enabled=fallback_enabled
    )
    construction = Construction(
        options, catalog.hooks, FallbackPolicy(Strictness(strict), enabled=fallback_enabled), session_id
    )
    try:
        construction.choose(selection)
        construction.place(source, explicit=not selection.automatic)
        with paused_collection():
            if not construction.restore(source):
                construction.load(source)
                construction.assemble()
        construction.settle_memory()
    except BaseException:
        construction.close()
        raise
    return construction


class Construction:
    """The parts of one session and how they are replaced and released.

    Attributes:
        hooks: Plug-ins' hooks.
        policy: Which failures may fall back.
        report: Seconds and notes of each stage.
        fallbacks: What did not go as asked.
        dropped: Providers left out after a failure in a run.
        retired: Programs that others have replaced.
        recovery: What is remembered of failures in runs.
        recorder: Profile, None where off.
        profiling_started_ns: When profiling started, in nanoseconds since 1970; 0 where it is off.
        threads: Threads of one run.
        participants: Which providers take part in the placement, and what is known of their times.
        names, records, provider_options: Provider names as asked for, the providers that were created, their options.
        assembled: The program and the decisions behind it; None before it is made and after closing.
        title: The model's file name, for messages.
        fingerprint: Hash of the model's content.
        contributions: What its providers and plug-ins bring.
        inputs, outputs, overridable, metadata: What the model declares.
        selection: How its providers were selected.
    """

    inputs: list[NodeArg]
    outputs: list[NodeArg]
    overridable: list[NodeArg]
    metadata: ModelMetadata
    selection: Selection

    def __init__(self, options: SessionOptions, hooks: HookManager, policy: FallbackPolicy, session_id: str) -> None:
        self._options = options
        self.hooks = hooks
        self.policy = policy
        self.report = LoadReport()
        self.fallbacks = FallbackLog(hooks, session_id)
        self.dropped: set[str] = set()
        self.threads: ThreadCount = thread_count(options.intra_op_num_threads)
        self.recorder: Recorder | None = Recorder() if options.enable_profiling else None
        self.profiling_started_ns = time.time_ns() if options.enable_profiling else 0
        self.names: list[str] = []
        self.records: list[ProviderRecord] = []
        self.provider_options: dict[str, dict[str, str]] = {}
        self.title = "model"
        self.fingerprint = ContentHash()
        self._instances: ProviderInstances | None = None
        self.assembled: Assembled | None = None
        self.retired = RetiredPrograms()
        self.recovery = RecoveryState(options)
        self._assembler: Assembler | None = None
        self._schemas = schemas_when_needed(hooks)
        self._cache = CacheUse(options, self.provider_options, hooks, session_id)
        self.participants = Participants(options, self._cache)
        self.contributions = Contributions()
        self._model: Model | None = None
        self._unusable: set[str] = set()

    @property
    def model(self) -> Model | None:
        """The model as it was optimised and partitioned; None before loading and after closing."""
        return self._model

    @property
    def kept(self) -> KeptBytes | None:
        """The model's bytes without its large constants; None where it came from a file, or has none."""
        return self._model.kept if self._model is not None else None

    @property
    def providers(self) -> list[IExecutionProvider]:
        """Providers in use, in rank order."""
        if not self.dropped:
            return self.participants.order(self.created)
        # Who was left out for speed is there again when another one fails.
        return [provider for provider in self.created if provider.name not in self.dropped]

    @property
    def created(self) -> list[IExecutionProvider]:
        """Providers that were made and can be used, those left out for speed or after failures too."""
        return [provider for _, provider in self._usable]

    @property
    def _usable(self) -> list[tuple[ProviderRecord, IExecutionProvider]]:
        return [pair for pair in self._instances or () if pair[1].name not in self._unusable]

    @property
    def has_run_callbacks(self) -> bool:
        """Whether a provider wants to hear of runs."""
        return any(wants_runs(provider) for provider in self.providers)

    def choose(self, selection: Selection) -> None:
        """Create the selected providers and take what they bring, and what plug-ins add to it."""
        context = self._context = session_context(self._options, self.threads.count)
        self.selection = selection
        for record in selection.fallbacks:
            self.fallbacks.note(record)
        with self.report.stage("providers") as notes:
            self._instances = create_instances(
                selection.selected, context, strict=self.policy.strictness.value, reserve=selection.reserve
            )
            selection = self.selection = selection.joined_by(self._instances.joined)
            for record in self._instances.fallbacks:
                self.fallbacks.note(record)
            for found, provider in self._instances:
                self._introduce(provider, found.origin)
            self.contributions.add_plugins(
                self.hooks,
                {provider.name for provider in self.providers},
                override_kernels=self._options.is_set("session.plugin_kernels_override"),
            )
            notes.extend([*selection_notes(selection), *precision_notes(self.providers, context.precision)])
            notes.extend(f"left out: {line}" for line in self.contributions.kernels.skipped)
            notes.extend(f"the session option {name} has no effect" for name in self._options.without_effect())
        self.records = [found for found, _ in self._usable]
        self.names = selection.names_of(self.records)
        self.provider_options |= selection.options_of(self.names)

    def _introduce(self, provider: IExecutionProvider, origin: str) -> None:
        try:
            expect_device(provider)
            self.contributions.introduce(provider, origin)
        except KernelConflictError:
            raise
        except Exception as error:  # a plug-in's code: whatever it raises must not take the session with it
            self._provider_failed(provider.name, error, "", "initialisation")
            self._unusable.add(provider.name)

    def place(self, source: Any, *, explicit: bool) -> None:
        """Look who takes part in the placement; see `Participants.decide`."""
        strict, threads = self.policy.strictness.value, self.threads.count
        reserve = {one.record.name: one for one in self.selection.reserve}
        self.participants.decide(
            source, self._usable, self.report, strict=strict, threads=threads, explicit=explicit, reserve=reserve
        )
        if not all(self._join(reserve[name]) for name in self.participants.names if name in reserve):
            self.participants.names = ()

    def _join(self, one: Selected) -> bool:
        """Create a provider that was measured to make this model faster; returns whether the session can use it."""
        assert self._instances is not None  # the providers are chosen
        provider = self._instances.join(one, self._context)
        if isinstance(provider, FallbackRecord):
            self.fallbacks.note(provider)
            return False
        self._introduce(provider, one.record.origin)
        self.selection = self.selection.joined_by([one])
        self.records = [found for found, _ in self._usable]
        return one.record.name not in self._unusable

    def restore(self, source: Any) -> bool:
        """Take the model from the cache and plan it; False where it has to be loaded."""
        wishes = (self.policy.strictness.value, self.threads.count, self.participants, sorted(self.selection.named))
        records = {provider.name: (record, provider) for record, provider in self._usable}
        in_use = [records[provider.name] for provider in self.providers]
        start = time.perf_counter_ns()
        before = len(self.report.stages)
        restored = self._cache.look(source, in_use, self.contributions, wishes, self.report)
        if restored is None:
            return False
        assembler = self._describe(restored.model)
        self._record("model_loading_uri" if restored.model.source else "model_loading_array", start)
        start = time.perf_counter_ns()
        try:
            self.assembled = assembler.plan_restored(restored.assignment, self.providers, self.report)
        except Exception as error:  # of a plug-in, maybe: preparing the model anew decides whether others take over
            _logger.info("the cached model is prepared anew: %s: %s", type(error).__name__, error)
            del self.report.stages[before:]
            return False
        self._record("session_initialization", start)
        check_completion(self.assembled.assignment, self.providers, self._options, self.policy.strictness)
        return True

    def load(self, source: Any) -> None:
        """Load the model and describe it."""
        from ort_py.engine.loading import load

        start = time.perf_counter_ns()
        model = load(source, self._options, self._schemas(), self.report)
        self._record("model_loading_uri" if model.source else "model_loading_array", start)
        self._describe(model)

    def _describe(self, model: Model) -> Assembler:
        """Take over a model that is loaded or restored."""
        self._model = model
        graph = model.graph
        self.title = Path(model.source).name if model.source else graph.name or "model"
        self.fingerprint = model.fingerprint
        self.metadata = metadata_of(model)
        self.inputs = [node_arg(value) for value in graph.inputs]
        declared = model.declared_outputs
        self.outputs = [node_arg(value, said) for value, said in zip(graph.outputs, declared, strict=True)]
        self.overridable = [node_arg(value) for value in graph.initializers.values() if value.overridable]
        report_negative_sizes([*self.inputs, *self.outputs], self._options.additions().dimensions)
        if self._options.enable_cpu_mem_arena:
            keep_freed_memory()
        services = KernelServices(self._options.limits, RowSplitter(self.threads.count), process_seed())
        self.recovery.planning_for(self.providers)
        self._assembler = Assembler(
            model,
            options=self._options,
            schemas=self._schemas,
            services=services,
            contributions=self.contributions,
            on_provider_error=self._provider_failed,
            compile_region=self._cache.compiler.compile,
            threads=self.threads.count,
            calibration=self.participants.calibration,
            explicit=self.participants.explicit,
            named=self.selection.named,
            on_declined=self._cache.compiler.tell_declined,
        )
        return self._assembler

    def assemble(self) -> None:
        """Optimise, partition, compile and plan."""
        assert self._assembler is not None
        start = time.perf_counter_ns()
        self._assembler.optimise(self.providers, self.report)
        self.assembled = self._assembler.assemble(self.providers, self.report)
        self._assembler.write_optimised()
        self._record("session_initialization", start)
        check_completion(self.assembled.assignment, self.providers, self._options, self.policy.strictness)
        self._cache.keep(self._assembler.model, self.assembled.assignment, self.report)

    def plan_again(self, left_out: Collection[str]) -> Assembled:
        """A program without some of the providers; nothing of the session changes yet.

        Raises:
            OrtPyError: The others cannot run the model.
        """
        assert self._assembler is not None
        self._cache.settle()  # planning again may change the graph
        created = self.created if left_out else self.participants.order(self.created)
        remaining = [one for one in created if one.name not in left_out]
        self.recovery.planning_for(remaining)
        return self._assembler.assemble(remaining, LoadReport())  # the session's own tells how it was loaded

    def end_run(self, started_ns: int) -> None:
        """Record the run, and tell providers that it ended."""
        self._record("model_run", started_ns)
        end_run(self.providers)

    def end_profiling(self, facts: Mapping[str, str]) -> str:
        """Write the profile, and some facts, next to its prefix; returns the path, also where it cannot be written."""
        recorder, self.recorder = self.recorder, None
        if recorder is None:
            return ""
        return write_profile(recorder, os.fsdecode(self._options.profile_file_prefix), facts)

    def memory_report(self, workspace: Workspace = NO_WORKSPACE) -> MemoryReport:
        """Bytes of constants and what was made of them, and what runs need."""
        constants = self.assembled.constants if self.assembled is not None else None
        limit = self._options.limits.total_memory_bytes
        return memory_report(self._model, constants, workspace, self.contributions.allocator_stats(), limit)

    def settle_memory(self) -> None:
        """Give back what making the session took beside what it keeps, and check that against its limit.

        Raises:
            MemoryLimitError: It keeps more than it may.
        """
        settle_memory(self.memory_report(), self._model)

    @property
    def packed_bytes(self) -> int:
        """Bytes of what kernels made of constants, on all devices."""
        return sum(self.assembled.constants.packed_bytes().values()) if self.assembled is not None else 0

    def trim(self) -> None:
        """Let allocators give unused memory back, and forget what can be read from its file again."""
        self.contributions.trim()
        process_store().trim()
        give_back()

    def close(self) -> None:
        """Release everything, in the reverse order of its making."""
        for provider in self._instances.providers if self._instances is not None else ():
            quietly(f"synchronize() of {provider.name}", provider.synchronize)
        self.retired.close()
        if self.assembled is not None:
            close_regions(self.assembled)
        # Programs hold the constants; without them and the graph the weights go with the last session that uses them.
        self.assembled, self._assembler, self._model = None, None, None
        self.contributions.close()
        if self._instances is not None:
            self._instances.close()

    def _provider_failed(self, provider: str, error: Exception, node: str, kind: FallbackKind = "assignment") -> None:
        """A provider failed while it was introduced, asked or compiling: others take over where they may."""
        self._cache.failed = True
        others = [other.name for other in self.providers if other.name != provider]
        if not others or not self.policy.may_replace(error):
            raise provider_failure(provider, error, node, alone=not others) from error
        self.fallbacks.note(FallbackRecord(kind, provider, f"{type(error).__name__}: {error}", node, others[0]))

    def _record(self, name: str, start_ns: int) -> None:
        if self.recorder is not None:
            self.recorder.record("Session", name, start_ns, time.perf_counter_ns())
