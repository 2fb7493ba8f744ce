"""Gives memory back when the process's control group runs short of it, before the kernel slows or kills it.

The check happens when a run returns its frame, at most once a second, in the thread of that run. There is no extra
thread, no check while nothing runs, and none at all if no control group has a memory limit. Objects that have joined
are asked to give memory back; this module does not depend on sessions.

``ORT_PY_MEMORY_PRESSURE`` is the part of the limit above which memory is given back, 0.9 by default; ``off`` for never.
"""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Callable, Mapping
from typing import Protocol

from ort_py.errors import OptionError
from ort_py.logs import lazy_logger
from ort_py.platform.control_groups import GroupMemory, LimitedGroup, limited_groups
from ort_py.platform.forks import ProcessLock

_logger = lazy_logger("ort_py.memory")

VARIABLE = "ORT_PY_MEMORY_PRESSURE"

_USUAL = 0.9
_LEAST_STALL, _LEAST_SHARE = 10.0, 0.5
"""Percent of time lost to waiting for memory that counts as pressure, in a group that uses half of its limit: where it
uses less, its stalls are the whole machine's, and the little that is here would not help."""

_BETWEEN_LOOKS = 1.0
_AFTER_TRIM, _LONGEST = 5.0, 300.0
"""Seconds after giving back until the next time; twice as long each time it has not helped."""


class Trimmable(Protocol):
    """An object that can give memory back."""

    def trim(self) -> None:
        """Give back what is kept only for speed."""


class MemoryPressure:
    """Watches control groups and trims the objects that have joined.

    Args:
        threshold: Part of the limit above which memory is given back.
        clock: Seconds.

    Attributes:
        due: Time of the next check. The end of a run compares it with the clock, which is the only cost for most runs.
        trims: Number of times that memory was given back.
    """

    def __init__(
        self, groups: list[LimitedGroup], threshold: float = _USUAL, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._groups = groups
        self._threshold = threshold
        self._clock = clock
        self._members: weakref.WeakSet[Trimmable] = weakref.WeakSet()
        self._lock = ProcessLock()
        self._failures = dict(self._count_failures())
        self._pause = _AFTER_TRIM
        self._trimmed_at = float("-inf")
        self.due = 0.0
        self.trims = 0

    def join(self, member: Trimmable) -> None:
        """Trim this too, as long as it is there."""
        with self._lock.held():
            self._members.add(member)

    def check(self) -> None:
        """Read the groups, and trim where one of them is short of memory and the last time is long enough ago."""
        now = self._clock()
        with self._lock.held():
            if now < self.due:
                return  # another thread was faster
            self.due = now + _BETWEEN_LOOKS
            reason = self._reason()
            if not reason:
                self._pause = _AFTER_TRIM
                return
            if now - self._trimmed_at < self._pause:
                return
            self._pause = min(_LONGEST, 2 * self._pause)
            self._trimmed_at = now
            self.trims += 1
            members = list(self._members)
        _logger.warning(
            "memory is short: %s; %d session(s) release the memory that they keep for speed", reason, len(members)
        )
        for member in members:
            try:
                member.trim()
            except Exception:  # a plug-in's allocator may fail; the others still have memory to give
                _logger.exception("releasing memory failed")

    def _count_failures(self) -> list[tuple[str, int]]:
        return [(found.group, found.failures) for group in self._groups if (found := group.read()) is not None]

    def _reason(self) -> str:
        """Explain why memory is short; ``""`` if it is not."""
        for group in self._groups:
            found = group.read()
            if found is not None and (reason := self._pressed(found)):
                return f"{found.group} {reason}"
        return ""

    def _pressed(self, found: GroupMemory) -> str:
        before = self._failures.get(found.group, 0)
        self._failures[found.group] = found.failures
        if found.share >= self._threshold:
            return f"uses {found.used >> 20} of {found.limit >> 20} MiB"
        if found.stalled >= _LEAST_STALL and found.share >= _LEAST_SHARE:
            return f"waits for memory {found.stalled:g} % of the time"
        if found.failures > before:
            return "has run out of memory"
        return ""


def threshold_of(environment: Mapping[str, str] = os.environ) -> float | None:
    """Read the threshold from the environment: the default if it is not set, None if it switches the check off.

    Raises:
        OptionError: It says something else.
    """
    text = environment.get(VARIABLE, "").strip().lower()
    if text in ("", "on"):
        return _USUAL
    if text in ("off", "0"):
        return None
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 < found <= 1:
        raise OptionError(
            f"{VARIABLE} cannot be '{text}'.",
            why="the value is the share of the memory limit above which memory is released",
            fix=f"Set it to a number between 0 and 1, e.g. {VARIABLE}=0.8, or to 'off'.",
        )
    return found


_process: dict[str | os.PathLike[str], MemoryPressure | None] = {}


def pressure_of_process(root: str | os.PathLike[str] = "/") -> MemoryPressure | None:
    """The watcher of this process. None if no group has a limit or the environment switches it off.

    Found out once: limits that are set later than the first session are not noticed.
    """
    if root not in _process:
        threshold = threshold_of()
        groups = limited_groups(root) if threshold is not None else []
        _process.setdefault(root, MemoryPressure(groups, threshold) if groups and threshold is not None else None)
    return _process[root]
