"""Rows are split on one pool; what a part raises reaches the caller, and nothing runs on after it."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from typing import Any

import numpy as np
import pytest

from ort_py.execution.row_splitter import PARTS_A_THREAD, RowSplitter
from ort_py.execution.thread_pool import pool_of


@pytest.fixture(autouse=True)
def _free_threads() -> None:
    """Wait for the threads of the pools: parts of the test before may still be ending there."""
    end = time.monotonic() + 10
    for threads in (2, 3, 4):
        while pool_of(threads).free() < threads - 1 and time.monotonic() < end:
            time.sleep(0.001)


def parts_of(threads: int, rows: int, grain: int) -> list[tuple[int, int]]:
    """The split of the rows, in order, without other work."""
    parts: list[tuple[int, int]] = []
    RowSplitter(threads)(rows, grain, lambda start, stop: parts.append((start, stop)))
    return sorted(parts)


@pytest.mark.parametrize(
    ("threads", "rows", "grain"),
    [(1, 100, 1), (4, 0, 1), (4, 7, 4), (4, 8, 4), (3, 10, 1), (4, 10, 0), (2, 1000, 10), (3, 17, 5)],
)
def test_rows_are_covered_once(threads: int, rows: int, grain: int) -> None:
    """A few parts for each thread, none below the grain, nothing left out."""
    parts = parts_of(threads, rows, grain)
    assert [start for start, _ in parts] == [0, *(stop for _, stop in parts[:-1])]
    assert parts[-1][1] == rows
    assert len(parts) <= max(1, threads * PARTS_A_THREAD)
    assert len(parts) == 1 or min(stop - start for start, stop in parts) >= grain


@pytest.mark.parametrize(("threads", "rows", "grain"), [(1, 100, 1), (4, 7, 4), (4, 0, 1)])
def test_little_work_stays_whole(threads: int, rows: int, grain: int) -> None:
    """One thread, or rows for one part only: one call."""
    assert parts_of(threads, rows, grain) == [(0, rows)]


def test_rows_stay_whole_where_no_thread_is_free() -> None:
    """The caller does not wait: while the pool's thread is busy, it does everything in one part."""
    splitter, busy, free = RowSplitter(2), threading.Event(), threading.Event()

    def hold() -> None:
        busy.set()
        free.wait(10)

    assert parts_of(2, 100, 1) != [(0, 100)]
    assert pool_of(2).offer(hold, 1) == 1
    try:
        assert busy.wait(10)
        parts: list[tuple[int, int]] = []
        splitter(100, 1, lambda start, stop: parts.append((start, stop)))
        assert parts == [(0, 100)]
    finally:
        free.set()


def test_a_late_thread_takes_fewer_rows() -> None:
    """Parts are taken, not dealt: while one thread is held up in its first part, the other does the rest."""
    done: dict[int, int] = {}
    held, lock = threading.Event(), threading.Lock()

    def work(start: int, stop: int) -> None:
        if start == 0:
            assert held.wait(10)
        with lock:
            done[threading.get_ident()] = done.get(threading.get_ident(), 0) + 1
            if sum(done.values()) == 2 * PARTS_A_THREAD - 1:
                held.set()

    parts_of(2, 100, 1)
    RowSplitter(2)(100, 1, work)
    assert sorted(done.values()) == [1, 2 * PARTS_A_THREAD - 1]


def test_parts_run_at_the_same_time() -> None:
    """Two parts meet at a barrier, which one thread alone never passes."""
    barrier = threading.Barrier(2, timeout=10)

    def meet(_start: int, _stop: int) -> None:
        barrier.wait()

    RowSplitter(2)(2, 1, meet)


@pytest.mark.parametrize("failing", [0, 1, 2])
def test_a_parts_exception_is_raised_by_the_call(failing: int) -> None:
    """The caller's own part and those of the pool alike."""

    def work(start: int, stop: int) -> None:
        if start <= failing < stop:
            raise ValueError(f"row {failing}")

    with pytest.raises(ValueError, match=f"row {failing}"):
        RowSplitter(3)(3, 1, work)


def test_no_part_runs_on_after_an_exception() -> None:
    """When the caller's part fails, the call still waits for the others that have begun: they write to its arrays."""
    begun = threading.Event()
    finished: list[int] = []

    def work(start: int, _stop: int) -> None:
        if start == 0:
            begun.wait(10)
            raise ValueError("first")
        begun.set()
        time.sleep(0.05)
        finished.append(start)

    with pytest.raises(ValueError, match="first"):
        RowSplitter(2)(2, 1, work)
    assert finished == [1]


def test_parts_that_have_not_begun_are_dropped_after_an_exception() -> None:
    """A failure, or Ctrl-C, does not wait for work that is no longer needed."""
    splitter, busy, free = RowSplitter(2), threading.Event(), threading.Event()
    done: list[int] = []

    def hold(start: int, _stop: int) -> None:
        if start == 1:
            busy.set()
            free.wait(10)

    def work(start: int, _stop: int) -> None:
        if start == 0:
            free.set()
            raise KeyboardInterrupt
        done.append(start)

    holder = threading.Thread(target=splitter, args=(2, 1, hold))
    holder.start()
    busy.wait(10)  # the pool's one thread is taken, so the next call's part waits
    with pytest.raises(KeyboardInterrupt):
        splitter(2, 1, work)
    holder.join(10)
    assert done == []


def test_a_part_keeps_nothing_alive() -> None:
    """Arguments are released when the call returns: neither the pool's threads nor the parts keep them."""

    class Rows:
        """Something that can be watched dying."""

        def __call__(self, _start: int, _stop: int) -> None:
            pass

    rows = Rows()
    alive = weakref.ref(rows)
    gc.disable()
    try:
        RowSplitter(3)(30, 1, rows)
        del rows
        until = time.monotonic() + 10
        while alive() is not None and time.monotonic() < until:
            time.sleep(0.001)  # a thread of the pool lets go right after it said that it has ended
        assert alive() is None
    finally:
        gc.enable()


def test_a_part_may_split_again() -> None:
    """Nested splits run inline on the pool's threads: they never wait for themselves."""
    seen: list[int] = []
    splitter = RowSplitter(2)

    def inner(start: int, stop: int) -> None:
        seen.extend(range(start, stop))

    def outer(_start: int, _stop: int) -> None:
        splitter(4, 1, inner)

    done = threading.Thread(target=splitter, args=(2, 1, outer), daemon=True)
    done.start()
    done.join(10)
    assert not done.is_alive()
    assert sorted(seen) == [0, 0, 1, 1, 2, 2, 3, 3]


def test_parts_run_in_the_callers_context() -> None:
    """NumPy's error settings of the caller hold in every part."""
    states: list[Any] = []
    with np.errstate(over="raise"):
        RowSplitter(3)(3, 1, lambda _start, _stop: states.append(np.geterr()["over"]))
    assert states == ["raise"] * 3


def test_the_caller_s_part_does_not_wait_for_the_others_when_it_splits_again() -> None:
    """A split inside a part runs inline on the calling thread too: the pool's threads are busy with the other parts."""
    splitter = RowSplitter(2)
    caller, entered, released = threading.get_ident(), threading.Event(), threading.Event()
    inner: list[tuple[int, int, int]] = []

    def part(start: int, _stop: int) -> None:
        if start:  # the pool's part: busy until the caller's has ended
            entered.set()
            assert released.wait(10)
            return
        assert entered.wait(10)
        splitter(8, 1, lambda first, last: inner.append((threading.get_ident(), first, last)))
        released.set()

    splitter(2, 1, part)
    assert inner == [(caller, 0, 8)]
