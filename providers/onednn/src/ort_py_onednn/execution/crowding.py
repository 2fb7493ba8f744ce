"""Whether a region's runs take its threads or one alone: decided by what its runs took.

Work that is split evenly is done when its slowest part is: with a neighbour on one of two processors, both wait for a
turn of that one at each primitive, and two threads are slower than one, by a factor of ten where primitives are small.
Small regions between work of others are slower on two threads anywhere: the second one sleeps, and is waked each time.

A run that waited shows it: its thread was off its processor for longer than the help of the others saved. But a thread
also sleeps where the others merely have more to do, so waiting is a suspicion. A few runs on one thread then say which
is the faster. Where one is, the region's runs take it for a while, and then a few of them try again: soon, for a
neighbour may have gone, but so that what a failed try costs stays a twentieth. A few, because the first one after a
pause is slow anywhere: the other threads sleep deeply, and what they read has left their caches.

Short work that begins a while after the last is suspicious, too: the other threads have fallen asleep meanwhile, and to
wake them takes as long as a part of it. So it is where an interpreter computes between the regions of a loop.

Threads that spin while they wait for the others do not sleep, so nothing looks suspicious. A region is therefore also
compared with one thread without any suspicion: once it has run for a while, and then more and more rarely. Runs of
microseconds are never suspected, and such comparisons are all they have: they come soon.

Each region judges for itself, and counts its own time: one for which several threads do not pay says nothing of others.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence

__all__ = ["Pace", "Team"]

_SHORTEST, _LONGEST = 10, 1.0
"""Runs, and seconds of running, on one thread before several are tried again."""

_SHARE = 20
"""How many times what a failed try lost must pass before the next."""

_RUNS = 3
"""Runs that are compared; as many must wait in a row, for one may be the scheduler's whim, or the start of a team."""

_BRIEF_RUNS = 9
"""The same where runs are brief: their times differ by more, and more of them are soon made."""

_GAIN = 0.95
"""What a few threads must take of one thread's time, and one of theirs, to be called faster."""

_HOPELESS = 2.0
"""What a try after the first takes of one thread's time to be the last."""

_TRUST = 2.0
"""Seconds for which threads that wait, and are the faster all the same, are not suspected again."""

_UNASKED = 0.5
"""Seconds of running on several threads after which one is tried without a suspicion: planning for one thread takes as
long as planning for several did."""

_SOON = 0.05
"""The same for runs that are too short to be suspected, whose plans are made in milliseconds: a sleeping thread that is
waked in each of them may take several times as long as all of their work."""

_WARM = 10
"""Short runs on one thread of which the last few are compared: what the others read comes from distant caches."""

_LATER = 10
"""A region must have run so many times as long before it is compared without a suspicion once more."""

_SHORT = 0.02
"""Seconds of the longest run that is compared without a suspicion: in longer ones, what threads wait for each other is
a small part."""

_JUDGED = 1e-4
"""Seconds a run must take to be suspected: clocks of processors tick too slowly for less. One shorter run says nothing,
so a few are compared with a few."""

_ASLEEP = 5e-5
"""Seconds without work after which other threads may have fallen asleep: they wait in a loop for 30 to 160 µs."""

_BRIEF = 5e-4
"""Seconds of the longest run for which waking them may cost more than they save: it takes 30 to 100 µs."""


class Team(threading.local):
    """The threads that share the work of the calling one.

    Attributes:
        ended: When they last worked.
    """

    ended = 0.0


class Pace:
    """Times of the last runs of one region, in seconds per element of the inputs so that sizes may change, and the
    judgement that follows.

    Used by one thread at a time, as the frame that it belongs to.
    """

    __slots__ = (
        "_compared",
        "_due",
        "_lost",
        "_many",
        "_one",
        "_owed",
        "_ran",
        "_rest",
        "_slept",
        "_strikes",
        "_tries",
        "_trusted",
    )

    def __init__(self) -> None:
        self._many: deque[float] = deque(maxlen=_BRIEF_RUNS)
        self._one: deque[float] = deque(maxlen=_BRIEF_RUNS)
        self._compared = _RUNS  # how many of either are compared
        self._strikes = 0  # runs in a row that waited
        self._slept = 0  # runs in a row that woke the other threads
        self._owed = 0  # runs on one thread that are to be made and compared
        self._trusted = 0.0  # the time until which waiting is not suspicious
        self._rest = 0.0  # seconds that runs on one thread are still to take; below 0: several are being tried
        self._tries = 0  # consecutive runs that tried several threads again and were not faster
        self._lost = 0.0  # seconds that these took longer than one thread does
        self._ran = 0.0  # seconds of running on several threads
        self._due = 0.0  # how many of these make the next comparison due; 0 before the first

    def threads(self, count: int) -> int:
        """Number of threads, up to `count`, that a run should use now."""
        return 1 if self._owed or self._rest > 0.0 else count

    def note(self, count: int, elapsed: float, worked: float, size: int, idle: float = 0.0) -> None:
        """Note a run of work that several threads may share.

        Args:
            count: Number of threads it took.
            elapsed: Seconds from its begin to its end.
            worked: Seconds of them in which the calling thread was on a processor.
            size: Elements of its inputs.
            idle: Seconds for which the other threads had no work before its begin.
        """
        each = elapsed / max(1, size)
        if count == 1:
            self._one.append(each)
            if self._owed:
                self._owed -= 1
                if not self._owed:
                    self._compare(size)
            elif self._rest > 0.0:
                self._rest -= elapsed
                if self._rest <= 0.0:
                    self._rest = -1.0
            return
        self._many.append(each)
        self._ran += elapsed
        if self._rest:
            self._tried(each, size)
        elif elapsed <= _SHORT and self._ran >= max(self._awaited(elapsed), _SHARE * _RUNS * elapsed):
            self._due = _LATER * self._ran
            if elapsed >= _JUDGED:
                self._ask(_RUNS)
            else:
                self._ask(_RUNS, _WARM)
        else:
            self._strikes = self._strikes + 1 if _waits(count, elapsed, worked) else 0
            self._slept = self._slept + 1 if _sleeps(elapsed, idle) else 0
            waited, slept = self._strikes >= _RUNS, self._slept >= _BRIEF_RUNS
            if (waited or slept) and time.perf_counter() >= self._trusted:
                self._ask(_BRIEF_RUNS if slept else _RUNS)

    def _awaited(self, elapsed: float) -> float:
        """Seconds of running on several threads that make a comparison due."""
        return self._due or (_UNASKED if elapsed >= _JUDGED else _SOON)

    def _ask(self, compared: int, runs: int = 0) -> None:
        """Have the next runs made on one thread, and the last of them compared.

        Args:
            compared: How many are compared.
            runs: How many are made, if that is more.
        """
        self._one.clear()
        self._strikes = self._slept = 0
        self._compared, self._owed = compared, max(compared, runs)

    def _compare(self, size: int) -> None:
        """Judge by as many runs of both kinds."""
        many, one = self._middle(self._many), self._middle(self._one)
        if one < _GAIN * many:
            self._pause((many - one) * size, one * size)
        else:
            self._trusted = time.perf_counter() + max(_TRUST, _SHARE * _RUNS * (one - many) * size)

    def _tried(self, each: float, size: int) -> None:
        """Judge a try after a while on one thread."""
        one = self._middle(self._one)
        short = one * size < _JUDGED
        if short or each >= _GAIN * one:
            self._tries += 1
            self._lost += max(0.0, each - one) * size
            if self._tries < _RUNS and (short or self._tries == 1 or each < _HOPELESS * one):
                return
        if each < _GAIN * one and not short:
            self._rest = 0.0
        elif short and _median(list(self._many)[-_RUNS:]) < _GAIN * one:
            self._rest = 0.0
            self._due = min(self._due, self._ran + _SOON)
        else:
            self._pause(self._lost, one * size)
        self._tries, self._lost = 0, 0.0

    def _middle(self, times: deque[float]) -> float:
        """The median of the last times."""
        return _median(list(times)[-self._compared :])

    def _pause(self, lost: float, one: float) -> None:
        """Run on one thread for as long as what was lost is worth."""
        self._rest = max(_SHORTEST * one, min(_LONGEST, _SHARE * lost))


def _waits(count: int, elapsed: float, worked: float) -> bool:
    """Return whether a run was off its processor for long: alone it would have worked `count` times as long."""
    return elapsed >= _JUDGED and elapsed >= 0.9 * count * worked


def _sleeps(elapsed: float, idle: float) -> bool:
    """Return whether a run was short, and had to wake its other threads."""
    return elapsed <= _BRIEF and idle >= _ASLEEP


def _median(values: Sequence[float]) -> float:
    """The middle value, or the mean of the two in the middle."""
    # The module `statistics` loads those of fractions and decimal numbers.
    ordered = sorted(values)
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2
