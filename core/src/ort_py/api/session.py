"""InferenceSession: what a user holds. Construction makes it, a runner runs it; here are the questions and the life."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

from ort_py.api.assembly import Assembled
from ort_py.api.construction import Construction, ProviderArgument, construct
from ort_py.api.metadata import ModelMetadata, NodeArg
from ort_py.api.options import RunOptions, SessionOptions
from ort_py.api.placement import Placement, placement_of
from ort_py.api.reports import LoadReport, MemoryReport
from ort_py.api.runner import Runner
from ort_py.errors import OrtPyError
from ort_py.execution.frame import session_closed
from ort_py.execution.thread_count import ThreadCount
from ort_py.execution.watch import RunWatch
from ort_py.hooks import RunEvent, SessionEvent

__all__ = ["InferenceSession"]

_logger = logging.getLogger("ort_py.session")


class InferenceSession:
    """A model ready to run.

    Args:
        path_or_bytes: Path of a model, its bytes, or an ``onnx.ModelProto``.
        sess_options: Options; copied.
        providers: Names, or (name, options) pairs, in order of preference; None for every usable provider by rank.
        provider_options: One mapping a provider, where `providers` has names only.
        **kwargs: onnxruntime's: `enable_fallback`, 0 to raise what a provider fails with, and `disabled_optimizers`,
            names of graph transforms not to run. Others are accepted and have no effect, as there.

    Raises:
        OrtPyError: The model is wrong, or no provider can run it; says what, where, why and what to do.

    Sessions may be used by many threads at once, and as context managers.
    """

    def __init__(
        self,
        path_or_bytes: str | os.PathLike[str] | bytes | Any,
        sess_options: SessionOptions | None = None,
        providers: ProviderArgument | None = None,
        provider_options: Sequence[Mapping[str, Any]] | None = None,
        **kwargs: Any,
    ) -> None:
        if sess_options is not None and not isinstance(sess_options, SessionOptions):
            if sess_options:
                raise TypeError(f"sess_options must be a SessionOptions, not {type(sess_options).__name__}.")
            sess_options = None  # a falsy value counts as none, as in onnxruntime
        self._options = SessionOptions() if sess_options is None else sess_options.copied()
        disabled = kwargs.get("disabled_optimizers")
        if disabled:
            self._options.disabled_transforms = (*self._options.disabled_transforms, *disabled)
        self._id = uuid.uuid4().hex[:12]
        self._lock = threading.Lock()
        self._closed = False
        self._runner: Runner | None = None
        self._built: Construction = construct(
            path_or_bytes,
            self._options,
            providers,
            provider_options,
            session_id=self._id,
            fallback_enabled=bool(kwargs.get("enable_fallback", 1)),
        )
        self._install()
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
            InvalidArgument: An unknown name, or a feed of the wrong dtype, rank or size.
            OrtPyError: A node refused its inputs or failed.
        """
        trimmed = False
        while True:
            runner = self._runner
            if runner is None:
                raise session_closed()
            try:
                if self._observed or run_options is not None:
                    return self._run_observed(runner, output_names, input_feed, run_options)
                return runner.run(output_names, input_feed)
            except Exception as error:  # decided below: some failures are answered, all others raised again
                if self._runner is not None and self._runner is not runner:
                    continue  # another thread has planned anew meanwhile, and closed the pool of this runner
                if isinstance(error.__cause__, MemoryError) and not trimmed:
                    trimmed = True
                    _logger.warning("out of memory: giving back what is unused and running once more: %s", error)
                    self.trim()
                elif not self._replan_without(runner, error):
                    raise

    def _run_observed(
        self,
        runner: Runner,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: RunOptions | None,
    ) -> list[Any]:
        """`run` with everything that may look on: providers' callbacks, limits, cancellation, profile, hooks."""
        watch = RunWatch(
            terminate=None if run_options is None else lambda: bool(run_options.terminate),
            seconds=self._options.limits.run_seconds,
            memory_bytes=self._options.limits.total_memory_bytes,
            recorder=self._built.recorder,
        )
        start, started_ns = time.perf_counter(), time.perf_counter_ns()
        failure: BaseException | None = None
        try:
            for provider in self._built.providers:
                provider.on_run_start()
            return runner.run(output_names, input_feed, None if watch.idle else watch)
        except BaseException as error:
            failure = error
            raise
        finally:
            self._built.end_run(started_ns)
            if self._run_hooked:
                self._built.hooks.observe(
                    "ort_py_run_finished", RunEvent(self._id, time.perf_counter() - start, failure)
                )

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
    def load_report(self) -> LoadReport:
        """Seconds and notes of each stage of creation."""
        return self._built.report

    @property
    def fallback_report(self) -> list[Any]:
        """Everything that does not run where it was asked to, in order: `FallbackRecord`s."""
        return list(self._built.fallbacks)

    @property
    def threads(self) -> ThreadCount:
        """Number of threads one run may use, and the reason for it."""
        return self._built.threads

    @property
    def state(self) -> str:
        """``ready``, ``recovered`` (planned again without a provider that failed), or ``closed``."""
        return "closed" if self._closed else "recovered" if self._built.dropped else "ready"

    def memory_report(self) -> MemoryReport:
        """Bytes of the model's constants, by place, and what the providers' allocators hold."""
        return self._built.memory_report()

    def trim(self) -> None:
        """Give back what is kept only for speed: idle frames, providers' unused memory, and copies of constants that no
        plan holds and that can be read from their files again."""
        if self._runner is not None:
            self._runner.pool.trim()
        self._built.trim()

    def end_profiling(self) -> str:
        """Write the profile and stop profiling; returns the file's name, ``""`` where there is nothing to write."""
        path = self._built.end_profiling()
        self._observe()
        return path

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
        with self._lock:
            if self._closed:
                return
            self._closed = True
            runner, self._runner = self._runner, None
        if runner is not None:
            runner.pool.close()
            runner.pool.wait()
        self._built.hooks.observe("ort_py_session_closed", self._event())
        try:
            self._built.end_profiling()
        except OSError as error:
            _logger.warning("the profile could not be written: %s", error)  # closing must go on
        self._built.close()

    def __del__(self) -> None:
        # Dropped without `close`: release the same things. At interpreter exit nothing is left to do, and this module's
        # names may be gone already.
        if sys is not None and not sys.is_finalizing() and hasattr(self, "_built"):
            self.close()

    def __enter__(self) -> InferenceSession:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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

    def _install(self) -> None:
        """Take over a construction: what `run` and the reports need."""
        assembled = self._assembled()
        self._runner = Runner(assembled.program)
        self._placement = placement_of(assembled.assignment)
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
        )

    def _replan_without(self, failed: Runner, error: Exception) -> bool:
        """Run fallback: plan again without the provider that failed; False where that is not the answer.

        Where another thread has done so already, there is a new runner to try.
        """
        if not isinstance(error, OrtPyError) or not self._built.policy.may_replace(error):
            return False
        with self._lock:
            if self._closed:
                return False
            if self._runner is not failed:
                return True
            if not self._built.replan_without(error.location.provider, error):
                return False
            self._install()
        failed.pool.close()
        return True

    def _event(self) -> SessionEvent:
        return SessionEvent(
            self._id,
            self._built.title,
            tuple(self._built.names),
            self._placement.counts(),
            self._built.report.seconds,
        )
