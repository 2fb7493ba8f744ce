"""Whether other programs hold the processors that this one's threads want.

Work that is split evenly is done when its slowest part is: with a neighbour on one of two processors, both wait for a
turn of that one at each primitive, and two threads are slower than one, by a factor of ten where primitives are small.
A run that waited so much shows it: its thread was off its processor for longer than the help of the others saved. Then
runs take one thread for a while, and try again; the while grows as long as trying fails. A fact about the machine, so
one judgement serves the process.
"""

from __future__ import annotations

import time

__all__ = ["CROWDING", "Crowding"]

_SHORTEST, _LONGEST = 0.25, 4.0
"""Seconds of running on one thread before several are tried again."""

_STRIKES = 3
"""Runs in a row that waited: a single one may be the scheduler's whim, or the start of a team."""

_JUDGED = 1e-4
"""Seconds a run must take to say anything."""


class Crowding:
    """The judgement, and how it is come to.

    Without a lock, which a forked child could find closed: what threads note at the same time may count as one.
    """

    __slots__ = ("_pause", "_strikes", "_until")

    def __init__(self) -> None:
        self._strikes = 0
        self._pause = _SHORTEST
        self._until = 0.0

    def threads(self, count: int) -> int:
        """How many threads a run should take now, of so many."""
        return 1 if self._until and time.perf_counter() < self._until else count

    def note(self, elapsed: float, worked: float, count: int) -> None:
        """Note a run on several threads.

        Args:
            elapsed: Seconds from its begin to its end.
            worked: Seconds of them in which the calling thread was on a processor.
            count: Number of threads.
        """
        if elapsed < _JUDGED:
            return
        # Alone it would have worked `count` times as long, at most.
        if elapsed < 0.9 * count * worked:
            if self._strikes or self._until:
                self._strikes, self._until, self._pause = 0, 0.0, _SHORTEST
            return
        self._strikes += 1
        # After a while of one thread, one run that waits is enough to know that nothing has changed.
        if self._strikes >= _STRIKES or self._until:
            self._strikes = 0
            self._pause = min(2 * self._pause, _LONGEST) if self._until else _SHORTEST
            self._until = time.perf_counter() + self._pause


CROWDING = Crowding()
"""Of this process."""
