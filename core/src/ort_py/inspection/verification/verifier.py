"""The verifier of one session: picks runs, has them repeated in the background, and acts on what is found.

Made only where a share of the runs is to be verified. It holds the session weakly, so that a session that is dropped
is closed, and its own lock only for counting. What a wrong result looks like is decided by `search`; who repeats runs
is `reference`; where that happens is `background`.
"""

from __future__ import annotations

import itertools
import random
import threading
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from typing import Any

from ort_py.engine.engine import Engine
from ort_py.engine.runs import run
from ort_py.hooks import VerifiedEvent
from ort_py.inspection.verification.background import process_background
from ort_py.inspection.verification.copies import bytes_of, copied
from ort_py.inspection.verification.outcome import DifferingOutput, Finding, Outcome, Stopped
from ort_py.inspection.verification.pinning import pin
from ort_py.inspection.verification.reference import drawn_outputs, open_reference, tolerances_for
from ort_py.inspection.verification.report import Mismatch, VerificationReport
from ort_py.inspection.verification.search import differing_outputs, search
from ort_py.inspection.verification.verified import Verified
from ort_py.lazy_dataclass import dataclass
from ort_py.logs import DEBUG, WARNING, lazy_logger
from ort_py.options import RunOptions
from ort_py.platform.forks import notify_after_fork

_logger = lazy_logger("ort_py.verification")

MISMATCHES_KEPT = 16
"""Wrong results in a report."""


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
        self._told_failure = False
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
        """Wait until no run waits for its verification, at most so long; what was found so far."""
        with self._changed:
            self._changed.wait_for(lambda: not self._report.waiting, seconds)
            return replace(self._report, seen=self._count_runs())

    # -- runs, on their own threads ----------------------------------------------------------------------------

    def passes(self) -> bool:
        """Count a run that is about to start, and draw whether it goes unverified. All that most runs cost."""
        next(self._numbers)
        if self._random() < self._share:
            return False
        return not self._decided or threading.get_ident() not in self._decided

    def pick(self) -> int:
        """The number of a run that was drawn for verification; 0 where the session verifies no more runs."""
        self._decided.discard(threading.get_ident())
        with self._changed:
            if self._report.reason:
                return 0
            self._report = replace(self._report, picked=self._report.picked + 1)
            return self._count_runs()

    def decide(self) -> bool:
        """Draw for a run of the calling thread before it is known how it is run; where it is drawn, the next is it."""
        if self._random() < self._share and self.active:
            self._decided.add(threading.get_ident())
            return True
        next(self._numbers)
        return False

    def _count_runs(self) -> int:
        """Runs begun so far. A count hands out its numbers to all threads without a lock, and shows the next one."""
        return int(repr(self._numbers).removeprefix("count(").removesuffix(")")) - 1

    def drop(self) -> None:
        """Count a picked run that is not verified."""
        self._count(dropped=1)

    def begin(self, number: int, names: Sequence[str], feed: Mapping[str, Any]) -> PickedRun | None:
        """Copy what a picked run reads; None where too much waits already."""
        nbytes = bytes_of(feed)
        if not self._background.reserve(nbytes):
            self.drop()
            return None
        try:
            picked = PickedRun(number, names, copied(dict(feed)), nbytes)
        except Exception:  # memory that is short, or a value that cannot be copied: the run goes on without
            self._background.release(nbytes)
            self.drop()
            return None
        self._count(waiting=1)
        return picked

    def abandon(self, picked: PickedRun) -> None:
        """A picked run did not end well."""
        self._end(picked, dropped=1)

    def submit(self, picked: PickedRun, results: Sequence[Any]) -> None:
        try:
            picked.results = [copied(value) for value in results]
            more = bytes_of(picked.results)
            picked.nbytes += more
            self._background.add(more)
            self._background.repeat(partial(self._work, self._repeat, picked))
        except Exception:  # memory that is short: the run itself is well
            self.abandon(picked)
        except BaseException:
            self.abandon(picked)
            raise

    # -- in the background -------------------------------------------------------------------------------------

    def _work(self, step: Any, *arguments: Any) -> None:
        """Make a step of a verification. A thread that closes the verifier meanwhile leaves the reference to this."""
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
        found = dict(zip(picked.names, picked.results, strict=True))
        differing, worst = differing_outputs(names, expected, [found[name] for name in names], self._tolerances)
        if differing:
            self._background.search(partial(self._work, self._search, picked, reference, found, differing))
            return
        self._publish(VerifiedEvent(self._id, Outcome.AGREED, picked.number))
        self._end(picked, agreed=1, worst=worst)

    def _search(
        self,
        picked: PickedRun,
        reference: Engine,
        found: Mapping[str, Any],
        differing: Sequence[DifferingOutput],
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
            reference, session.engine, picked.feed, found, differing, self._tolerances, stopped=lambda: self._closed
        )
        pinned = False
        if finding.outcome is Outcome.MISMATCH:
            _logger.warning(
                "run %d of %s differs from the NumPy provider: %s", picked.number, self._title, finding.reason
            )
            pinned = self._action == "pin" and self._pin(session, finding)
        else:
            _logger.info("run %d of %s: %s", picked.number, self._title, finding.reason)
        self._publish(
            VerifiedEvent(
                self._id,
                finding.outcome,
                picked.number,
                outputs,
                finding.node,
                finding.value,
                finding.provider,
                finding.reason,
                pinned,
            )
        )
        self._conclude(picked, finding, outputs)

    def _conclude(self, picked: PickedRun, finding: Finding, outputs: tuple[str, ...]) -> None:
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
        """Move the session to the NumPy provider; returns whether that was possible."""
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
        """The engine that repeats runs, made when it is first needed; None where there can be none."""
        if self._reference is not None and not self._closed:
            return self._reference
        session = self._session()
        if session is None or self._closed or not self.active:
            raise Stopped
        try:
            reference = open_reference(session.engine)
        except Exception as error:  # whatever the error is: a run that cannot be verified must not fail because of it
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
            level = DEBUG if self._told_failure else WARNING
            self._told_failure = True
            _logger.log(level, "run %d of %s could not be verified: %s", picked.number, self._title, reason)
        self._publish(VerifiedEvent(self._id, Outcome.FAILED, picked.number, reason=reason))
        self._end(picked, failed=1)

    # -- counting and closing ----------------------------------------------------------------------------------

    def close(self) -> None:
        """Stop what is under way before its next step, and release the reference; waits for nothing."""
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
        """Pick no more runs for a reason; the first one counts. An empty one takes it back."""
        with self._changed:
            self._report = replace(self._report, reason=(self._report.reason or reason) if reason else "")

    def _publish(self, event: VerifiedEvent) -> None:
        if self._hooks.has_observers("ort_py_run_verified"):
            self._hooks.observe("ort_py_run_verified", event)

    def _end(self, picked: PickedRun, mismatch: Mismatch | None = None, *, worst: float = 0.0, **counts: int) -> None:
        """The verification of a run has ended, one way or another."""
        self._background.release(picked.nbytes)
        self._count(mismatch, worst=worst, waiting=-1, **counts)

    def _count(self, mismatch: Mismatch | None = None, *, worst: float = 0.0, **counts: int) -> None:
        with self._changed:
            known = self._report
            changed = {name: max(0, getattr(known, name) + more) for name, more in counts.items()}
            kept = known.mismatches if mismatch is None else (*known.mismatches, mismatch)[-MISMATCHES_KEPT:]
            self._report = replace(known, worst=max(worst, known.worst), mismatches=kept, **changed)
            self._changed.notify_all()
