"""InferenceSession: what a user holds. It owns an engine, which does the work, and asks it.

The class is long because it documents everything that a user can call; each method is a few lines over `engine` and
`inspection`. Begin with `__init__` and `run`.
"""

from __future__ import annotations

import copy
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from ort_py.api.session_arguments import fallback_enabled, session_options
from ort_py.compat.private_names import PrivateNames
from ort_py.engine.engine import Engine
from ort_py.engine.load_report import LoadReport
from ort_py.engine.memory_report import MemoryReport
from ort_py.engine.metadata import ModelMetadata, NodeArg
from ort_py.engine.opening import open_again, open_engine
from ort_py.engine.recipe import FileReference, ProviderArgument, Recipe, expect_same_model
from ort_py.engine.run_arguments import check_run_options, name_list
from ort_py.errors import ArgumentTypeError, InvalidArgument, Location
from ort_py.execution.frame import session_closed
from ort_py.execution.run_queue import RunQueue
from ort_py.fallback.report import FallbackReport
from ort_py.graph.reading.given_model import GivenModel
from ort_py.hooks import SessionEvent
from ort_py.inspection.verification.runner import Verification
from ort_py.logs import INFO, lazy_logger
from ort_py.options import SessionOptions
from ort_py.partition.assignment import Assignment
from ort_py.planning.plan import ExecutionPlan
from ort_py.platform.forks import ProcessLock
from ort_py.platform.native_threads import active_runs
from ort_py.platform.processors import ThreadCount

if TYPE_CHECKING:
    from ort_py.api.io_binding import IOBinding
    from ort_py.compat.graph_assignment import OrtEpAssignedSubgraph
    from ort_py.discovery.ep_devices import OrtEpDevice
    from ort_py.execution.pipelined import Pipelined
    from ort_py.fallback.policy import SessionState
    from ort_py.inspection.fingerprint import Fingerprint
    from ort_py.inspection.placement import Placement
    from ort_py.inspection.selection_explanation import SelectionExplanation
    from ort_py.inspection.verification.report import VerificationReport
    from ort_py.inspection.warmup import WarmupReport
    from ort_py.options import RunOptions
    from ort_py.values.device import OrtDevice
    from ort_py.values.memory_info import OrtMemoryInfo
    from ort_py.values.ort_value import OrtValue
    from ort_py.values.vector import OrtValueVector

_logger = lazy_logger("ort_py.session")


class InferenceSession(PrivateNames):
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
    they were made of (`ort_py.engine.recipe`).
    """

    def __init__(
        self,
        path_or_bytes: str | os.PathLike[str] | bytes | Any,
        sess_options: SessionOptions | None = None,
        providers: ProviderArgument | None = None,
        provider_options: Sequence[Mapping[str, Any]] | None = None,
        **kwargs: Any,
    ) -> None:
        others = set(vars(self))
        model = GivenModel.of(path_or_bytes)
        options = session_options(model, sess_options, kwargs)
        self._id = os.urandom(6).hex()
        self._lock = ProcessLock()  # held to exchange the engine
        self._verification = Verification(self, options)
        self._fingerprint: tuple[ExecutionPlan, Fingerprint] | None = None
        self._placement: tuple[Assignment | None, Placement] | None = None
        self._engine = open_engine(
            model,
            options,
            providers,
            provider_options,
            fallback_enabled=fallback_enabled(kwargs),
            session_id=self._id,
            make_runner=self._verification.make_runner,
        )
        if self._engine.observed:
            import ort_py.engine.runs  # noqa: F401 - all its runs go there, and the first may have no memory to import
        self._queue = RunQueue(self._engine.threads.count)
        self._own_attributes = set(vars(self)) - others | {"_own_attributes"}
        if _logger.isEnabledFor(INFO):
            _logger.info("session of %s: fingerprint %r", self._engine.description.title, self.fingerprint)
        self._engine.hooks.observe("ort_py_session_created", self._event())

    @property
    def engine(self) -> Engine:
        """The engine that runs the model now; another one after `set_providers`.

        For tools that look inside. Its attributes may change from release to release.
        """
        return self._engine

    # -- running -----------------------------------------------------------------------------------------------

    def run(
        self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any], run_options: RunOptions | None = None
    ) -> list[Any]:
        """Run the model.

        Args:
            output_names: Names of the outputs wanted, in order; None or empty for all.
            input_feed: A value for each input: array, nested list, `OrtValue`, or anything with ``__array__`` or
                ``__dlpack__``. Never written to.
            run_options: Options of this run.

        Returns:
            One value per output: fresh, writable, C-contiguous arrays; lists for sequences, dicts for maps, None for
            empty optionals.

        Raises:
            MissingInputError: A required input was not fed.
            ArgumentTypeError: The feed, the names or the options are of a wrong type; a builtin TypeError too.
            InvalidArgument: An unknown name, or a feed of the wrong dtype, rank or size.
            KernelInputError: A node refused what reached it.
            OrtPyError: A node failed.
        """
        # This is `runs.run` once more, without its call: that would cost a tiny model more than a hundredth of its run.
        engine = self._engine
        runner = engine.runner
        if runner is None or engine.observed or run_options is not None:
            from ort_py.engine.runs import run  # plain runs that succeed need none of it

            return run(engine, output_names, input_feed, run_options)
        try:
            return runner.run(output_names, input_feed)
        except Exception as error:  # decided there: some failures are answered, all others raised again
            from ort_py.engine.runs import answer

            return answer(engine, runner, error, output_names, input_feed, None)

    def run_async(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        callback: Callable[[list[Any], Any, str], Any],
        user_data: Any,
        run_options: RunOptions | None = None,
    ) -> None:
        """Run on a thread of the session and call `callback` with the result. Returns at once.

        Args:
            output_names: Names of the outputs wanted, in order; None or empty for all.
            input_feed: A value for each input, as in `run`. Arrays must not be written to before the run has ended.
            callback: Called on that thread with (results, user_data, error): the error is ``""``, or the message of
                the exception, and then there are no results. What it raises is logged.
            user_data: Handed to `callback`.
            run_options: Options of this run.

        Raises:
            MissingInputError: A required input was not fed.
            InvalidArgument: A feed cannot be converted to an array. All later failures are passed to `callback`.
        """
        from ort_py.api.asynchronous import submit

        runner = self._engine.runner
        if runner is None:
            raise session_closed()
        submit(self.run, self._queue, output_names, runner.prepare(input_feed), callback, user_data, run_options)

    async def run_asyncio(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: RunOptions | None = None,
        timeout: float | None = None,
    ) -> list[Any]:
        """Run on a thread of the session, awaited. Cancelling the task stops the run before its next step.

        Args:
            output_names: Names of the outputs wanted, in order; None or empty for all.
            input_feed: A value for each input, as in `run`. Arrays must not be written to before the run has ended.
            run_options: Options of this run.
            timeout: Seconds, None for no limit. Waiting for a free thread counts.

        Returns:
            As `run`.

        Raises:
            RunTimeoutError: It took longer than `timeout`; a TimeoutError too.
            OrtPyError: As `run`.
        """
        from ort_py.api.asynchronous import run_asyncio

        return await run_asyncio(self.run, self._queue, output_names, input_feed, run_options, timeout)

    def run_torch(
        self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any], run_options: RunOptions | None = None
    ) -> list[Any]:
        """`run` with tensors of PyTorch in and out: they share memory with the arrays where they are on the host.

        Args:
            output_names: Names of the outputs wanted, in order; None or empty for all.
            input_feed: A tensor for each input, or anything `run` takes.
            run_options: Options of this run.

        Returns:
            As `run`, with tensors for arrays; what PyTorch has no element type for stays an array.

        Raises:
            NotFound: PyTorch is not installed.
            OrtPyError: As `run`.
        """
        from ort_py.api.torch_tensors import from_torch, to_torch

        tensors: list[Any] = to_torch(self.run(output_names, from_torch(input_feed), run_options))
        return tensors

    def run_stream(
        self,
        iterable: Iterable[Mapping[str, Any]],
        output_names: Sequence[str] | None = None,
        *,
        depth: int | None = None,
        run_options: RunOptions | None = None,
    ) -> Pipelined[list[Any]]:
        """Run a stream of inputs and give the results in their order, while others are loaded and run already.

        What overlaps: feeds are pulled from `iterable` on a thread of its own, so loading goes on while the model runs;
        as many inputs as the session has threads are converted and run at a time, each in a frame of its own, so what
        one has on a device overlaps with what another has on the host; and the caller works on a result while the next
        ones are made. Of k runs at a time each has a k-th of the threads.

        ``for outputs in session.run_stream(feeds): ...`` ends by itself, also when it is left early. The iterator is a
        context manager and has `close()`: nothing more is pulled then, and runs under way stop before their next step.

        Args:
            iterable: A feed for each run, as in `run`; pulled lazily, by one thread. Arrays must not be written to
                before their results are there.
            output_names: Names of the outputs wanted, in order; None or empty for all.
            depth: Inputs that are pulled and whose results are not taken yet, at most; by default two more than the
                session has threads. It bounds the memory: 1 overlaps nothing but loading with the caller's own work.
            run_options: Options of each run.

        Returns:
            An iterator over what `run` returns. What an input's run raises is raised where its result would have been,
            what `iterable` raises after the results of all that it gave before; either ends the stream.

        Raises:
            ArgumentTypeError: An argument has a wrong type; a builtin TypeError too.
            InvalidArgument: The session is closed, or `depth` is less than 1.
        """
        from ort_py.api.streams import stream

        return stream(self.run, self._engine, iterable, output_names, depth, run_options)

    def io_binding(self) -> IOBinding:
        """A new binding for this session."""
        from ort_py.api.io_binding import IOBinding  # as all that few sessions need

        return IOBinding(self)

    def run_with_iobinding(self, iobinding: IOBinding, run_options: RunOptions | None = None) -> None:
        """Run with the bound values; the binding provides the results.

        Args:
            iobinding: A binding of this session.
            run_options: Options of this run.

        Raises:
            ValueError: The binding belongs to another session.
            ArgumentTypeError: It is not a binding, or the options are not RunOptions.
            BindingError: No output is bound, the run failed, or a bound buffer does not fit its result.
        """
        from ort_py.api.io_binding import IOBinding

        if not isinstance(iobinding, IOBinding):
            raise ArgumentTypeError(
                f"The argument must be an IOBinding, not {type(iobinding).__name__}.",
                fix="Make one with session.io_binding().",
            )
        if iobinding._session is not self:
            raise ValueError("This IOBinding belongs to another session: use the one that made it.")
        check_run_options(run_options)
        iobinding._iobinding.run(run_options)

    def run_with_ort_values(
        self,
        output_names: Sequence[str] | None,
        input_dict_ort_values: Mapping[str, OrtValue],
        run_options: RunOptions | None = None,
    ) -> list[OrtValue]:
        """`run` with values in and out; results are on the host.

        Args:
            output_names: Outputs wanted, in order; None or empty for all.
            input_dict_ort_values: A value for each input; those on a device of the session are read there.
            run_options: Options of this run.

        Raises:
            ArgumentTypeError: A feed is not an OrtValue, or another argument of a wrong type.
            OrtPyError: Any error of `run`.
        """
        from ort_py.values.device_tensor import DeviceTensor
        from ort_py.values.ort_value import OrtValue

        feed = {name: _bare(name, value) for name, value in input_dict_ort_values.items()}
        names = name_list(output_names)
        types = {argument.name: argument.type for argument in self.get_outputs()}
        if any(isinstance(value, DeviceTensor) for value in feed.values()):
            from ort_py.engine.device_runs import run_on_devices

            results = run_on_devices(self._engine, names, feed, {}, run_options)
        else:
            results = self.run(names, feed, run_options)
        return [OrtValue.of_output(found, types[name]) for name, found in zip(names or types, results, strict=True)]

    def run_with_ortvaluevector(
        self,
        run_options: RunOptions | None,
        feed_names: Sequence[str],
        feeds: OrtValueVector,
        fetch_names: Sequence[str],
        fetches: OrtValueVector,
        fetch_devices: Sequence[OrtDevice],
    ) -> None:
        """`run` with vectors of values.

        Args:
            run_options: Options of this run.
            feed_names: Names of the inputs fed.
            feeds: Their values.
            fetch_names: Outputs wanted, in order.
            fetches: Filled with the results; tensors that are in it already are written to.
            fetch_devices: Device that each is wanted on; results are on the host.

        Raises:
            ArgumentTypeError: Feeds or fetches are not an OrtValueVector.
            OrtPyError: As `run`, or a tensor in `fetches` does not fit its result.
        """
        from ort_py.values.copying import copy_tensors
        from ort_py.values.vector import OrtValueVector

        for vector in (feeds, fetches):
            if not isinstance(vector, OrtValueVector):
                raise ArgumentTypeError(
                    f"The argument must be an OrtValueVector, not {type(vector).__name__}.", fix="push_back() each."
                )
        named = dict(zip(feed_names, feeds, strict=True))
        results = self.run_with_ort_values(fetch_names, named, run_options)
        given = list(fetches)
        kept = [(result, old) for result, old in zip(results, given, strict=False) if old.is_tensor()]
        if kept:
            copy_tensors([result for result, _ in kept], [old for _, old in kept])
        fetches._assign(
            given[index] if index < len(given) and given[index].is_tensor() else result
            for index, result in enumerate(results)
        )

    def create_ortvalue_from_shape_and_type(
        self, shape: Sequence[int], element_type: Any, device_type: str, device_id: int = 0, vendor_id: int = -1
    ) -> OrtValue:
        """`OrtValue.ortvalue_from_shape_and_type`: what usable providers have memory of, sessions can reach."""
        from ort_py.values.ort_value import OrtValue

        return OrtValue.ortvalue_from_shape_and_type(shape, element_type, device_type, device_id, vendor_id)

    def get_input_memory_infos(self) -> list[OrtMemoryInfo]:
        """Memory that each input is taken from: the host's."""
        return [_host_memory() for _ in self.get_inputs()]

    def get_output_memory_infos(self) -> list[OrtMemoryInfo]:
        """Memory that each output is given in: the host's."""
        return [_host_memory() for _ in self.get_outputs()]

    # -- what it is --------------------------------------------------------------------------------------------

    def get_inputs(self) -> list[NodeArg]:
        """Inputs that must be fed, the same list object every time."""
        return self._engine.description.inputs

    def get_outputs(self) -> list[NodeArg]:
        """Outputs, the same list object every time."""
        return self._engine.description.outputs

    def get_overridable_initializers(self) -> list[NodeArg]:
        """Initializers that may be fed."""
        return self._engine.description.overridable

    def get_modelmeta(self) -> ModelMetadata:
        """The metadata in the model's file."""
        return self._engine.description.metadata

    def get_session_options(self) -> SessionOptions:
        """A copy of the session's options."""
        return copy.copy(self._engine.options)

    def get_providers(self) -> list[str]:
        """Provider names as asked for, in order; `placement` shows which provider runs each node."""
        return list(self._engine.providers.names)

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        """Options of each provider, as strings."""
        return {name: dict(options) for name, options in self._engine.providers.options.items()}

    @property
    def placement(self) -> Placement:
        """The provider of each node with the reason, and the refusals of other providers."""
        assembled = self._engine.assembled
        known = self._placement
        if assembled is not None and (known is None or known[0] is not assembled.assignment):
            from ort_py.inspection.placement import Placement

            assignment = assembled.assignment
            known = self._placement = (assignment, Placement(assignment, self._engine.providers.device_names()))
        assert known is not None  # closing asks before it releases the program
        return known[1]

    @property
    def plan(self) -> str:
        """The execution plan as text.

        Raises:
            InvalidArgument: The session is closed.
        """
        return str(self._engine.program().program.plan)

    @property
    def fallback_report(self) -> FallbackReport:
        """Every event in which something did not run where, or as, it was asked to: `FallbackRecord`s in order."""
        return self._engine.fallback_report

    @property
    def state(self) -> SessionState:
        """Ready, recovering, degraded, failed or closed; see `SessionState`."""
        return self._engine.state

    def memory_report(self) -> MemoryReport:
        """Bytes of the model's constants, of what kernels made of them and of runs, by device."""
        return self._engine.memory_report()

    def trim(self) -> None:
        """Give back what is kept only for speed: idle frames, providers' unused memory, and copies of constants that no
        plan holds and that can be read from their files again."""
        self._engine.trim()

    def end_profiling(self) -> str:
        """Write the profile and stop profiling; returns the file's name, ``""`` where there is nothing to write."""
        path = self._engine.end_profiling(self._profile_facts())
        self._engine.observe()
        return path

    def get_profiling_start_time_ns(self) -> int:
        """When profiling started, in nanoseconds since 1970 as in onnxruntime; 0 where it is off."""
        return self._engine.profiling_started_ns

    def get_input_epdevices(self) -> list[OrtEpDevice]:
        """The device each input is fed to: the host's, whose copies to other devices are steps of the plan."""
        from ort_py.discovery.ep_devices import input_devices

        return input_devices(len(self._engine.description.inputs))

    def get_provider_graph_assignment_info(self) -> list[OrtEpAssignedSubgraph]:
        """The nodes of each provider; see `ort_py.compat.graph_assignment`, and `placement` for more.

        Raises:
            Fail: ``session.record_ep_graph_assignment_info`` was not set to ``"1"``.
        """
        from ort_py.compat.graph_assignment import assignment_info

        return assignment_info(self._engine.options, self.placement)

    def set_providers(
        self, providers: ProviderArgument | None = None, provider_options: Sequence[Mapping[str, Any]] | None = None
    ) -> None:
        """Make the session again with other providers, given as for a new one; where that fails, it stays as it was.

        Raises:
            InvalidArgument: The session is closed, or was made from bytes that it did not keep.
            OrtPyError: As for a new session.
        """
        former = self._engine
        if former.runner is None:
            raise session_closed()
        engine = open_again(
            former,
            "The providers of this session cannot be changed.",
            former.options,
            providers,
            provider_options,
            session_id=self._id,
            make_runner=self._verification.make_runner,
        )
        with self._lock.held():
            former = self._engine
            if former.runner is None:
                engine.close()
                raise session_closed()
            engine.policy.enabled = former.policy.enabled
            self._engine = former.successor = engine
        former.close()

    def set_ep_dynamic_options(self, options: Mapping[str, str]) -> None:
        """Pass options that may change between runs to the providers. Options that no provider supports are ignored.

        Raises:
            TypeError: It is not a mapping.
            UsageError: It is empty; a builtin RuntimeError too.
        """
        from ort_py.api.late_settings import check_dynamic_options

        check_dynamic_options(options)

    def get_tuning_results(self) -> list[dict[str, Any]]:
        """Measured speeds of providers' kernels. No provider reports any yet."""
        return []

    def set_tuning_results(self, results: Sequence[Mapping[str, Any]], *, error_on_invalid: bool = False) -> None:
        """Pass the result of another session's `get_tuning_results` to the providers. Foreign results are ignored.

        Raises:
            TypeError, KeyError: `results` is not a list of such results.
            UsageError: One is of no provider here, and `error_on_invalid` is set; a builtin RuntimeError too.
        """
        from ort_py.api.late_settings import check_tuning_results

        check_tuning_results(results, error_on_invalid=error_on_invalid)

    def release_captured_graph(self, graph_annotation_id: int = 0) -> None:
        """Accepted for compatibility: no run is captured, so there is nothing to release."""

    def disable_fallback(self) -> None:
        """Let failures of a provider be raised instead of answered by another provider."""
        self._engine.policy.enabled = False

    def enable_fallback(self) -> None:
        """Undo `disable_fallback`."""
        self._engine.policy.enabled = True

    @property
    def threads(self) -> ThreadCount:
        """Threads that one run may use, with the reason, the settings of native libraries, and the way steps are
        executed.
        """
        runner = self._engine.runner
        executor = "" if runner is None else runner.executor()
        return replace(self._engine.threads, native=active_runs.describe(), executor=executor)

    def warmup(
        self,
        shapes: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        *,
        progress: Callable[[int, int, str], object] | None = None,
        seconds: float | None = None,
    ) -> WarmupReport:
        """Run once and again with each of the shapes that will come, so that no request pays for being the first.

        Args:
            shapes: One mapping or a list of them. Keys are names of inputs or of symbolic dimensions. An input has a
                shape, ``{"x": (1, 3, 224, 224)}``, where a dimension may be left to its name, ``("batch", 3, 224,
                224)``; zeros of that shape are fed. Or it has a real value, an array or `OrtValue`, which is fed as it
                is. A dimension has a size or a list of sizes: ``{"batch": [1, 8], "length": 128}`` means two shapes.
                None where the model declares all sizes.
            progress: Called with (done, total, what comes next) before each shape, and with (total, total, "") at the
                end. What it raises ends the warm-up.
            seconds: Begin no further shape after this time; those left out are in the report. A shape under way is
                finished: what takes long then is a compiler, which cannot be stopped.

        Returns:
            Seconds of the first and the second run of each shape.

        Raises:
            InvalidArgument: An unknown name, a wrong rank or size, a size that is missing, or an input that cannot be
                made up.
            OrtPyError: A run failed.
            KeyboardInterrupt: Ctrl-C; what is warm stays warm.
        """
        from ort_py.inspection.warmup import warm_up

        return warm_up(self.run, self._engine.description, shapes, progress, seconds)

    def explain_selection(self) -> SelectionExplanation:
        """The providers that were considered for the session, in rank order, and the reason why each was taken or
        not.
        """
        from ort_py.inspection.selection_explanation import selection_of

        return selection_of(self._engine)

    @property
    def fingerprint(self) -> Fingerprint:
        """A short hash of model, versions, providers, options and plan; equal on machines that would run the same.

        ``str()`` gives the hash, `parts` what it is made of, `differences` what distinguishes it from another. Logged
        when a session is created, where the logger ``ort_py.session`` takes INFO.

        Raises:
            InvalidArgument: The session was closed before it was asked.
        """
        assembled, known = self._engine.assembled, self._fingerprint
        if assembled is None:
            if known is None:
                raise session_closed()
            return known[1]
        plan = assembled.program.plan
        if known is None or known[0] is not plan:  # planned again: some nodes have another provider now
            from ort_py.inspection.fingerprint import fingerprint_of

            known = self._fingerprint = (plan, fingerprint_of(self._engine, plan))
        return known[1]

    @property
    def load_report(self) -> LoadReport:
        """Seconds and notes of each stage of creation, and the session's fingerprint."""
        closed = self._engine.assembled is None and self._fingerprint is None
        return replace(self._engine.report, fingerprint="" if closed else str(self.fingerprint))

    @property
    def verification(self) -> VerificationReport:
        """Results of repeating runs with the NumPy provider so far; see `SessionOptions.verify`."""
        return self._verification.report()

    def finish_verification(self, seconds: float | None = None) -> VerificationReport:
        """Wait until the picked runs are verified.

        Args:
            seconds: The longest time to wait, None for any.

        Returns:
            What was found so far; `waiting` is above 0 where the time was too short.
        """
        return self._verification.wait(seconds)

    # -- life --------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Release frames, regions, weights and providers, after the runs under way in other threads have ended.

        Calling it again does nothing.
        """
        self._close(keeps_placement=True)

    def _close(self, *, keeps_placement: bool) -> None:
        self._verification.close()
        with self._lock.held():
            engine = self._engine
            engine.refuse_runs()
        if not engine.stop():
            return
        self._queue.close()
        engine.hooks.observe("ort_py_session_closed", self._event())
        engine.end_profiling(self._profile_facts())
        if keeps_placement:
            placement = self.placement
            placement.detach()  # its records are made now at the latest: it outlives the graph
            self._placement = (None, placement)
        engine.release()

    def __del__(self) -> None:
        # Dropped without `close`. At interpreter exit nothing is left to do, and this module's names may be gone.
        if sys is None or sys.is_finalizing() or not hasattr(self, "_engine"):
            return
        if not hasattr(self, "_own_attributes"):  # interrupted while it was made: no hook has heard of it
            self._engine.close()
            return
        self._close(keeps_placement=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        title = self._engine.description.title
        if self._engine.closed:
            return f"<InferenceSession {title}: closed>"
        counts = ", ".join(f"{name}: {count}" for name, count in self.placement.counts().items())
        return f"<InferenceSession {title}: nodes by provider {counts or 'none'}>"

    def __copy__(self) -> Self:
        return self

    def __getstate__(self) -> dict[str, Any]:
        engine = self._engine
        if engine.closed:
            raise session_closed()
        recipe = engine.recipe.to_pickle(
            engine.description.fingerprint,
            engine.external_files,
            fallback_enabled=engine.policy.enabled,
            where=repr(self),
        )
        own = self._own_attributes
        return {"recipe": recipe, "attributes": {name: value for name, value in vars(self).items() if name not in own}}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        recipe: Recipe = state["recipe"]
        source, reference = recipe.source, None
        if isinstance(source, FileReference):
            reference, source = source, source.path
            reference.is_unchanged()  # another size is noticed before the file is read
        # Not type(self)(...): a subclass may take other arguments.
        given = (recipe.options, recipe.providers, recipe.provider_options)
        InferenceSession.__init__(self, source, *given, enable_fallback=int(recipe.fallback_enabled))
        if reference is not None:
            try:
                expect_same_model(reference, self._engine.description.fingerprint, self._engine.external_files)
            except InvalidArgument:
                self.close()
                raise
        vars(self).update(state["attributes"])

    def _event(self) -> SessionEvent:
        engine = self._engine
        names, seconds = tuple(engine.providers.names), engine.report.seconds
        counts = dict(engine.program().assignment.counts().most_common())
        return SessionEvent(self._id, engine.description.title, names, counts, seconds)

    def _profile_facts(self) -> dict[str, str]:
        """Facts about the session for the profile, if one is written."""
        if self._engine.recorder is None or self._engine.assembled is None:
            return {}
        return {"fingerprint": str(self.fingerprint)}


def _bare(name: str, value: Any) -> Any:
    from ort_py.values.ort_value import OrtValue

    if not isinstance(value, OrtValue):
        raise ArgumentTypeError(
            f"The feed of '{name}' must be an OrtValue, not {type(value).__name__}.",
            where=Location(value=name),
            fix="Use run(), or OrtValue.ortvalue_from_numpy().",
        )
    return value._value


def _host_memory() -> OrtMemoryInfo:
    from ort_py.value_enums import OrtAllocatorType, OrtMemType
    from ort_py.values.memory_info import OrtMemoryInfo

    return OrtMemoryInfo("Cpu", OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, OrtMemType.DEFAULT)
