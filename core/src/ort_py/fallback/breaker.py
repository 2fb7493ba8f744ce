"""The circuit breaker: keeps what fails from being tried again with every run, and lets it be tried now and then.

It is independent of sessions and providers, and no thread waits in it. `circuits` keeps one for each provider of a
session, `lost_devices` one for each device of the process.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import StrEnum

from ort_py.lazy_dataclass import dataclass
from ort_py.platform.forks import ProcessLock

Clock = Callable[[], float]
"""Seconds that only grow, e.g. `time.monotonic`."""

LONGEST = 3600.0
"""Seconds between two trials at most: the pause doubles with each one that fails."""


class BreakerState(StrEnum):
    """CLOSED: it is used. OPEN: it is left out. HALF_OPEN: it is left out, and may be tried once."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half-open"


@dataclass(frozen=True, slots=True)
class Circuit:
    """The state of a breaker, for reports.

    Attributes:
        name: Name of the guarded provider or device.
        failures: Failures counted since it was closed last.
        seconds: Until it may be tried again; 0 where it may be now, or is used.
    """

    name: str
    state: BreakerState
    failures: int
    seconds: float


class CircuitBreaker:
    """Counts failures; open from the `failures`-th on, half-open after a pause that doubles with each failed trial.

    Args:
        failures: Failures that open it; those longer ago than the pause do not count.
        pause: Seconds from opening to the first trial; 0 for no trial at all.
        clock: Tells the time.
    """

    def __init__(self, failures: int = 1, pause: float = 60.0, clock: Clock = time.monotonic) -> None:
        self._limit = failures
        self._pause = self._next_pause = pause
        self._clock = clock
        self._failures = 0
        self._last = 0.0
        self._retry_at: float | None = None
        self._trying = False
        self._lock = ProcessLock()

    @property
    def state(self) -> BreakerState:
        """Closed, open or half-open, now."""
        if self._retry_at is None:
            return BreakerState.CLOSED
        due = self._pause > 0 and self._clock() >= self._retry_at
        return BreakerState.HALF_OPEN if due else BreakerState.OPEN

    def failed(self) -> bool:
        """Count a failure, also of a trial. Returns whether the breaker is open now."""
        with self._lock.held():
            now = self._clock()
            if self._retry_at is not None:
                if self._trying:
                    self._next_pause = min(LONGEST, 2 * self._next_pause)
                self._failures += 1
                self._open(now)
                return True
            if self._failures and self._pause and now - self._last > self._pause:
                self._failures = 0
            self._failures, self._last = self._failures + 1, now
            if self._failures >= self._limit:
                self._open(now)
            return self._retry_at is not None

    def trip(self) -> None:
        """Open it, however few failures were counted."""
        with self._lock.held():
            self._failures = max(1, self._failures)
            self._open(self._clock())

    def begin_trial(self) -> bool:
        """Return whether the caller may try once: the breaker is half-open, and no other trial runs. A trial ends with
        `failed`, `succeeded` or `abandon`.
        """
        with self._lock.held():
            if self._trying or self.state is not BreakerState.HALF_OPEN:
                return False
            self._trying = True
            return True

    def abandon(self) -> None:
        """End a trial without a result, so that another run may try."""
        self._trying = False

    def succeeded(self) -> None:
        """Close the breaker: what it guards works."""
        with self._lock.held():
            self._failures, self._retry_at, self._trying = 0, None, False
            self._next_pause = self._pause

    def as_circuit(self, name: str) -> Circuit:
        """The breaker's state as a record."""
        with self._lock.held():
            left = 0.0 if self._retry_at is None else max(0.0, self._retry_at - self._clock())
            return Circuit(name, self.state, self._failures, left)

    def _open(self, now: float) -> None:
        self._retry_at, self._trying = now + self._next_pause, False
