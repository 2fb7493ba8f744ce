"""InferenceSession: what a user holds. Construction makes it, a runner runs it; here are the questions and the life."""

from __future__ import annotations

import logging
import os
import sys
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from ort_py.api.detached_runs import DetachedRuns
from ort_py.api.graph_assignment import OrtEpAssignedSubgraph, assignment_info
from ort_py.api.placement import Placement, placement_of
from ort_py.api.program_changes import settle
from ort_py.api.provider_changes import check_dynamic_options, check_tuning_results, input_devices, rebuild
from ort_py.api.recovery import before_run, recover, succeeded
from ort_py.api.reopening import Recipe, Reopenable, recipe_of
from ort_py.api.service_methods import ServiceMethods
from ort_py.api.session_arguments import fallback_enabled, lanes_of, session_options
from ort_py.api.split_runs import in_fitting_parts
from ort_py.api.streams import ThreadedRuns
from ort_py.api.value_runs import ValueRuns
from ort_py.api.verification.methods import VerificationMethods
from ort_py.discovery.ep_devices import OrtEpDevice
from ort_py.engine.assembly import Assembled
from ort_py.engine.construction import Construction, ProviderArgument, construct
from ort_py.engine.memory_report import MemoryReport
from ort_py.engine.metadata import ModelMetadata, NodeArg
from ort_py.engine.recovery.state import fallback_report, session_state
from ort_py.engine.run_arguments import check_run_options
from ort_py.engine.run_callbacks import begin_run
from ort_py.engine.runner import Runner
from ort_py.execution.frame import session_closed
from ort_py.execution.run_queue import RunQueue
from ort_py.execution.watch import RunWatch
from ort_py.execution.workspace import NO_WORKSPACE
from ort_py.fallback.report import FallbackReport
from ort_py.fallback.states import SessionState
from ort_py.hooks import RunEvent, SessionEvent
from ort_py.hooks.process_lock import ProcessLock
from ort_py.options import RunOptions, SessionOptions
from ort_py.printable import escape_in_logs

__all__ = ["InferenceSession"]

_logger = logging.getLogger("ort_py.session")
escape_in_logs()


class InferenceSession(ValueRuns, DetachedRuns, ThreadedRuns, ServiceMethods, VerificationMethods, Reopenable):
    """A model ready to run.

    Args:
        path_or_bytes: Path of a model, its bytes, or an ``onnx.ModelProto``.
        sess_options: Options; copied.
        providers: Names, or (name, options) pairs, in order of preference; None for every usable provider by rank.
        provider_options: One mapping a provider, where `providers` has names only.
        **kwargs: onnxruntime's: `enable_fallback`, 0 to raise what a provider fails with, `disabled_optimizers`,
            names of graph transforms not to run, and `read_config_from_model`, 1 to take settings from the model's
            metadata. Others are ignored with a warning.

    Raises:
        OrtPyError: The model is wrong, or no provider can run it; says what, where, why and what to do.

    Sessions may be used by many threads at once, also in a forked child, and as context managers. They pickle as what
    they were made of (`ort_py.api.reopening`).
    """

    _placement: Placement

    def __init__(
        self,
        path_or_bytes: str | os.PathLike[str] | bytes | Any,
        sess_options: SessionOptions | None = None,
        providers: ProviderArgument | None = None,
        provider_options: Sequence[Mapping[str, Any]] | None = None,
        **kwargs: Any,
    ) -> None:
        others = set(vars(self))
        self._options = session_options(path_or_bytes, sess_options, kwargs)
        self._id = uuid.uuid4().hex[:12]
        self._recipe: Recipe = recipe_of(path_or_bytes, self._options, providers, provider_options)
        self._lock = ProcessLock()
        self._closed = False
        self._runner: Runner | None = None
        self._leaving: Runner | None = None  # while `close` waits for its runs
        self._built: Construction = construct(
            path_or_bytes,
            self._options,
            providers,
            provider_options,
            session_id=self._id,
            fallback_enabled=fallback_enabled(kwargs),
        )
        self._recipe = self._recipe.condensed(self._built.kept)
        self._queue = RunQueue(self._built.threads.count)
        self._fingerprint = None
        self._install()
        self._own_attributes = set(vars(self)) - others | {"_own_attributes"}
        self._log_fingerprint()
        self._built.hooks.observe("ort_py_session_created", self._event())

    # -- running -----------------------------------------------------------------------------------------------

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: RunOptions | None = None,
    ) -> list[Any]:
        """Run the model.

        Args:
            output_names: Names of the outputs wanted, in order; None or empty for all.
            input_feed: A value for each input: array, nested list, `OrtValue`, or anything with ``__array__`` or
                ``__dlpack__``. Never written to.
            run_options: Options of this run.

        Returns:
            One value an output: fresh, writable, C-contiguous arrays; lists for sequences, dicts for maps, None for
            empty optionals.

        Raises:
            MissingInputError: A required input was not fed.
            ArgumentTypeError: The feed, the names or the options are of a wrong type; a builtin TypeError too.
            InvalidArgument: An unknown name, or a feed of the wrong dtype, rank or size.
            KernelInputError: A node refused what reached it.
            OrtPyError: A node failed.
        """
        runner = self._runner
        if runner is None:
            raise session_closed()
        try:
            if self._observed or run_options is not None:
                return self._run_observed(runner, output_names, input_feed, run_options)
            return runner.run(output_names, input_feed)
        except Exception as error:  # decided there: some failures are answered, all others raised again
            return recover(self, runner, error, output_names, input_feed, run_options)

    def _run_observed(
        self,
        runner: Runner,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: RunOptions | None,
    ) -> list[Any]:
        """`run` with everything that may look on: providers' callbacks, limits, cancellation, profile, hooks."""
        check_run_options(run_options)
        watched = self._built.recovery.watching
        if watched:
            runner = before_run(self, runner)
        if run_options is not None and self._built.recovery.fitting:
            parts = in_fitting_parts(self, runner, output_names, input_feed, run_options)
            if parts is not None:
                return parts
        shrinks = run_options is not None and run_options.shrinks_memory()
        watch = RunWatch(
            terminate=None if run_options is None else lambda: bool(run_options.terminate),
            seconds=self._options.limits.run_seconds,
            memory_bytes=self._options.limits.total_memory_bytes,
            held_bytes=self._built.packed_bytes,
            recorder=self._built.recorder,
        )
        start, started_ns = time.perf_counter(), time.perf_counter_ns()
        failure: BaseException | None = None
        try:
            begin_run(self._built.providers)
            if run_options is not None:
                input_feed = run_options.with_adapters(input_feed)
            results = runner.run(output_names, input_feed, None if watch.idle else watch.begin)
            if shrinks:
                runner.pool.trim()
            if watched:
                succeeded(self, runner)
            return results
        except BaseException as error:
            failure = error
            raise
        finally:
            self._built.end_run(started_ns)
            if self._run_hooked:
                self._built.hooks.observe(
                    "ort_py_run_finished", RunEvent(self._id, time.perf_counter() - start, failure)
                )
            failure = None  # it refers to this call, and would keep the run's arrays until cycles are collected

    # -- what it is --------------------------------------------------------------------------------------------

    def get_inputs(self) -> list[NodeArg]:
        """Inputs that must be fed, the same list object every time."""
        return self._built.inputs

    def get_outputs(self) -> list[NodeArg]:
        """Outputs, the same list object every time."""
        return self._built.outputs

    def get_overridable_initializers(self) -> list[NodeArg]:
        """Initializers that may be fed."""
        return self._built.overridable

    def get_modelmeta(self) -> ModelMetadata:
        """What the model's file says about itself."""
        return self._built.metadata

    def get_session_options(self) -> SessionOptions:
        """A copy of the session's options."""
        return self._options.copied()

    def get_providers(self) -> list[str]:
        """Provider names as asked for, in order; `placement` shows who runs what."""
        return list(self._built.names)

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        """Options of each provider, as strings."""
        return {name: dict(options) for name, options in self._built.provider_options.items()}

    @property
    def placement(self) -> Placement:
        """Who runs each node and why, and who refused it."""
        return self._placement

    @property
    def plan(self) -> str:
        """The execution plan as text.

        Raises:
            InvalidArgument: The session is closed.
        """
        return str(self._assembled().program.plan)

    @property
    def fallback_report(self) -> FallbackReport:
        """Every event in which something did not run where, or as, it was asked to: `FallbackRecord`s in order."""
        return fallback_report(self._built)

    @property
    def state(self) -> SessionState:
        """Ready, recovering, degraded, failed or closed; see `SessionState`."""
        return SessionState.CLOSED if self._closed else session_state(self._built)

    def memory_report(self) -> MemoryReport:
        """Bytes of the model's constants, of what kernels made of them and of runs, by device."""
        return self._built.memory_report(NO_WORKSPACE if self._runner is None else self._runner.pool.workspace())

    def trim(self) -> None:
        """Give back what is kept only for speed: idle frames, providers' unused memory, and copies of constants that no
        plan holds and that can be read from their files again."""
        if self._runner is not None:
            self._runner.pool.trim()
        self._built.trim()

    def end_profiling(self) -> str:
        """Write the profile and stop profiling; returns the file's name, ``""`` where there is nothing to write."""
        path = self._built.end_profiling(self._profile_facts())
        self._observe()
        return path

    def get_profiling_start_time_ns(self) -> int:
        """When profiling started, in nanoseconds since 1970 as in onnxruntime; 0 where it is off."""
        return self._built.profiling_started_ns

    def get_input_epdevices(self) -> list[OrtEpDevice]:
        """The device each input is fed to: the host's, whose copies to other devices are steps of the plan."""
        return input_devices(len(self._built.inputs))

    def get_provider_graph_assignment_info(self) -> list[OrtEpAssignedSubgraph]:
        """Which provider got which nodes; see `ort_py.api.graph_assignment`, and `placement` for more.

        Raises:
            Fail: ``session.record_ep_graph_assignment_info`` was not set to ``"1"``.
        """
        return assignment_info(self._options, self._placement)

    def set_providers(
        self,
        providers: ProviderArgument | None = None,
        provider_options: Sequence[Mapping[str, Any]] | None = None,
    ) -> None:
        """Make the session anew with other providers, given as for a new one; where that fails, it stays as it was.

        Raises:
            InvalidArgument: The session is closed, or was made from bytes that it did not keep.
            OrtPyError: As for a new session.
        """
        rebuild(self, providers, provider_options)

    def set_ep_dynamic_options(self, options: Mapping[str, str]) -> None:
        """Tell the providers about options that may change between runs; those no provider knows are ignored.

        Raises:
            TypeError: It is no mapping.
            UsageError: It is empty; a builtin RuntimeError too.
        """
        check_dynamic_options(options)

    def get_tuning_results(self) -> list[dict[str, Any]]:
        """What providers have found out about their kernels' speed: none tells of it yet."""
        return []

    def set_tuning_results(self, results: Sequence[Mapping[str, Any]], *, error_on_invalid: bool = False) -> None:
        """Give providers what another session's `get_tuning_results` returned; foreign results are ignored.

        Raises:
            TypeError, KeyError: `results` is no list of such results.
            UsageError: One is of no provider here, and `error_on_invalid` is set; a builtin RuntimeError too.
        """
        check_tuning_results(results, error_on_invalid=error_on_invalid)

    def release_captured_graph(self, graph_annotation_id: int = 0) -> None:
        """Accepted for compatibility: no run is captured, so there is nothing to release."""

    def disable_fallback(self) -> None:
        """Let failures of a provider be raised instead of answered by another provider."""
        self._built.policy.enabled = False

    def enable_fallback(self) -> None:
        """Undo `disable_fallback`."""
        self._built.policy.enabled = True

    # -- life --------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Release frames, regions, weights and providers, after the runs under way in other threads have ended.

        Calling it again does nothing.
        """
        self._close_verification()
        with self._lock.held():
            self._leaving, self._runner = self._runner or self._leaving, None
            leaving = self._leaving
        if leaving is not None:
            leaving.pool.close()
            leaving.pool.wait()  # where this is interrupted, closing again goes on from here
            settle(self._built)
        with self._lock.held():
            if self._closed:
                return
            self._closed, self._leaving = True, None
        self._queue.close()
        self._built.hooks.observe("ort_py_session_closed", self._event())
        self._built.end_profiling(self._profile_facts())
        self._placement.detach()  # records are made now at the latest: it outlives the graph
        self._built.close()

    def __del__(self) -> None:
        # Dropped without `close`. At interpreter exit nothing is left to do, and this module's names may be gone.
        if sys is not None and not sys.is_finalizing() and hasattr(self, "_built"):
            if not hasattr(self, "_own_attributes"):  # interrupted while it was made: no hook has heard of it
                self._built.close()
                return
            if hasattr(self, "_placement"):
                self._placement = self._placement.counted()  # no records for nobody
            self.close()

    def __enter__(self) -> InferenceSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        if self._closed:
            return f"<InferenceSession {self._built.title}: closed>"
        counts = ", ".join(f"{name}: {count}" for name, count in self._placement.counts().items())
        return f"<InferenceSession {self._built.title}: nodes by provider {counts or 'none'}>"

    def _assembled(self) -> Assembled:
        if self._built.assembled is None:
            raise session_closed()
        return self._built.assembled

    def _install(self, runner: Runner | None = None) -> None:
        """Take over a construction: what `run` and the reports need; with the runner of its program, where one is."""
        assembled = self._assembled()
        lanes = lanes_of(self._options, self._built.threads.count)
        self._runner = runner or self._new_runner(assembled.program, lanes)
        self._placement = placement_of(assembled.assignment, {p.name: str(p.device) for p in self._built.providers})
        self._observe()

    def _observe(self) -> None:
        limits = self._options.limits
        self._run_hooked = self._built.hooks.has_observers("ort_py_run_finished")
        self._observed = (
            self._run_hooked
            or self._built.recorder is not None
            or limits.run_seconds is not None
            or limits.total_memory_bytes is not None
            or self._built.has_run_callbacks
            or self._built.recovery.watching
        )

    def _event(self) -> SessionEvent:
        built = self._built
        return SessionEvent(self._id, built.title, tuple(built.names), self._placement.counts(), built.report.seconds)
