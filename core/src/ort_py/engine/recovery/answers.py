"""Answers to failed runs: the state machine behind `runs.run`, entered by its `except` and nowhere else.

In order, for a failure that is not the caller's: another thread has answered it already, so the run is repeated;
memory is given back, and the run repeated; the run is split where the caller named an axis; a lost device is reset or
exchanged; the run is repeated as it was, while the provider's breaker is closed; the engine plans again without the
provider. Each is done at most once for a run and provider, so that every run ends.

A program that was planned again takes over at once, for all threads, but the one before it is kept until a run has
succeeded: where every provider fails alike, the model or its inputs are to blame, and it comes back. `exchange` changes
an engine's program, `split_runs` runs in parts, and `state` holds what is remembered. Where a session has got another
engine meanwhile, the run continues there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

from ort_py.contracts import FailureKind, RegionNotReady
from ort_py.discovery import FallbackRecord
from ort_py.engine.engine import Engine
from ort_py.engine.recovery.exchange import plan_without, prove, take_back, take_in, try_again, with_device
from ort_py.engine.recovery.split_runs import in_parts
from ort_py.engine.runner import Runner
from ort_py.errors import OrtPyError
from ort_py.fallback.batches import CannotSplit
from ort_py.fallback.failure import Failure, failure_of, forget_arrays
from ort_py.logs import lazy_logger
from ort_py.options import RunOptions

_logger = lazy_logger("ort_py.session")

MOST_ANSWERS = 16
"""Answers to one run, the other threads' included: a bound where providers fail in turns."""

Execute: TypeAlias = Callable[[Engine, Runner, Mapping[str, Any]], list[Any]]

_Answer: TypeAlias = "tuple[Runner, Callable[[], list[Any]]]"


def recover(
    engine: Engine,
    runner: Runner,
    error: Exception,
    output_names: Sequence[str] | None,
    feed: Mapping[str, Any],
    options: RunOptions | None,
    execute: Execute,
) -> list[Any]:
    """Answer a failed run; returns its results.

    Args:
        execute: Runs a feed on a runner of an engine once, and answers nothing.

    Raises:
        Exception: The first error, where nothing helped; of a later attempt, the caller's own mistake that it found.
    """
    try:
        return _Recovery(engine, output_names, feed, options, execute).answer(runner, error)
    finally:
        del error  # it holds this frame, which must not hold it


def before_run(engine: Engine, runner: Runner) -> Runner:
    """The runner that a run uses while a provider is left out. If it is time, the provider is tried again; if what it
    was making is ready, it is used.
    """
    settled = engine.recovery.awaited.settled()
    if settled is not None:  # also where failures are to be raised: it has not failed
        return take_in(engine, runner, settled)
    if not engine.policy.enabled:  # a trial that fails could not be answered
        return runner
    name = engine.recovery.circuits.next_trial()
    return try_again(engine, runner, name) if name else runner


def succeeded(engine: Engine, runner: Runner) -> None:
    """Note that a run has succeeded while the engine is watched: the program of its runner has proved itself."""
    with engine.lock.held():
        state = engine.recovery
        if state.unproven is not None and engine.runner is runner:
            prove(engine)
        if state.circuits.alone:
            state.circuits.alone = False
            engine.observe()


class _Recovery:
    """One failed run."""

    def __init__(
        self,
        engine: Engine,
        names: Sequence[str] | None,
        feed: Mapping[str, Any],
        options: RunOptions | None,
        execute: Execute,
    ) -> None:
        self._engine = engine
        self._execute = execute
        self._names = names
        self._feed = feed
        self._options = options
        self._freed = False
        self._split: Runner | None = None
        self._waits: set[str] = set()  # providers whose regions this run found not to be ready
        self._left: list[Failure] = []  # answered by this run, by planning without their providers

    def answer(self, runner: Runner, error: Exception) -> list[Any]:
        first = error
        call: Callable[[], list[Any]] | None = None
        try:
            for _ in range(MOST_ANSWERS):
                found = self._next(runner, error)
                if found is None:
                    break
                runner, call = found
                forget_arrays(error)
                try:
                    results = call()
                except Exception as again:  # decided by the next round
                    error = again
                    continue
                succeeded(self._engine, runner)
                return results
            self._give_up(runner)
            if error is first or failure_of(error, ()).kind is FailureKind.CALLER:
                raise error
            first.add_note(f"No attempt to recover helped. The last one: {type(error).__name__}: {error}")
            raise first
        finally:
            del first, error, call  # errors hold this frame, which must not hold them

    def _current(self) -> Runner | None:
        """The runner that the session uses now: of this engine, or of the one that has taken its place."""
        while (runner := self._engine.runner) is None and self._engine.successor is not None:
            self._engine = self._engine.successor
            self._left.clear()
        return runner

    def _next(self, runner: Runner, error: Exception) -> _Answer | None:
        """The next runner to try, or None if the error must be raised."""
        current = self._current()
        if current is None:
            return None
        if current is not runner:  # another thread has planned again meanwhile, and closed the pool of this runner
            return self._whole(current)
        engine = self._engine
        failure = failure_of(error, engine.providers.created)
        if failure.kind is FailureKind.CALLER:
            return None
        if failure.kind is FailureKind.OUT_OF_MEMORY:
            smaller = self._smaller(runner, failure, error)
            if smaller is not None:
                return smaller
        if not engine.policy.may_replace(error):
            return None
        return self._elsewhere(runner, failure, error if isinstance(error, RegionNotReady) else None)

    def _smaller(self, runner: Runner, failure: Failure, error: Exception) -> _Answer | None:
        if not self._freed and not failure.limited:
            self._freed = True
            self._engine.fallbacks.note(_record(failure, action="memory freed"))
            forget_arrays(error)
            self._engine.trim()
            return self._whole(runner)
        axis = None if self._options is None else self._options.batch_axis
        if axis is None or self._split is runner:
            return None
        self._split = runner
        return runner, partial(self._in_parts, runner, axis, failure, error)

    def _elsewhere(self, runner: Runner, failure: Failure, waiting: RegionNotReady | None) -> _Answer | None:
        engine = self._engine
        state = engine.recovery
        state.under_way += 1
        try:
            with engine.lock.held():
                current = self._current()
                if current is None:
                    return None
                if current is not runner:
                    return self._whole(current)
                # Looked for under the lock: until then, another thread may be leaving the provider out.
                provider = next((one for one in engine.providers.in_use if one.name == failure.provider), None)
                if provider is None or state.circuits.is_hopeless(failure.provider, failure.node):
                    return None
                if failure.provider in self._waits:
                    waiting = None  # the provider said that it was ready, and is not: that is a failure
                if waiting is not None:
                    self._waits.add(failure.provider)
                    state.awaited.add(failure.provider, waiting)
                if state.unproven is not None and state.unproven.trial == failure.provider:
                    if waiting is None:
                        state.circuits.of(failure.provider).failed()
                    return self._whole(take_back(engine, _record(failure)))
                if failure.kind is FailureKind.DEVICE_LOST:
                    found = with_device(engine, provider, failure)
                    if found is not None:
                        return self._whole(found)
                if waiting is None and not state.circuits.of(failure.provider).failed():
                    engine.fallbacks.note(_record(failure, action="run again"))
                    return self._whole(runner)
                found = plan_without(engine, failure)
                if found is None:
                    state.awaited.forget(failure.provider)  # it is used all the same
                    return None
                self._left.append(failure)
                return self._whole(found)
        finally:
            state.under_way -= 1

    def _whole(self, runner: Runner) -> _Answer:
        return runner, partial(self._run, runner, self._feed)

    def _run(self, runner: Runner, feed: Mapping[str, Any]) -> list[Any]:
        return self._execute(self._engine, runner, feed)

    def _in_parts(self, runner: Runner, axis: int, failure: Failure, error: Exception) -> list[Any]:
        """Run in parts along an axis.

        Raises:
            Exception: `error`, with the reason, where that is not possible.
        """
        engine = self._engine
        run = partial(self._run, runner)
        try:
            results, size = in_parts(engine, runner, self._names, self._feed, axis, run)
        except CannotSplit as refusal:
            reason = f"RunOptions.batch_axis={axis} does not help: {refusal}"
            if isinstance(error, OrtPyError):
                error.why = (*error.why, reason)
            else:
                error.add_note(reason)
            raise error from error.__cause__
        reason = f"{failure.reason} (parts of {size} on axis {axis})"
        engine.fallbacks.note(_record(failure, action="batch split", reason=reason))
        return results

    def _give_up(self, runner: Runner) -> None:
        """Nothing helped: providers that were left out for nothing are used again."""
        engine = self._engine
        with engine.lock.held():
            state = engine.recovery
            for failure in self._left:
                state.circuits.give_up(failure.provider, failure.node)
            if not self._left or state.unproven is None or engine.runner is not runner:
                return
            for failure in self._left:
                state.circuits.of(failure.provider).succeeded()
            take_back(engine)
        _logger.info(
            "a new plan did not help, because every provider failed in the same way; the previous plan is used again"
        )


def _record(failure: Failure, *, action: Any = "left out", reason: str = "") -> FallbackRecord:
    return FallbackRecord("run", failure.provider, reason or failure.reason, failure.node, action=action)
