"""The engine: one model on the providers that were chosen for it, ready to run.

An engine is built once, in the order of the methods below: providers are created, the model is restored from the cache
or else loaded and assembled, and its program gets a runner. From then on only `recovery` exchanges the program. A
session that changes its providers builds another engine, and the former one hands late runs on to its `successor`.

`runs` runs an engine and `opening` opens one for a session. Nothing here knows sessions, hooks of their life excepted.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from ort_py.collection import paused_collection
from ort_py.contracts import RegionNotReady
from ort_py.discovery import Selection, default_catalog, strictness
from ort_py.engine.assembly import Assembled, Assembler
from ort_py.engine.cache_use import CacheUse, session_context
from ort_py.engine.contributions import schemas_when_needed
from ort_py.engine.load_report import LoadReport
from ort_py.engine.memory_report import MemoryReport, memory_report, settle_memory
from ort_py.engine.metadata import ModelDescription, describe
from ort_py.engine.participants import Participants
from ort_py.engine.provider_choice import check_completion, choose
from ort_py.engine.provider_set import ProviderSet
from ort_py.engine.recipe import Recipe
from ort_py.engine.recovery.retired_programs import RetiredPrograms, close_regions
from ort_py.engine.recovery.state import RecoveryState
from ort_py.engine.run_callbacks import end_run
from ort_py.engine.runner import Runner
from ort_py.enums import ExecutionMode
from ort_py.execution.frame import session_closed
from ort_py.execution.program import Program
from ort_py.execution.row_splitter import RowSplitter
from ort_py.execution.workspace import NO_WORKSPACE
from ort_py.fallback.lost_devices import process_lost_devices
from ort_py.fallback.policy import FallbackPolicy, SessionState, Strictness
from ort_py.fallback.report import FallbackLog, FallbackReport
from ort_py.files import FileIdentity
from ort_py.graph.ir import Model
from ort_py.graph.reading.given_model import GivenModel
from ort_py.graph.weights.weight_store import process_store
from ort_py.kernels.seeds import process_seed
from ort_py.kernels.services import KernelServices
from ort_py.logs import lazy_logger
from ort_py.options import additions_of, entry_of
from ort_py.platform.forks import ProcessLock
from ort_py.platform.heap import give_back, keep_freed_memory
from ort_py.platform.memory_pressure import MemoryPressure, pressure_of_process
from ort_py.platform.processors import ThreadCount, thread_count

if TYPE_CHECKING:
    from ort_py.cache.store import CacheStore
    from ort_py.profiling.recorder import Recorder

_logger = lazy_logger("ort_py.session")

TRIM_KEY = "session.trim_when_memory_is_short"
"""Config entry: ``"0"`` leaves the session alone when the memory of its control group runs short."""

MakeRunner: TypeAlias = "Callable[[Engine, Program, int, MemoryPressure | None], Runner]"
"""Makes the runner of an engine's program. The number is that of the steps that may run at a time."""


class Engine:
    """One model with its providers, its program and everything that is released with them.

    Args:
        source: The model: a path, bytes or a message.
        recipe: The arguments that the engine is made with; its options are the engine's.
        session_id: Identifier of the session, for hooks and records.
        make_runner: Makes the runner of each program; plain runners where None.
        store: The folder of the cache; None for the one that the options name.

    Attributes:
        id: As `session_id`.
        options: The session's own options.
        recipe: The recipe for making the engine again.
        hooks: The plug-ins' hooks.
        policy: Decides which failures another provider may answer.
        report: Seconds and notes of each stage of building.
        fallbacks: Records of what did not go as asked.
        threads: Threads of one run.
        providers: The providers.
        description: The model's description of itself.
        assembled: The present program and the decisions behind it; None once the engine is released.
        runner: Runs the present program; None once the engine admits no more runs.
        observed: Whether runs take the way of `runs.run_observed`, because something looks on.
        run_hooked: Whether a plug-in hears of each run.
        lock: Held to exchange programs.
        recovery: The memory of failures in runs.
        retired: Programs that others have replaced and that still run.
        recorder: The profile, None where there is none.
        profiling_started_ns: When profiling started, in nanoseconds since 1970; 0 where it is off.
        successor: The engine that took this one's place, None while there is none.
        closed: Whether the engine was stopped for good.
        cache: The engine's use of the cache.

    Raises:
        OrtPyError: The providers cannot be had, or the model is wrong. What was made by then is released.
    """

    description: ModelDescription

    def __init__(
        self,
        source: GivenModel,
        recipe: Recipe,
        session_id: str,
        make_runner: MakeRunner | None = None,
        store: CacheStore | None = None,
    ) -> None:
        options = self.options = recipe.options
        self.id = session_id
        self.recipe = recipe
        self.hooks = default_catalog().hooks
        self.policy = FallbackPolicy(Strictness(strictness(options.strict)), enabled=recipe.fallback_enabled)
        self.report = LoadReport()
        self.fallbacks = FallbackLog(self.hooks, session_id)
        self.threads: ThreadCount = thread_count(options.intra_op_num_threads)
        self.recorder: Recorder | None = None
        self.profiling_started_ns = 0
        if options.enable_profiling:
            from ort_py.profiling.recorder import Recorder

            self.recorder, self.profiling_started_ns = Recorder(), time.time_ns()
        self.assembled: Assembled | None = None
        self.runner: Runner | None = None
        self.observed = self.run_hooked = False
        self.lock = ProcessLock()
        self.recovery = RecoveryState(options)
        self.retired = RetiredPrograms()
        self.successor: Engine | None = None
        self.closed = False
        provider_options: dict[str, dict[str, str]] = {}
        self.cache = CacheUse(source, options, provider_options, self.hooks, session_id, store)
        self.providers = ProviderSet(
            options, self.hooks, self.policy, self.fallbacks, Participants(options, self.cache), provider_options
        )
        self._schemas = schemas_when_needed(self.hooks)
        self._make_runner = make_runner
        self._model: Model | None = None
        self._assembler: Assembler | None = None
        self._leaving: Runner | None = None  # while `stop` waits for its runs
        try:
            self._build(source)
        except BaseException:
            self.release()
            raise

    # -- building ----------------------------------------------------------------------------------------------

    def _build(self, source: GivenModel) -> None:
        if self.options.enable_cpu_mem_arena:
            keep_freed_memory()
        with paused_collection():
            selection = self._select(source)
            self.providers.create(selection, session_context(self.options, self.threads.count), self.report)
            self.providers.order_for(source, self.report, threads=self.threads.count, explicit=not selection.automatic)
            model, assembled = self._restore(source) or self._assemble(self.cache.original(source))
        self.recipe = self.recipe.condensed(model.kept)
        settle_memory(self.memory_report(), model)
        self.install(assembled)

    def _select(self, source: GivenModel) -> Selection:
        return choose(
            self.recipe.providers,
            self.recipe.provider_options,
            self.options,
            source=source,
            strict=self.policy.strictness.value,
            fallback_enabled=self.recipe.fallback_enabled,
        )

    def _restore(self, source: GivenModel) -> tuple[Model, Assembled] | None:
        """Take the model from the cache and plan it; None where it has to be loaded, and then nothing has changed."""
        providers = self.providers
        names = sorted(providers.selection.named)
        wishes = (self.policy.strictness.value, self.threads.count, providers.participants, names)
        attempt = LoadReport()
        start = time.perf_counter_ns()
        restored = self.cache.restore(source, providers.pairs_in_use, providers.contributions, wishes, attempt)
        loaded = time.perf_counter_ns()
        if restored is None:
            self.report.stages += attempt.stages
            return None
        assembler = self._assembler_of(restored.model)
        try:
            assembled = assembler.plan_restored(restored.assignment, providers.in_use, attempt, restored.forms)
        # The error may come from a plug-in; preparing the model again decides whether others take over.
        except Exception as error:
            self.cache.expect_original(error)
            _logger.info("the cached model cannot be used and is prepared again: %s: %s", type(error).__name__, error)
            return None
        self.report.stages += attempt.stages
        self._take_over(restored.model, assembler)
        self._record(_loading_event(restored.model), start, loaded)
        self._record("session_initialization", loaded)
        self._adopt(assembled)
        return restored.model, assembled

    def _assemble(self, source: GivenModel) -> tuple[Model, Assembled]:
        """Load the model, optimise, partition, compile and plan it."""
        from ort_py.engine.loading import load

        start = time.perf_counter_ns()
        model = load(source, self.options, self._schemas(), self.report)
        loaded = time.perf_counter_ns()
        assembler = self._assembler_of(model)
        self._take_over(model, assembler)
        assembler.optimise(self.providers.in_use, self.report)
        assembled = self.assembled = assembler.assemble(self.providers.in_use, self.report)
        assembler.write_optimised()
        self._record(_loading_event(model), start, loaded)
        self._record("session_initialization", loaded)
        self._adopt(assembled)
        if not self.providers.failed:  # a failure may not happen again, so what others made of it is not kept
            self.cache.keep(model, assembled.assignment, self.report)
        return model, assembled

    def _assembler_of(self, model: Model) -> Assembler:
        providers, compiler = self.providers, self.cache.compiler
        self.recovery.planning_for(providers.in_use)
        return Assembler(
            model=model,
            options=self.options,
            schemas=self._schemas,
            services=KernelServices(
                self.options.limits,
                RowSplitter(self.threads.count),
                process_seed(),
                timed=self.options.limits.run_seconds is not None,
            ),
            contributions=providers.contributions,
            on_provider_error=self._note_failure,
            compile_region=compiler.compile,
            threads=self.threads.count,
            calibration=providers.participants.calibration,
            explicit=providers.participants.explicit,
            named=providers.selection.named,
            on_declined=compiler.tell_declined,
        )

    def _note_failure(self, provider: str, error: Exception, node: str = "") -> None:
        """Go on without a provider that failed; if it is only not ready yet, until it is.

        Raises:
            OrtPyError: No other provider may take over.
        """
        self.providers.note_failure(provider, error, node)
        if isinstance(error, RegionNotReady):
            self.providers.dropped.add(provider)
            self.recovery.awaited.add(provider, error)

    def _take_over(self, model: Model, assembler: Assembler) -> None:
        self._model, self._assembler = model, assembler
        self.description = describe(model, additions_of(self.options).dimensions)

    def _adopt(self, assembled: Assembled) -> None:
        self.assembled = assembled
        check_completion(assembled.assignment, self.providers.in_use, self.options, self.policy.strictness)

    def _record(self, name: str, start_ns: int, end_ns: int = 0) -> None:
        if self.recorder is not None:
            self.recorder.record("Session", name, start_ns, end_ns or time.perf_counter_ns())

    # -- the program -------------------------------------------------------------------------------------------

    @property
    def model(self) -> Model | None:
        """The model as it was optimised and partitioned; None once the engine is released."""
        return self._model

    @property
    def external_files(self) -> Sequence[tuple[str, FileIdentity]]:
        """Path and identity of each file of external data that was read."""
        return () if self._model is None else self._model.external_files

    def program(self) -> Assembled:
        """The present program and the decisions behind it.

        Raises:
            InvalidArgument: The engine is released.
        """
        if self.assembled is None:
            raise session_closed()
        return self.assembled

    def plan_again(self, left_out: Collection[str]) -> Assembled:
        """Plan a program without some of the providers. Nothing uses it yet.

        Raises:
            OrtPyError: The others cannot run the model.
        """
        assert self._assembler is not None  # the engine is built
        self.cache.settle()  # planning again may change the graph
        providers = self.providers
        created = providers.created if left_out else providers.participants.order(providers.created)
        remaining = [one for one in created if one.name not in left_out]
        self.recovery.planning_for(remaining)
        return self._assembler.assemble(remaining, LoadReport())  # the engine's own report is about its building

    def install(self, assembled: Assembled, runner: Runner | None = None) -> Runner:
        """Let runs use a program from now on.

        Args:
            assembled: The program.
            runner: Its runner, where it has one already.
        """
        if runner is None:
            program, lanes, pressure = assembled.program, self._lanes(), self._pressure()
            if self._make_runner is None:
                runner = Runner(program, lanes, pressure)
            else:
                runner = self._make_runner(self, program, lanes, pressure)
        self.assembled, self.runner = assembled, runner
        self.observe()
        return runner

    def observe(self) -> None:
        """Find out whether anything looks on at runs; called where that may have changed."""
        limits = self.options.limits
        self.run_hooked = self.hooks.has_observers("ort_py_run_finished")
        self.observed = (
            self.run_hooked
            or self.recorder is not None
            or limits.run_seconds is not None
            or limits.total_memory_bytes is not None
            or self.providers.have_run_callbacks
            or self.recovery.watching
        )

    def _lanes(self) -> int:
        """Steps of a run that may run at the same time."""
        options, threads = self.options, self.threads.count
        if options.execution_mode != ExecutionMode.ORT_PARALLEL:
            return 1
        return min(threads, options.inter_op_num_threads) if options.inter_op_num_threads > 0 else threads

    def _pressure(self) -> MemoryPressure | None:
        """The watcher that trims this engine when memory is short. None if nothing limits memory."""
        if entry_of(self.options, TRIM_KEY, "1") == "0":
            return None
        pressure = pressure_of_process()
        if pressure is not None:
            pressure.join(self)
        return pressure

    # -- reports -----------------------------------------------------------------------------------------------

    @property
    def state(self) -> SessionState:
        """Ready, recovering, degraded, failed or closed; see `SessionState`."""
        if self.closed:
            return SessionState.CLOSED
        return self.recovery.session_state(left_out=bool(self.providers.dropped))

    @property
    def fallback_report(self) -> FallbackReport:
        """Everything that did not run where, or as, it was asked to."""
        names = {provider.name for provider in self.providers.created}
        devices = [one for one in process_lost_devices().seen() if one.name.partition(" on ")[0] in names]
        return FallbackReport(self.fallbacks.records, (*self.recovery.circuits.seen(), *devices))

    def memory_report(self) -> MemoryReport:
        """Bytes of constants, of what was made of them, and of runs, by device."""
        constants = self.assembled.constants if self.assembled is not None else None
        workspace = NO_WORKSPACE if self.runner is None else self.runner.pool.workspace()
        limit = self.options.limits.total_memory_bytes
        stats = self.providers.contributions.allocator_stats()
        return memory_report(self._model, constants, workspace, stats, limit)

    @property
    def packed_bytes(self) -> int:
        """Bytes of what kernels made of constants, on all devices."""
        return sum(self.assembled.constants.packed_bytes().values()) if self.assembled is not None else 0

    def end_run(self, started_ns: int) -> None:
        """Record a run in the profile, and tell the providers that it ended.

        Args:
            started_ns: When it started, by `time.perf_counter_ns`.
        """
        self._record("model_run", started_ns)
        end_run(self.providers.in_use)

    def end_profiling(self, facts: Mapping[str, str]) -> str:
        """Write the profile and stop profiling.

        Args:
            facts: Written with it, by name.

        Returns:
            The file's path, also where it could not be written; ``""`` if there is no profile.
        """
        recorder, self.recorder = self.recorder, None
        if recorder is None:
            return ""
        from ort_py.profiling.chrome_trace import write_profile

        return write_profile(recorder, os.fsdecode(self.options.profile_file_prefix), facts)

    # -- releasing ---------------------------------------------------------------------------------------------

    def trim(self) -> None:
        """Give back what is kept only for speed: idle frames, unused memory of allocators, and copies of constants
        that no plan holds and that can be read from their files again."""
        if self.runner is not None:
            self.runner.pool.trim()
        self.providers.contributions.trim()
        process_store().trim()
        give_back()

    def refuse_runs(self) -> None:
        """Admit no more runs; those under way go on."""
        with self.lock.held():
            self._leaving, self.runner = self.runner or self._leaving, None

    def stop(self) -> bool:
        """Admit no more runs, and wait for those under way in other threads.

        Returns:
            Whether the caller is the one to `release` the engine; False where another call stopped it before.
        """
        self.refuse_runs()
        leaving = self._leaving
        if leaving is not None:
            leaving.pool.close()
            leaving.pool.wait()  # where this is interrupted, stopping again goes on from here
            self._settle()
        with self.lock.held():
            if self.closed:
                return False
            self.closed, self._leaving = True, None
            return True

    def close(self) -> None:
        """Stop and release the engine. Calling it again does nothing."""
        if self.stop():
            self.release()

    def release(self) -> None:
        """Release everything, in the reverse order of its making. No run may be under way."""
        self.cache.keep_forms()
        self.providers.synchronize()
        self.retired.close()
        self.recovery.awaited.clear()  # the questions hold what providers have made
        if self.assembled is not None:
            close_regions(self.assembled)
        # Programs hold the constants. Without them and the graph, weights go with the last engine that uses them.
        self.assembled, self._assembler, self._model = None, None, None
        self.recipe = self.recipe.closed()
        self.providers.close()
        if sys.platform == "win32":  # it keeps files that are mapped, here by graphs, which are cycles
            gc.collect()

    def _settle(self) -> None:
        """Wait for runs in programs that were replaced: nothing may be released before."""
        unproven, self.recovery.unproven = self.recovery.unproven, None
        if unproven is not None:
            self.retired.add(unproven.assembled, unproven.runner.pool)
        self.retired.wait()


def _loading_event(model: Model) -> str:
    """The name that onnxruntime's profiles have for loading a model."""
    return "model_loading_uri" if model.source else "model_loading_array"
