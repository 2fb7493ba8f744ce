"""The pool of the process: it offers what is free, counts right, and belongs to its process."""

from __future__ import annotations

import os
import threading
import time

import numpy as np
import pytest

from ort_py.execution.thread_pool import ThreadPool, pool_of


def all_free(pool: ThreadPool, threads: int) -> bool:
    """Whether all threads have nothing to do soon."""
    end = time.monotonic() + 10
    while pool.free() < threads and time.monotonic() < end:
        time.sleep(0.001)
    return pool.free() == threads


def test_calls_are_made_by_threads_of_the_pool() -> None:
    """One call by each of the threads it was offered to."""
    pool, barrier, seen = ThreadPool(2), threading.Barrier(3, timeout=10), []

    def call() -> None:
        seen.append(threading.current_thread().name)
        barrier.wait()

    assert pool.offer(call, 2) == 2
    barrier.wait()
    assert sorted(seen) == ["ort_py_0", "ort_py_1"]


def test_busy_threads_are_offered_nothing() -> None:
    """The caller learns that no thread is free, and later that threads are free again."""
    pool, free, begun = ThreadPool(2), threading.Event(), threading.Barrier(3, timeout=10)

    def call() -> None:
        begun.wait()
        free.wait(10)

    assert pool.offer(call, 5) == 2
    begun.wait()
    assert pool.offer(call, 1) == 0
    free.set()
    assert all_free(pool, 2)
    assert pool.offer(lambda: None, 1) == 1


def test_a_thread_that_has_not_woken_yet_is_free() -> None:
    """Its work may be over by the time it wakes: two short pieces of work in a row are both offered."""
    pool, done = ThreadPool(1), threading.Semaphore(0)
    assert all(pool.offer(done.release, 1) for _ in range(3))
    assert all(done.acquire(timeout=10) for _ in range(3))


def test_what_a_call_returns_is_called_when_the_thread_is_free() -> None:
    """So a listener for the end can offer the next call at once."""
    pool, told = ThreadPool(1), []
    done = threading.Event()

    def leave() -> None:
        told.append(pool.free())
        done.set()

    pool.offer(lambda: leave, 1)
    assert done.wait(10)
    assert told == [1]


def test_numpys_warnings_are_off() -> None:
    pool, found, done = ThreadPool(1), [], threading.Event()

    def call() -> None:
        found.append(np.geterr())
        done.set()

    pool.offer(call, 1)
    assert done.wait(10)
    assert set(found[0].values()) == {"ignore"}


def test_sessions_with_one_number_share_a_pool() -> None:
    """One pool for each number, with one thread less: the caller works too."""
    assert pool_of(3) is pool_of(3)
    assert pool_of(3) is not pool_of(2)
    assert all_free(pool_of(3), 2)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_has_a_pool_of_its_own() -> None:
    """The parent's threads are not there."""
    pool = pool_of(2)
    child = os.fork()
    if child == 0:
        done = threading.Event()

        def call() -> None:
            done.set()

        own = pool_of(2)
        own.offer(call, 1)
        os._exit(5 if own is not pool and done.wait(10) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
