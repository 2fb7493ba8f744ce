"""The verifier of one session: picks runs, has them repeated in the background, and acts on the outcome.

It exists only where a share of the runs is verified. It holds the session weakly, so that a session that is dropped
is closed, and it holds its own lock only for counting. `search` decides whether a result is wrong, `reference` opens
the engine that repeats runs, and `background` owns the threads that do it.
"""

from __future__ import annotations

import copy
import itertools
import random
import threading
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from typing import Any, Protocol

import numpy as np

from ort_py.discovery import CPU_ROLE, FallbackRecord
from ort_py.engine.engine import Engine
from ort_py.engine.recipe import ProviderArgument
from ort_py.engine.runs import run
from ort_py.hooks import VerifiedEvent
from ort_py.inspection.verification.background import process_background
from ort_py.inspection.verification.outcome import DifferingOutput, Finding, Outcome, Stopped
from ort_py.inspection.verification.reference import drawn_outputs, open_reference, tolerances_for
from ort_py.inspection.verification.report import Mismatch, VerificationReport
from ort_py.inspection.verification.search import differing_outputs, search
from ort_py.lazy_dataclass import dataclass
from ort_py.logs import DEBUG, WARNING, lazy_logger
from ort_py.options import RunOptions
from ort_py.platform.forks import notify_after_fork

_logger = lazy_logger("ort_py.verification")

MISMATCHES_KEPT = 16
"""The number of wrong results that a report keeps."""


class Verified(Protocol):
    """The part of a session that its verifier uses."""

    @property
    def engine(self) -> Engine:
        """The engine that runs the model now."""

    def set_providers(self, providers: ProviderArgument | None = None) -> None:
        """Build another engine with other providers, and use it from now on."""


@dataclass(slots=True)
class PickedRun:
    """A run to verify.

    Attributes:
        number: Number of the run in its session, from 1.
    """

    number: int
    names: Sequence[str]
    feed: Mapping[str, Any]
    nbytes: int
    results: list[Any] = field(default_factory=list)


class Verifier:
    """Verifies a share of one session's runs.

    Args:
        session: The session; held weakly.
        engine: Its engine, asked for options and names and not kept.
        share: From 0 to 1, above 0.
    """

    def __init__(self, session: weakref.ref[Verified], engine: Engine, share: float) -> None:
        self._session = session
        self._title, self._id, self._hooks = engine.description.title, engine.id, engine.hooks
        self._action = engine.options.verify_action
        self._tolerances = tolerances_for(engine.options)
        self._share = share
        self._dice = random.Random()  # noqa: S311 - which runs are picked need not be secret
        self._random = self._dice.random
        self._numbers = itertools.count(1)
        self._background = process_background()
        self._report = VerificationReport(share)
        self._reference: Engine | None = None
        self._drawn: frozenset[str] = frozenset()
        self._run_options = RunOptions()
        self._decided: set[int] = set()
        self._closed = False
        self._failure_logged = False
        self._working = 0
        self._changed = threading.Condition(threading.Lock())
        notify_after_fork(self)

    @property
    def active(self) -> bool:
        """True if runs are picked."""
        return not self._report.reason

    def after_fork(self) -> None:
        """Reset in a forked child: the parent verifies the waiting runs, and the lock is free."""
        self._changed = threading.Condition(threading.Lock())
        self._working = 0
        self._report = replace(self._report, waiting=0)
        self._dice.seed()
        self._decided.clear()

    def report(self) -> VerificationReport:
        with self._changed:
            return replace(self._report, seen=self._count_runs())

    def wait(self, seconds: float | None) -> VerificationReport:
        """Wait until no run waits for its verification, at most so long, and return the report so far."""
        with self._changed:
            self._changed.wait_for(lambda: not self._report.waiting, seconds)
            return replace(self._report, seen=self._count_runs())

    # -- runs, on their own threads ----------------------------------------------------------------------------

    def passes(self) -> bool:
        """Count a run that is about to start, and draw whether it goes unverified. Most runs do nothing else."""
        next(self._numbers)
        if self._random() < self._share:
            return False
        return not self._decided or threading.get_ident() not in self._decided

    def pick(self) -> int:
        """Return the number of a run that was drawn for verification, or 0 if the session verifies no more runs."""
        self._decided.discard(threading.get_ident())
        with self._changed:
            if self._report.reason:
                return 0
            self._report = replace(self._report, picked=self._report.picked + 1)
            return self._count_runs()

    def decide(self) -> bool:
        """Draw for the calling thread's next run before it starts, and remember the thread if the run is verified."""
        if self._random() < self._share and self.active:
            self._decided.add(threading.get_ident())
            return True
        next(self._numbers)
        return False

    def _count_runs(self) -> int:
        """Return how many runs have begun. `itertools.count` needs no lock, and its repr shows the next number."""
        return int(repr(self._numbers).removeprefix("count(").removesuffix(")")) - 1

    def drop(self) -> None:
        """Count a picked run that is not verified."""
        self._count(dropped=1)

    def begin(self, number: int, names: Sequence[str], feed: Mapping[str, Any]) -> PickedRun | None:
        """Copy the feed of a picked run. Returns None if too many copies wait already."""
        nbytes = bytes_of(feed)
        if not self._background.reserve(nbytes):
            self.drop()
            return None
        try:
            picked = PickedRun(number, names, copied(dict(feed)), nbytes)
        except Exception:  # out of memory, or a value that cannot be copied: the run goes on unverified
            self._background.release(nbytes)
            self.drop()
            return None
        self._count(waiting=1)
        return picked

    def abandon(self, picked: PickedRun) -> None:
        """Drop a picked run that failed itself."""
        self._end(picked, dropped=1)

    def submit(self, picked: PickedRun, results: Sequence[Any]) -> None:
        try:
            picked.results = [copied(value) for value in results]
            more = bytes_of(picked.results)
            picked.nbytes += more
            self._background.add(more)
            self._background.repeat(partial(self._work, self._repeat, picked))
        except Exception:  # out of memory: the run itself has succeeded
            self.abandon(picked)
        except BaseException:
            self.abandon(picked)
            raise

    # -- in the background -------------------------------------------------------------------------------------

    def _work(self, step: Any, *arguments: Any) -> None:
        """Run one step of a verification. If the verifier is closed meanwhile, this thread closes the reference."""
        picked: PickedRun = arguments[0]
        with self._changed:
            self._working += 1
        try:
            step(*arguments)
        except Stopped:
            self._end(picked, dropped=1)
        except Exception as error:  # the error may come from a plug-in; it is recorded and must not end the thread
            if self._closed:
                self._end(picked, dropped=1)
            else:
                self._failed(picked, error)
        finally:
            with self._changed:
                self._working -= 1
            self._close_when_idle()

    def _repeat(self, picked: PickedRun) -> None:
        reference = self._opened(picked)
        if reference is None:
            return
        names = [name for name in picked.names if name not in self._drawn]
        if not names:
            self._end(picked, dropped=1)
            return
        expected = run(reference, names, picked.feed, self._run_options)
        results = dict(zip(picked.names, picked.results, strict=True))
        differing, worst = differing_outputs(names, expected, [results[name] for name in names], self._tolerances)
        if differing:
            self._background.search(partial(self._work, self._search, picked, reference, results, differing))
            return
        self._publish(VerifiedEvent(self._id, Outcome.AGREED, picked.number))
        self._end(picked, agreed=1, worst=worst)

    def _search(
        self, picked: PickedRun, reference: Engine, results: Mapping[str, Any], differing: Sequence[DifferingOutput]
    ) -> None:
        session = self._session()
        outputs = tuple(one.name for one in differing)
        if session is None or self._closed:
            text = "; ".join(map(str, differing))
            _logger.warning(
                "run %d of %s: %s; the session was closed before the cause was found", picked.number, self._title, text
            )
            raise Stopped
        finding = search(
            reference, session.engine, picked.feed, results, differing, self._tolerances, stopped=lambda: self._closed
        )
        pinned = False
        if finding.outcome is Outcome.MISMATCH:
            _logger.warning(
                "run %d of %s differs from the NumPy provider: %s", picked.number, self._title, finding.reason
            )
            pinned = self._action == "pin" and self._pin(session, finding)
        else:
            _logger.info("run %d of %s: %s", picked.number, self._title, finding.reason)
        where = (finding.node, finding.value, finding.provider)
        self._publish(VerifiedEvent(self._id, finding.outcome, picked.number, outputs, *where, finding.reason, pinned))
        if finding.outcome is Outcome.TIE:
            self._end(picked, ties=1)
        elif finding.outcome is Outcome.DRIFT:
            self._end(picked, drifted=1)
        else:
            mismatch = Mismatch(
                picked.number, outputs, finding.node, finding.value, finding.provider, finding.region, finding.reason
            )
            self._end(picked, mismatch, mismatched=1)

    def _pin(self, session: Verified, finding: Finding) -> bool:
        """Move the session to the NumPy provider. Returns True on success."""
        if not self.active:
            return False
        self._stop("the session was moved to the NumPy provider after a wrong result")
        try:
            pin(session, finding)
        except Exception as error:  # the error may come from a plug-in; the session stays as it was
            self._stop("")
            _logger.exception("%s could not be moved to the NumPy provider: %s", self._title, error)
            return False
        return True

    def _opened(self, picked: PickedRun) -> Engine | None:
        """Return the engine that repeats runs, opened at its first use, or None if it cannot be opened."""
        if self._reference is not None and not self._closed:
            return self._reference
        session = self._session()
        if session is None or self._closed or not self.active:
            raise Stopped
        try:
            reference = open_reference(session.engine)
        except Exception as error:  # whatever the error is: a run that cannot be verified must not fail because of it
            if self._closed:
                raise Stopped from error
            self._stop(f"{type(error).__name__}: {error}")
            _logger.warning("runs of %s cannot be verified: %s", self._title, error)
            self._failed(picked, error, logged=True)
            return None
        self._reference, self._drawn = reference, drawn_outputs(reference)
        with self._changed:
            self._report = replace(self._report, not_compared=tuple(sorted(self._drawn)))
        if self._drawn and len(self._drawn) == len(reference.description.outputs):
            self._stop("all outputs depend on random operators")
            _logger.warning("runs of %s cannot be verified: all its outputs depend on random operators", self._title)
        elif self._drawn:
            _logger.info("outputs of %s that are random are not compared: %s", self._title, ", ".join(self._drawn))
        return reference

    def _failed(self, picked: PickedRun, error: Exception, *, logged: bool = False) -> None:
        reason = f"{type(error).__name__}: {error}"
        if not logged:
            level = DEBUG if self._failure_logged else WARNING
            self._failure_logged = True
            _logger.log(level, "run %d of %s could not be verified: %s", picked.number, self._title, reason)
        self._publish(VerifiedEvent(self._id, Outcome.FAILED, picked.number, reason=reason))
        self._end(picked, failed=1)

    # -- counting and closing ----------------------------------------------------------------------------------

    def close(self) -> None:
        """Stop verifications before their next step, and release the reference, without waiting for them."""
        self._stop("the session is closed")
        self._closed = True
        self._run_options.terminate = True
        self._close_when_idle()

    def _close_when_idle(self) -> None:
        with self._changed:
            if not self._closed or self._working:
                return
            reference, self._reference = self._reference, None
        if reference is not None:
            reference.close()

    def _stop(self, reason: str) -> None:
        """Stop picking runs, and keep the first reason. An empty reason starts picking again."""
        with self._changed:
            self._report = replace(self._report, reason=(self._report.reason or reason) if reason else "")

    def _publish(self, event: VerifiedEvent) -> None:
        if self._hooks.has_observers("ort_py_run_verified"):
            self._hooks.observe("ort_py_run_verified", event)

    def _end(self, picked: PickedRun, mismatch: Mismatch | None = None, *, worst: float = 0.0, **counts: int) -> None:
        """Count the end of a run's verification, and release its copies."""
        self._background.release(picked.nbytes)
        self._count(mismatch, worst=worst, waiting=-1, **counts)

    def _count(self, mismatch: Mismatch | None = None, *, worst: float = 0.0, **counts: int) -> None:
        with self._changed:
            known = self._report
            changed = {name: max(0, getattr(known, name) + more) for name, more in counts.items()}
            kept = known.mismatches if mismatch is None else (*known.mismatches, mismatch)[-MISMATCHES_KEPT:]
            self._report = replace(known, worst=max(worst, known.worst), mismatches=kept, **changed)
            self._changed.notify_all()


def pin(session: Verified, finding: Finding) -> None:
    """Build the session again on the plain NumPy provider; if that fails, the session stays as it was.

    Runs under way are not affected. The session's fallback report records the change, and `session.state` is degraded.

    Raises:
        OrtPyError: The session is closed, or the NumPy provider cannot run the model.
    """
    options = session.engine.options
    former = options.pin_cpu, options.strict
    options.pin_cpu, options.strict = True, ""
    try:
        session.set_providers([CPU_ROLE])
    except BaseException:
        options.pin_cpu, options.strict = former
        raise
    provider = finding.provider or "The session"
    record = FallbackRecord("run", provider, f"a result was wrong: {finding.reason}", finding.node, CPU_ROLE)
    session.engine.recovery.moved.add(provider)
    session.engine.fallbacks.note(record)


def copied(value: Any) -> Any:
    """Copy a host value, because its owner may write to it at any time: an array, a list, a mapping or a scalar."""
    if isinstance(value, np.ndarray):
        return value.copy(order="C")
    if isinstance(value, list):
        return [copied(item) for item in value]
    if isinstance(value, dict):
        return {key: copied(item) for key, item in value.items()}
    return value if value is None or isinstance(value, np.generic) else copy.deepcopy(value)


def bytes_of(value: Any) -> int:
    """Estimate the bytes of a copy of a host value, without the contents of strings."""
    if isinstance(value, np.ndarray):
        return int(value.nbytes)
    if isinstance(value, list):
        return sum(map(bytes_of, value))
    return sum(map(bytes_of, value.values())) if isinstance(value, dict) else 64
