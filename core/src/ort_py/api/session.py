"""InferenceSession: a thin sequence of the rooms, and the border between user values and slots."""

from __future__ import annotations

import difflib
import logging
import os
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

import numpy as np

from ort_py.api.construction import Construction, construct
from ort_py.api.feeds import FeedSpec, convert_feed, feed_spec
from ort_py.api.metadata import ModelMetadata, NodeArg
from ort_py.api.options import RunOptions, SessionOptions
from ort_py.api.placement import Placement, placement_of
from ort_py.api.reports import LoadReport, MemoryReport
from ort_py.api.results import finish_result
from ort_py.errors import InvalidArgument, Location, MissingInputError, OrtPyError
from ort_py.execution.frame import FramePool
from ort_py.execution.sequential import run
from ort_py.execution.thread_count import ThreadCount
from ort_py.execution.watch import RunWatch
from ort_py.hooks import RunEvent, SessionEvent

__all__ = ["InferenceSession"]

_logger = logging.getLogger("ort_py.session")

ProviderArgument = Sequence[str | tuple[str, Mapping[str, Any]]]


class InferenceSession:
    """A model ready to run.

    Args:
        path_or_bytes: Path of a model, its bytes, or an ``onnx.ModelProto``.
        sess_options: Options; copied.
        providers: Names, or (name, options) pairs, in order of preference; None for every usable provider by rank.
        provider_options: One mapping a provider, where `providers` has names only.
        **kwargs: Accepted for compatibility and ignored: `enable_fallback`, `disabled_optimizers`.

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
        self._built: Construction = construct(
            path_or_bytes,
            self._options,
            providers,
            provider_options,
            session_id=self._id,
            fallback_enabled=bool(kwargs.get("enable_fallback", 1)),
        )
        self._pool: FramePool | None = None
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
        pool = self._pool
        if self._observed or run_options is not None or pool is None:
            return self._run_observed(output_names, input_feed, run_options)
        frame = pool.take()
        slots = frame.slots
        try:
            self._fill(slots, input_feed)
            run(frame)
            results = self._collect(slots, output_names)
        except BaseException as error:
            frame.close()
            if isinstance(error, Exception) and self._replan_without(error):
                return self.run(output_names, input_feed, run_options)
            raise
        frame.clear()
        if self._overridable:
            self._restore_defaults(slots)
        pool.give_back(frame)
        return results

    def _run_observed(
        self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any], run_options: RunOptions | None
    ) -> list[Any]:
        """`run` with everything that may look on: providers' callbacks, limits, cancellation, profile, hooks."""
        pool = self._pool
        if pool is None:
            raise InvalidArgument("The session is closed.", fix="Create a new InferenceSession.")
        watch = RunWatch(
            terminate=None if run_options is None else lambda: bool(run_options.terminate),
            seconds=self._options.limits.run_seconds,
            memory_bytes=self._options.limits.total_memory_bytes,
            recorder=self._built.recorder,
        )
        frame = pool.take()
        frame.watch = None if watch.idle else watch
        start, started_ns = time.perf_counter(), time.perf_counter_ns()
        failure: BaseException | None = None
        try:
            self._fill(frame.slots, input_feed)
            for provider in self._built.providers:
                provider.on_run_start()
            if frame.watch is not None:
                frame.watch.before()
            run(frame)
            results = self._collect(frame.slots, output_names)
        except BaseException as error:
            failure = error
            frame.close()
            if not isinstance(error, Exception) or not self._replan_without(error):
                raise
            return self._run_observed(output_names, input_feed, run_options)
        finally:
            self._built.end_run(started_ns)
            if self._run_hooked:
                self._built.hooks.observe(
                    "ort_py_run_finished", RunEvent(self._id, time.perf_counter() - start, failure)
                )
        frame.watch = None
        frame.clear()
        self._restore_defaults(frame.slots)
        pool.give_back(frame)
        return results

    def _fill(self, slots: list[Any], feed: Mapping[str, Any]) -> None:
        fed = 0
        for spec in self._required:
            try:
                value = feed[spec.name]
            except KeyError:
                if spec.optional:
                    slots[spec.slot] = None
                    continue
                raise self._missing(feed) from None
            fed += 1
            if (
                type(value) is np.ndarray
                and value.dtype is spec.dtype
                and value.flags.c_contiguous
                and spec.fits(value.shape)
            ):
                slots[spec.slot] = value
            else:
                slots[spec.slot] = convert_feed(spec, value)
        if fed != len(feed):
            self._fill_overridable(slots, feed)

    def _fill_overridable(self, slots: list[Any], feed: Mapping[str, Any]) -> None:
        for name, value in feed.items():
            spec = self._overridable.get(name)
            if spec is not None:
                slots[spec.slot] = convert_feed(spec, value)
            elif name not in self._required_names:
                known = [*(spec.name for spec in self._required), *self._overridable]
                raise InvalidArgument(
                    f"The model has no input '{name}'.",
                    where=Location(value=name),
                    why=f"its inputs are {', '.join(map(repr, known)) or 'none'}",
                    fix=_did_you_mean(name, known) or "Remove it from the feed.",
                )

    def _restore_defaults(self, slots: list[Any]) -> None:
        template = self._built.assembled.program.plan.template
        for spec in self._overridable.values():
            slots[spec.slot] = template[spec.slot]

    def _missing(self, feed: Mapping[str, Any]) -> MissingInputError:
        missing = [spec.name for spec in self._required if not spec.optional and spec.name not in feed]
        close = [_did_you_mean(name, list(feed)) for name in missing]
        return MissingInputError(
            f"Required input(s) {', '.join(map(repr, missing))} are missing from the feed.",
            where=Location(value=missing[0]),
            why=f"fed: {', '.join(map(repr, feed)) or 'nothing'}",
            fix=next(filter(None, close), "Feed every input that get_inputs() lists."),
        )

    def _collect(self, slots: list[Any], names: Sequence[str] | None) -> list[Any]:
        if not names:
            return [
                value
                if type(value := slots[output.slot]) is np.ndarray and not output.copy and value.flags.carray
                else finish_result(value, output.copy)
                for output in self._outputs
            ]
        if isinstance(names, str):
            raise TypeError(f"output_names is a list of names, not the string {names!r}.")
        results: list[Any] = []
        taken: set[str] = set()
        for name in names:
            output = self._output_by_name.get(name)
            if output is None:
                raise InvalidArgument(
                    f"The model has no output '{name}'.",
                    where=Location(value=name),
                    why=f"its outputs are {', '.join(map(repr, self._output_by_name))}",
                    fix=_did_you_mean(name, list(self._output_by_name)) or "Use a name that get_outputs() lists.",
                )
            results.append(finish_result(slots[output.slot], output.copy or name in taken))
            taken.add(name)
        return results

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
        """The execution plan as text."""
        return str(self._built.assembled.program.plan)

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
        """Bytes of the model's constants, by place."""
        return self._built.memory_report()

    def trim(self) -> None:
        """Give back what is kept only for speed: idle frames and providers' unused memory."""
        if self._pool is not None:
            self._pool.trim()
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
        """Release frames, regions, weights and providers. Runs under way in other threads end first with an error or
        their result; calling it again does nothing."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()
        self._built.hooks.observe("ort_py_session_closed", self._event())
        try:
            self._built.end_profiling()
        except OSError as error:
            _logger.warning("the profile could not be written: %s", error)
        self._built.close()

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

    def _install(self) -> None:
        """Take over a construction: prepare everything `run` needs."""
        plan = self._built.assembled.program.plan
        self._required: list[FeedSpec] = [feed_spec(value) for value in plan.inputs if not value.default]
        self._required_names = {spec.name for spec in self._required}
        self._overridable = {value.name: feed_spec(value) for value in plan.inputs if value.default}
        self._outputs = plan.outputs
        self._output_by_name = {output.name: output for output in plan.outputs}
        self._pool = FramePool(self._built.assembled.program)
        self._placement = placement_of(self._built.assembled.assignment)
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

    def _replan_without(self, error: Exception) -> bool:
        """Run fallback: plan again without the provider that failed; False where that is not the answer."""
        if not isinstance(error, OrtPyError):
            return False
        with self._lock:
            if self._closed or not self._built.replan_without(error.location.provider, error):
                return False
            old, self._pool = self._pool, None
            self._install()
        if old is not None:
            old.close()
        return True

    def _event(self) -> SessionEvent:
        return SessionEvent(
            self._id,
            self._built.title,
            tuple(self._built.names),
            self._placement.counts(),
            self._built.report.seconds,
        )


def _did_you_mean(name: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, known, 1)
    return f"Did you mean '{close[0]}'?" if close else ""
