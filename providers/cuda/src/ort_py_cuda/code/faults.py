"""Errors that kernels find in their data, such as an index out of range or a zero divisor, without a wait at each node.

A kernel that meets such a value writes no result for it, reads nothing outside its arrays, and notes the first case in
a record of its stream. Records are in pinned host memory, which the device writes to and the host reads without a copy;
`raise_if_any` looks at one after the stream was waited for, which every run does before the host reads a result. So a
mistake is an error of the run it was made in, and costs nothing where there is none.

The record of a stream is the address that kernels get, also in captured graphs: capture on the stream that replays.
Comes before the kernels; knows no operator.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections import deque
from typing import Any

import numpy as np

from ort_py.errors import InvalidArgument, KernelInputError, Location
from ort_py_cuda import modules

__all__ = ["Site", "forget", "raise_if_any", "record_of"]

_RAISED, _SITE, _VALUE, _BOUND = range(4)
_WORDS = 4

_lock = threading.Lock()
_numbers = itertools.count(1)
_sites: weakref.WeakValueDictionary[int, Site] = weakref.WeakValueDictionary()
_recent: deque[Site] = deque(maxlen=256)
"""The latest places, alive: a kernel may be gone before its stream was waited for."""


class Site:
    """A place that can go wrong: what a kernel of one node gives with its report.

    Args:
        where: The node.
        what: The sentence, with ``{value}`` and ``{bound}`` for what the kernel reports.
        fix: What to do, likewise.
    """

    __slots__ = ("__weakref__", "fix", "number", "what", "where")

    def __init__(self, where: Location, what: str, fix: str) -> None:
        self.where = where
        self.what = what
        self.fix = fix
        self.number = next(_numbers)
        _sites[self.number] = self
        _recent.append(self)

    @staticmethod
    def of_index(where: Location, axis: int | None = None) -> Site:
        """An index that may be outside an axis."""
        place = "" if axis is None else f" {axis}"
        return Site(
            where,
            f"Index {{value}} is out of range for axis{place} of size {{bound}}.",
            "Indices must be at least minus the size and less than the size.",
        )

    @staticmethod
    def of_position(where: Location) -> Site:
        """A position that may be outside caches of cosines and sines."""
        return Site(
            where,
            "Position {value} is outside the caches of cosines and sines.",
            "They have {bound} rows; feed longer caches, or other positions.",
        )

    @staticmethod
    def of_divisor(where: Location | str) -> Site:
        """An integer divisor that may be 0."""
        return Site(
            where if isinstance(where, Location) else Location(value=where),
            "Integer division by zero.",
            "Check what was fed, or divide floating-point numbers, which have an infinity.",
        )

    def error(self, value: int, bound: int) -> InvalidArgument:
        """The exception for a report."""
        return KernelInputError(
            self.what.format(value=value, bound=bound),
            where=self.where,
            why="found on the device; the run's outputs were not handed out",
            fix=self.fix.format(value=value, bound=bound),
        )


class _Record:
    """Pinned memory of one stream."""

    def __init__(self) -> None:
        self._memory = modules.cupy().cuda.alloc_pinned_memory(_WORDS * 8)
        self.words: np.ndarray[Any, np.dtype[np.int64]] = np.frombuffer(self._memory, np.int64, _WORDS)
        self.words[:] = 0
        self.address: int = self._memory.ptr


_records: dict[int, _Record] = {}


def record_of(stream: int) -> int:
    """Address of a stream's record, for kernels.

    Args:
        stream: Native handle; no two streams of a process share one, whatever their devices.
    """
    found = _records.get(stream)
    if found is None:
        with _lock:
            found = _records.get(stream)
            if found is None:
                found = _records[stream] = _Record()
    return found.address


def forget(stream: int) -> None:
    """Drop what was noted on an earlier stream: CUDA gives its handle to the next, whose runs did nothing wrong.

    Args:
        stream: Native handle of a stream that nothing was enqueued on yet.
    """
    record = _records.get(stream)
    if record is not None:
        record.words[:] = 0


def raise_if_any(stream: int) -> None:
    """Raise what a kernel reported on a stream; the stream's work must be done. Clears the record.

    Raises:
        KernelInputError: An index was out of range, a divisor 0, or the like; names the node.
    """
    record = _records.get(stream)
    if record is None or not record.words[_RAISED]:
        return
    number, value, bound = (int(record.words[place]) for place in (_SITE, _VALUE, _BOUND))
    record.words[:] = 0
    site = _sites.get(number)
    if site is None:
        raise KernelInputError(
            f"A kernel met the value {value}, which its limit {bound} does not allow.",
            why="the node that it belonged to is closed",
            fix="Check the indices and divisors that were fed.",
        )
    raise site.error(value, bound)
