"""Answers to failed runs: the state machine behind `InferenceSession.run`, entered by its `except` and nowhere else.

In order, for a failure that is not the caller's: another thread has answered it already, so the run is repeated;
memory is given back, and the run repeated; the run is split where the caller named an axis; a lost device is reset or
exchanged; the run is repeated as it was, while the provider's breaker is closed; the session plans again without the
provider. Each is done at most once for a run and provider, so that every run ends.

A program that was planned again takes over at once, for all threads, but the one before it is kept until a run has
succeeded: where every provider fails alike, the model or its inputs are to blame, and it comes back. What is done to a
session's programs stands in `program_changes`, runs in parts in `split_runs`, what is remembered in `recovery_state`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from ort_py.api.program_changes import plan_without, prove, take_back, try_again, with_device
from ort_py.api.split_runs import in_parts
from ort_py.contracts import FailureKind
from ort_py.discovery import FallbackRecord
from ort_py.errors import OrtPyError
from ort_py.fallback.batches import CannotSplit
from ort_py.fallback.failure import Failure, failure_of, forget_arrays

if TYPE_CHECKING:
    from ort_py.api.session import InferenceSession
    from ort_py.engine.runner import Runner
    from ort_py.options import RunOptions

__all__ = ["before_run", "recover", "succeeded"]

_logger = logging.getLogger("ort_py.session")

MOST_ANSWERS = 16
"""Answers to one run, the other threads' included: a bound where providers fail in turns."""

_Answer: TypeAlias = "tuple[Runner, Callable[[], list[Any]]]"


def recover(
    session: InferenceSession,
    runner: Runner,
    error: Exception,
    output_names: Sequence[str] | None,
    feed: Mapping[str, Any],
    options: RunOptions | None,
) -> list[Any]:
    """The results of a run that failed at first.

    Args:
        session: The session.
        runner: What ran.
        error: What it raised.
        output_names, feed, options: As given to `run`.

    Raises:
        Exception: The first error, where nothing helped; of a later attempt, the caller's own mistake that it found.
    """
    try:
        return _Recovery(session, output_names, feed, options).answer(runner, error)
    finally:
        del error  # it holds this frame, which must not hold it


def before_run(session: InferenceSession, runner: Runner) -> Runner:
    """What a run shall use, while a provider is left out: where it is time, it is tried again with this run."""
    built = session._built
    if not built.policy.enabled:  # a trial that fails could not be answered
        return runner
    name = built.recovery.circuits.next_trial()
    return try_again(session, runner, name) if name else runner


def succeeded(session: InferenceSession, runner: Runner) -> None:
    """A run has succeeded in a session that is watched: its program has proved itself."""
    with session._lock.held():
        state = session._built.recovery
        if state.unproven is not None and session._runner is runner:
            prove(session)
        if state.circuits.alone:
            state.circuits.alone = False
            session._observe()


class _Recovery:
    """One failed run."""

    def __init__(
        self,
        session: InferenceSession,
        names: Sequence[str] | None,
        feed: Mapping[str, Any],
        options: RunOptions | None,
    ) -> None:
        self._session = session
        self._names = names
        self._feed = feed
        self._options = options
        self._freed = False
        self._split: Runner | None = None
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
                succeeded(self._session, runner)
                return results
            self._give_up(runner)
            if error is first or failure_of(error, ()).kind is FailureKind.CALLER:
                raise error
            first.add_note(f"Answering it did not help. The last attempt: {type(error).__name__}: {error}")
            raise first
        finally:
            del first, error, call  # errors hold this frame, which must not hold them

    def _next(self, runner: Runner, error: Exception) -> _Answer | None:
        """What to run now, None where the error is to be raised."""
        session, built = self._session, self._session._built
        current = session._runner
        if current is None:
            return None
        if current is not runner:  # another thread has planned anew meanwhile, and closed the pool of this runner
            return self._whole(current)
        failure = failure_of(error, built.providers)
        if failure.kind is FailureKind.CALLER:
            return None
        if failure.kind is FailureKind.OUT_OF_MEMORY:
            smaller = self._smaller(runner, failure, error)
            if smaller is not None:
                return smaller
        if not built.policy.may_replace(error):
            return None
        return self._elsewhere(runner, failure)

    def _smaller(self, runner: Runner, failure: Failure, error: Exception) -> _Answer | None:
        if not self._freed and not failure.limited:
            self._freed = True
            self._session._built.fallbacks.note(_record(failure, action="memory freed"))
            forget_arrays(error)
            self._session.trim()
            return self._whole(runner)
        axis = None if self._options is None else self._options.batch_axis
        if axis is None or self._split is runner:
            return None
        self._split = runner
        return runner, partial(self._in_parts, runner, axis, failure, error)

    def _elsewhere(self, runner: Runner, failure: Failure) -> _Answer | None:
        session = self._session
        state = session._built.recovery
        provider = next((one for one in session._built.providers if one.name == failure.provider), None)
        if provider is None or state.circuits.is_hopeless(failure.provider, failure.node):
            return None
        state.under_way += 1
        try:
            with session._lock.held():
                current = session._runner
                if current is None:
                    return None
                if current is not runner:
                    return self._whole(current)
                if state.unproven is not None and state.unproven.trial == failure.provider:
                    state.circuits.of(failure.provider).failed()
                    return self._whole(take_back(session, _record(failure)))
                if failure.kind is FailureKind.DEVICE_LOST:
                    found = with_device(session, provider, failure)
                    if found is not None:
                        return self._whole(found)
                if not state.circuits.of(failure.provider).failed():
                    session._built.fallbacks.note(_record(failure, action="run again"))
                    return self._whole(runner)
                found = plan_without(session, failure)
                if found is None:
                    return None
                self._left.append(failure)
                return self._whole(found)
        finally:
            state.under_way -= 1

    def _whole(self, runner: Runner) -> _Answer:
        return runner, partial(self._run, runner, self._feed)

    def _run(self, runner: Runner, feed: Mapping[str, Any]) -> list[Any]:
        session = self._session
        if session._observed or self._options is not None:
            return session._run_observed(runner, self._names, feed, self._options)
        return runner.run(self._names, feed)

    def _in_parts(self, runner: Runner, axis: int, failure: Failure, error: Exception) -> list[Any]:
        """Run in parts along an axis.

        Raises:
            Exception: `error`, with the reason, where that is not possible.
        """
        session = self._session
        run = partial(self._run, runner)
        try:
            results, size = in_parts(session, runner, self._names, self._feed, axis, run)
        except CannotSplit as refusal:
            reason = f"RunOptions.batch_axis={axis} does not help: {refusal}"
            if isinstance(error, OrtPyError):
                error.why = (*error.why, reason)
            else:
                error.add_note(reason)
            raise error from error.__cause__
        reason = f"{failure.reason} (parts of {size} on axis {axis})"
        session._built.fallbacks.note(_record(failure, action="batch split", reason=reason))
        return results

    def _give_up(self, runner: Runner) -> None:
        """Nothing helped: providers that were left out for nothing are used again."""
        session = self._session
        with session._lock.held():
            state = session._built.recovery
            for failure in self._left:
                state.circuits.give_up(failure.provider, failure.node)
            if not self._left or state.unproven is None or session._runner is not runner:
                return
            for failure in self._left:
                state.circuits.of(failure.provider).succeeded()
            take_back(session)
        _logger.info("planning again did not help: every provider failed alike; the plan before it is used again")


def _record(failure: Failure, *, action: Any = "left out", reason: str = "") -> FallbackRecord:
    return FallbackRecord("run", failure.provider, reason or failure.reason, failure.node, action=action)
