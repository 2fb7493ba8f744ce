"""Whether a run takes its threads or one alone, because other programs hold the processors: decided by what runs took.

Work that is split evenly is done when its slowest part is: with a neighbour on one of two processors, both wait for a
turn of that one at each primitive, and two threads are slower than one, by a factor of ten where primitives are small.
A run that waited shows it: its thread was off its processor for longer than the help of the others saved. But a thread
also sleeps where the others merely have more to do, so waiting is a suspicion. A few runs on one thread then say which
is the faster. Where one is, all runs take it for a while, and then one of them tries again: soon, for a neighbour may
have gone, but so that what a failed try costs stays a twentieth.

That processors are taken is a fact about the machine, so that judgement serves the process; times belong to a region.
"""

from __future__ import annotations

import statistics
import time
from collections import deque

__all__ = ["CROWDING", "Crowding", "Pace"]

_SHORTEST, _LONGEST = 0.02, 1.0
"""Seconds of running on one thread before several are tried again."""

_SHARE = 20
"""How many times what a failed try lost must pass before the next."""

_RUNS = 3
"""Runs that are compared; as many must wait in a row, for one may be the scheduler's whim, or the start of a team."""

_GAIN = 0.95
"""What a few threads must take of one thread's time, and one of theirs, to be called faster."""

_TRUST = 2.0
"""Seconds for which threads that wait, and are the faster all the same, are not suspected again."""

_JUDGED = 1e-4
"""Seconds a run must take to be suspected: clocks of processors tick too slowly for less."""


class Pace:
    """What the last runs of one region took, in seconds an element of the inputs, so that sizes may change.

    Attributes:
        many: Runs on several threads.
        one: Runs on one.
        strikes: Runs in a row that waited.
        owed: Runs on one thread that are to be made and compared.
        trusted: Until when waiting is no suspicion.
    """

    __slots__ = ("many", "one", "owed", "strikes", "trusted")

    def __init__(self) -> None:
        self.many: deque[float] = deque(maxlen=_RUNS)
        self.one: deque[float] = deque(maxlen=_RUNS)
        self.strikes = 0
        self.owed = 0
        self.trusted = 0.0


class Crowding:
    """The judgement, and how it is come to.

    Without a lock, which a forked child could find closed: what threads note at the same time may count as one.
    """

    __slots__ = ("_pause", "_until")

    def __init__(self) -> None:
        self._pause = _SHORTEST
        self._until = 0.0

    def threads(self, count: int, pace: Pace) -> int:
        """How many threads a run should take now.

        Args:
            count: As many as it may take.
            pace: What its region's runs took.
        """
        if pace.owed:
            return 1
        if self._until and (not pace.one or time.perf_counter() < self._until):
            return 1
        return count

    def note(self, pace: Pace, count: int, elapsed: float, worked: float, size: int) -> None:
        """Note a run of work that several threads may share.

        Args:
            pace: What its region's runs took.
            count: Number of threads it took.
            elapsed: Seconds from its begin to its end.
            worked: Seconds of them in which the calling thread was on a processor.
            size: Elements of its inputs.
        """
        each = elapsed / max(1, size)
        if count == 1:
            pace.one.append(each)
            if pace.owed:
                pace.owed -= 1
                if not pace.owed:
                    self._compare(pace, size)
            return
        pace.many.append(each)
        if self._until:
            self._tried(pace, each, size)
        elif elapsed < _JUDGED or elapsed < 0.9 * count * worked:  # alone it would have worked `count` times as long
            pace.strikes = 0
        else:
            pace.strikes += 1
            if pace.strikes >= _RUNS and time.perf_counter() >= pace.trusted:
                pace.one.clear()
                pace.strikes, pace.owed = 0, _RUNS

    def _compare(self, pace: Pace, size: int) -> None:
        """Judge a suspicion by as many runs of both kinds."""
        many, one = statistics.median(pace.many), statistics.median(pace.one)
        now = time.perf_counter()
        if one < _GAIN * many:
            self._pause = max(_SHORTEST, min(_LONGEST, _SHARE * (many - one) * size))
            self._until = now + self._pause
        else:
            pace.trusted = now + max(_TRUST, _SHARE * _RUNS * (one - many) * size)

    def _tried(self, pace: Pace, each: float, size: int) -> None:
        """Judge a try after a while on one thread."""
        one = statistics.median(pace.one) if pace.one else 0.0
        if each < _GAIN * one:
            self._until, self._pause = 0.0, _SHORTEST
            return
        self._pause = min(_LONGEST, max(2 * self._pause, _SHARE * (each - one) * size))
        self._until = time.perf_counter() + self._pause


CROWDING = Crowding()
"""Of this process."""
