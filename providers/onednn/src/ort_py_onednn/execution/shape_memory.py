"""Memory that is kept for shapes seen before, bounded by bytes for the whole process.

Plans and their bound forms are made again when they are needed, so they may be dropped at any time. What many of them
share, such as a primitive, counts once. The entry that was not used for the longest time is dropped first. Using an
entry costs its user one assignment and no lock (`Entry.used`): an entry that was used since it was looked at last is
given a second chance. It does not depend on what it holds.

Entries consist of many small pieces, and those of the next shapes seldom fit where they were. So the heap returns its
free pages to the system whenever much was dropped.
"""

from __future__ import annotations

import os
import threading
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable
from typing import Protocol

from ort_py.platform.heap import give_back

__all__ = ["Entry", "ShapeMemory", "shape_memory"]

_VARIABLE = "ORT_PY_ONEDNN_SHAPE_MIB"
_DEFAULT_MIB = 192
"""Enough for about 60 shapes of a text recogniser or of a sentence encoder on one thread."""

_GIVE_BACK = 64 << 20
"""Bytes that are dropped until the heap returns its free pages, which takes a few milliseconds."""


class Shared(Protocol):
    """Memory that several entries may hold together."""

    @property
    def nbytes(self) -> int:
        """Bytes that it takes."""


class Entry:
    """Something that is kept.

    Args:
        nbytes: Bytes that it takes by itself.
        shared: What it holds that others may hold too; no two are the same.
        drop: Called once when it is dropped, by any thread. Takes no lock, and holds no owner alive.

    Attributes:
        used: Set by the owner at each use.
    """

    __slots__ = ("drop", "nbytes", "shared", "used")

    def __init__(self, nbytes: int, shared: Iterable[Shared], drop: Callable[[], object]) -> None:
        self.nbytes = nbytes
        self.shared = tuple(shared)
        self.drop = drop
        self.used = True


class ShapeMemory:
    """Entries, and the sum of their bytes.

    Args:
        allowed: Bytes that are kept; the newest entry stays in any case.
    """

    def __init__(self, allowed: int) -> None:
        self.allowed = allowed
        self._lock = threading.Lock()
        self._entries: OrderedDict[Entry, None] = OrderedDict()
        self._holders: Counter[Shared] = Counter()
        self._gone: deque[Entry] = deque()
        self._bytes = self._dropped = 0

    @property
    def nbytes(self) -> int:
        """Bytes of all entries; what they share counts once."""
        return self._bytes

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, entry: Entry) -> None:
        """Keep an entry, and drop others if there are too many bytes."""
        with self._lock:
            self._entries[entry] = None
            self._bytes += entry.nbytes
            for one in entry.shared:
                if not self._holders[one]:
                    self._bytes += one.nbytes
                self._holders[one] += 1
            self._forget_gone()
            before = self._bytes
            dropped = self._too_many(entry)
            self._dropped += before - self._bytes
            much = self._dropped >= _GIVE_BACK
            if much:
                self._dropped = 0
        for old in dropped:
            old.drop()
        if much:
            give_back()

    def remove(self, entry: Entry) -> None:
        """Forget an entry whose owner drops it; nothing happens if it was dropped already.

        This never waits: the garbage collector may close an owner in a thread that is inside of `add`.
        """
        self._gone.append(entry)
        if self._lock.acquire(blocking=False):
            try:
                self._forget_gone()
            finally:
                self._lock.release()

    def _forget_gone(self) -> None:
        while self._gone:
            self._forget(self._gone.popleft())

    def _too_many(self, newest: Entry) -> list[Entry]:
        """Take out entries until the rest is small enough."""
        found = []
        for _ in range(2 * len(self._entries)):
            if self._bytes <= self.allowed:
                break
            oldest = next(iter(self._entries))
            if oldest.used or oldest is newest:
                oldest.used = False
                self._entries.move_to_end(oldest)
            else:
                self._forget(oldest)
                found.append(oldest)
        return found

    def _forget(self, entry: Entry) -> None:
        if entry not in self._entries:
            return
        del self._entries[entry]
        self._bytes -= entry.nbytes
        for one in entry.shared:
            self._holders[one] -= 1
            if not self._holders[one]:
                del self._holders[one]
                self._bytes -= one.nbytes


def _allowed() -> int:
    """Bytes from the environment, or the default."""
    text = os.environ.get(_VARIABLE, "").strip()
    return (int(text) if text.isdigit() else _DEFAULT_MIB) << 20


shape_memory = ShapeMemory(_allowed())
"""The process's."""
