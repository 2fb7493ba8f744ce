"""One program ready to be called: its feeds checked, its frames pooled, its results handed over.

The border between user values and slots: results are fresh, writable, C-contiguous and alias nothing. Immutable but for
the pool, so that a session that plans again swaps the whole runner and runs under way keep theirs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy as np

from ort_py.engine.feeds import FeedSpec, convert_feed, feed_spec, no_mapping
from ort_py.engine.run_arguments import name_list, not_a_name
from ort_py.errors import InvalidArgument, Location, MissingInputError
from ort_py.execution.executors import executor_of
from ort_py.execution.frame import Frame, FramePool, WatchedPool
from ort_py.execution.program import Program
from ort_py.limits import check_time
from ort_py.limits.running_time import contiguous_copy
from ort_py.platform.memory_pressure import MemoryPressure
from ort_py.suggestions import close_names, did_you_mean

if TYPE_CHECKING:
    from ort_py.execution.bound_outputs import BoundOutputs, Decision


class Runner:
    """Runs one program.

    Args:
        lanes: Steps that may run at the same time.
        pressure: Asked after runs whether memory is short, where given.
        pool: Its frames; a pool of its own where not given.

    Attributes:
        on_devices: Runners of the same program with feeds or results on devices, by these; see `device_runs`.
        executor: Tells in words how runs are executed, and why.
    """

    def __init__(
        self, program: Program, lanes: int = 1, pressure: MemoryPressure | None = None, pool: FramePool | None = None
    ) -> None:
        plan = program.plan
        self.pool = pool or (FramePool(program) if pressure is None else WatchedPool(program, pressure))
        self.program = program
        self.lanes = lanes
        self.on_devices: dict[Any, Runner | None] = {}
        self._bound: BoundOutputs | None = None
        self._execute, self.executor = executor_of(plan, lanes)
        self._template = plan.template
        self._required: list[FeedSpec] = [feed_spec(value) for value in plan.inputs if not value.default]
        self._required_names = {spec.name for spec in self._required}
        self._overridable = {value.name: feed_spec(value) for value in plan.inputs if value.default}
        self._outputs = plan.outputs
        self._output_by_name = {output.name: output for output in plan.outputs}

    def prepare(self, feed: Mapping[str, Any]) -> dict[str, Any]:
        """Copy a feed for a later run, with values that are not arrays already converted.

        Raises:
            MissingInputError: A required input is not in it.
            InvalidArgument: Something cannot be made an array.
        """
        if not isinstance(feed, Mapping):
            raise no_mapping(feed)
        if any(spec.name not in feed and not spec.optional for spec in self._required):
            raise self._missing(feed)
        prepared = dict(feed)
        for spec in (*self._required, *self._overridable.values()):
            value = prepared.get(spec.name)
            if value is not None and not isinstance(value, np.ndarray):
                prepared[spec.name] = convert_feed(spec, value)
        return prepared

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        before: Callable[[Frame], object] | None = None,
    ) -> list[Any]:
        """Run once; see `InferenceSession.run`.

        Args:
            output_names: Outputs wanted, None or empty for all.
            before: Called with the frame once its inputs are in place: begins a watched run, or is what `writing_to`
                returned.
        """
        pool = self.pool
        frame = pool.take()
        slots = frame.slots
        try:
            self._fill(slots, input_feed)
            if before is not None:
                before(frame)
            self._execute(frame)
            results = self._collect(slots, output_names)
            frame.watch = None
            frame.clear()
            if self._overridable:
                self._restore_defaults(slots)
            pool.give_back(frame)
        except BaseException:
            # Ctrl-C may arrive at any instruction, also when the frame is back in the pool, or even taken by another.
            if frame.thread == threading.get_ident():
                pool.discard(frame)
            raise
        return results

    def needs_host_values(self) -> bool:
        """Return whether the next run of the calling thread has to take and give its values on the host."""
        return False

    def writing_to(self, memory: Mapping[str, Any]) -> WritingTo | None:
        """Return an object to call before runs whose outputs steps can write into given arrays, or None if no step can.

        Args:
            memory: Arrays by the name of an output. What a run returns is another array where one was not used.
        """
        if self._bound is None:
            from ort_py.execution.bound_outputs import BoundOutputs
            from ort_py.execution.parallel_runs import ParallelRuns

            if isinstance(self._execute, ParallelRuns):
                return None
            self._bound = BoundOutputs(self.program)
        outputs = self._output_by_name
        slots = {outputs[name].slot: array for name, array in memory.items() if name in outputs}
        return WritingTo(self._bound, slots)

    def begin(self, feed: Mapping[str, Any]) -> Frame:
        """A frame with its inputs filled, for a caller who runs its steps one by one; it must go back to `pool`."""
        frame = self.pool.take()
        try:
            frame.run_plainly()
            self._fill(frame.slots, feed)
        except BaseException:
            self.pool.discard(frame)
            raise
        return frame

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
            except (TypeError, IndexError):
                raise no_mapping(feed) from None
            fed += 1
            if (
                type(value) is np.ndarray
                and ((dtype := value.dtype) is spec.dtype or _equal(dtype, spec.dtype))
                and value.flags.c_contiguous
                and spec.fits(value.shape)
            ):
                slots[spec.slot] = value
            else:
                slots[spec.slot] = convert_feed(spec, value)
        try:
            surplus = fed != len(feed)
        except TypeError:
            raise no_mapping(feed) from None
        if surplus:
            self._fill_overridable(slots, feed)

    def _fill_overridable(self, slots: list[Any], feed: Mapping[str, Any]) -> None:
        for name, value in feed.items():
            if value is None:
                continue  # as in onnxruntime, None means that nothing is fed
            if (spec := self._overridable.get(name)) is not None:
                slots[spec.slot] = convert_feed(spec, value)
            elif name not in self._required_names:
                known = [*(spec.name for spec in self._required), *self._overridable]
                raise InvalidArgument(
                    f"The model has no input '{name}'.",
                    where=Location(value=name),
                    why=f"its inputs are {', '.join(map(repr, known)) or 'none'}",
                    fix=did_you_mean(name, known) or "Remove it from the feed.",
                )

    def _restore_defaults(self, slots: list[Any]) -> None:
        for spec in self._overridable.values():
            slots[spec.slot] = self._template[spec.slot]

    def _missing(self, feed: Mapping[str, Any]) -> MissingInputError:
        missing = [spec.name for spec in self._required if not spec.optional and spec.name not in feed]
        surplus = [str(name) for name in feed if name not in self._required_names and name not in self._overridable]
        close = [(name, *close_names(name, surplus)) for name in missing]
        renamed = [f"Is '{found[1]}' in the feed meant for '{found[0]}'?" for found in close if len(found) > 1]
        return MissingInputError(
            f"Required input(s) {', '.join(map(repr, missing))} are missing from the feed.",
            where=Location(value=missing[0]),
            why=f"fed: {', '.join(map(repr, feed)) or 'nothing'}",
            fix=" ".join(renamed) or "Feed every input that get_inputs() lists.",
        )

    def _no_output(self, name: str) -> InvalidArgument:
        return InvalidArgument(
            f"The model has no output '{name}'.",
            where=Location(value=name),
            why=f"its outputs are {', '.join(map(repr, self._output_by_name))}",
            fix=did_you_mean(name, self._output_by_name) or "Use a name that get_outputs() lists.",
        )

    def _collect(self, slots: list[Any], names: Sequence[str] | None) -> list[Any]:
        if not names:
            return [
                value
                if type(value := slots[output.slot]) is np.ndarray and not output.copy and value.flags.carray
                else finish_result(value, output.copy)
                for output in self._outputs
            ]
        if type(names) is not list:
            names = name_list(names)
        results: list[Any] = []
        taken: set[str] = set()
        for name in names:
            if not isinstance(name, str):
                raise not_a_name(name)
            output = self._output_by_name.get(name)
            if output is None:
                raise self._no_output(name)
            results.append(finish_result(slots[output.slot], output.copy or name in taken))
            taken.add(name)
        return results


class WritingTo:
    """Hands arrays to the steps of runs. Called with the frame, once its inputs are in place; one run at a time.

    It belongs to a binding, which may outlive the session's program, and keeps nothing of that alive.

    Attributes:
        over_inputs: Whether the run that it was called for may have written over an input.
    """

    __slots__ = ("_bound", "_decision", "_targets", "over_inputs")

    def __init__(self, bound: BoundOutputs, targets: Mapping[int, Any]) -> None:
        self._bound = ref(bound)
        self._targets = targets
        self._decision: Decision | None = None
        self.over_inputs = False

    def __call__(self, frame: Frame) -> None:
        bound, decision = self._bound(), self._decision
        assert bound is not None, "the runner that calls this holds it"
        feeds = bound.feeds_of(frame)
        if decision is None or not decision.holds_for(feeds):
            decision = self._decision = bound.decide(feeds, self._targets)
        self.over_inputs = bool(decision.over)
        bound.bind(frame, decision)


class BoundMemory:
    """Arrays that the outputs of a binding's runs may be written to. Used by one thread at a time.

    Attributes:
        arrays: Arrays by the name of an output.
    """

    __slots__ = ("_runner", "_writing", "arrays")

    def __init__(self, arrays: Mapping[str, Any]) -> None:
        self.arrays = arrays
        self._runner: ref[Runner] | None = None
        self._writing: WritingTo | None = None

    def writing(self, runner: Runner) -> WritingTo | None:
        """Return what `Runner.writing_to` does for the next run of a runner; what was found out before is kept."""
        if self._runner is None or self._runner() is not runner:
            self._runner, self._writing = ref(runner), runner.writing_to(self.arrays)
        elif self._writing is not None:
            self._writing.over_inputs = False  # what the run before did
        return self._writing


def _equal(found: np.dtype[Any], wanted: np.dtype[Any] | None) -> bool:
    """Return whether two dtypes that are not one object are the same: unpickled arrays bring their own.

    NumPy takes None for float64 here, so it is asked about first.
    """
    return wanted is not None and found == wanted


_STRETCH = 1 << 16
"""Items of a sequence between two looks at the clock."""


def finish_result(value: Any, copy: bool) -> Any:
    """The caller's form of a slot's content.

    Args:
        value: Array, NumPy scalar, list, dict or None.
        copy: It may share memory with something that outlives the run.
    """
    if isinstance(value, np.ndarray):
        if copy or not value.flags.carray:
            return contiguous_copy(value)
        return value
    if isinstance(value, np.generic):
        return np.array(value)  # NumPy's functions return scalars for 0-d arrays
    if isinstance(value, list):
        found: list[Any] = []
        for start in range(0, len(value), _STRETCH):
            check_time()
            found += [finish_result(item, copy) for item in value[start : start + _STRETCH]]
        return found
    if isinstance(value, dict):
        return dict(value)
    return value
