"""BLAS has one thread during runs, OpenMP the run's share, and both have their own number again afterwards."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

import pytest

from ort_py.execution.row_splitter import PARTS_A_THREAD, RowSplitter
from ort_py.platform.native_libraries import FAMILIES, NativeLibrary, find_libraries
from ort_py.platform.native_threads import ActiveRuns

BLAS, OPENMP = FAMILIES[0], next(family for family in FAMILIES if family.per_thread)


class Threads:
    """A library's number of threads, and every number it was set to."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.told: list[int] = []

    def set(self, number: int) -> None:
        """Its setter."""
        self.number = number
        self.told.append(number)


def runs_with(blas: Threads | None = None, openmp: Threads | None = None) -> ActiveRuns:
    """Counts that know these libraries only."""
    runs = ActiveRuns()
    if blas is not None:
        runs._shared = [NativeLibrary(BLAS, "blas", blas.set, lambda: blas.number)]
    if openmp is not None:
        runs._per_thread = [NativeLibrary(OPENMP, "openmp", openmp.set, lambda: openmp.number)]
    return runs


def in_a_thread(runs: ActiveRuns, inside: threading.Event, leave: threading.Event) -> threading.Thread:
    """Another thread's run, begun, that ends when `leave` is set."""

    def work() -> None:
        before = runs.begin(4)
        inside.set()
        leave.wait(10)
        runs.end(before)

    thread = threading.Thread(target=work)
    thread.start()
    assert inside.wait(10)
    return thread


def test_blas_has_one_thread_while_anything_runs() -> None:
    """The first run sets it, and the last one restores it."""
    blas = Threads(8)
    runs, leave = runs_with(blas), threading.Event()
    other = in_a_thread(runs, threading.Event(), leave)
    before = runs.begin(4)
    assert blas.number == 1
    runs.end(before)
    assert blas.told == [1]
    leave.set()
    other.join()
    assert blas.told == [1, 8]


def test_a_library_with_one_thread_is_told_nothing() -> None:
    """The user's own setting of one stays."""
    blas = Threads(1)
    runs = runs_with(blas)
    runs.end(runs.begin(4))
    assert blas.number == 1


def test_what_the_user_sets_during_a_run_stays() -> None:
    """Only the one that a run set is taken back."""
    blas = Threads(8)
    runs = runs_with(blas)
    before = runs.begin(4)
    blas.number = 3
    runs.end(before)
    assert blas.number == 3


def test_openmp_gets_the_runs_share() -> None:
    """All threads for one run; of two runs at a time each gets half; the thread's own number comes back."""
    openmp = Threads(16)
    runs, leave = runs_with(openmp=openmp), threading.Event()
    runs.end(runs.begin(4))
    assert openmp.told == [4, 16]
    other = in_a_thread(runs, threading.Event(), leave)
    runs.end(runs.begin(4))
    assert openmp.told[-2:] == [2, 4]  # the fake has one number for both threads: the other one's 4
    leave.set()
    other.join()
    assert openmp.number == 16


def test_a_run_inside_a_run() -> None:
    """A kernel that runs a session: afterwards everything is as it was."""
    blas, openmp = Threads(8), Threads(16)
    runs = runs_with(blas, openmp)
    outer = runs.begin(4)
    runs.end(runs.begin(2))
    runs.end(outer)
    assert (blas.number, openmp.number) == (8, 16)
    assert runs.share(6) == 6


@pytest.mark.parametrize(("threads", "others", "share"), [(8, 0, 8), (8, 1, 4), (8, 2, 2), (2, 4, 1), (1, 1, 1)])
def test_runs_at_a_time_share_the_threads(threads: int, others: int, share: int) -> None:
    """k runs get max(1, N / k) each."""
    runs, leave = runs_with(), threading.Event()
    crew = [in_a_thread(runs, threading.Event(), leave) for _ in range(others)]
    before = runs.begin(threads)
    assert runs.share(threads) == share
    runs.end(before)
    leave.set()
    for thread in crew:
        thread.join()
    assert runs.share(threads) == threads


def test_rows_are_split_by_the_share(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two runs at a time on four threads: as many parts as for two threads."""
    runs, leave = runs_with(), threading.Event()
    monkeypatch.setattr("ort_py.execution.row_splitter.active_runs", runs)
    other = in_a_thread(runs, threading.Event(), leave)
    before, parts = runs.begin(4), []
    RowSplitter(4)(80, 1, lambda start, stop: parts.append((start, stop)))
    runs.end(before)
    leave.set()
    other.join()
    assert len(parts) == 2 * PARTS_A_THREAD


def test_threads_that_begin_and_end_at_once() -> None:
    """However they meet, each sees one thread of BLAS, and the user's number is there in the end."""
    blas, wrong = Threads(8), []
    runs = runs_with(blas)

    def work() -> None:
        for _ in range(2000):
            before = runs.begin(4)
            if blas.number != 1:
                wrong.append(blas.number)
            runs.end(before)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        crew = [threading.Thread(target=work) for _ in range(4)]
        for thread in crew:
            thread.start()
        for thread in crew:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert wrong == []
    assert blas.number == 8


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_counts_its_own_runs_only() -> None:
    """The child has neither the parent's other runs nor the setting of BLAS for them."""
    blas = Threads(8)
    runs, leave = runs_with(blas), threading.Event()
    other = in_a_thread(runs, threading.Event(), leave)
    child = os.fork()
    if child == 0:
        before = runs.begin(6)
        right = blas.number == 1 and runs.share(6) == 6
        runs.end(before)
        os._exit(0 if right and blas.number == 8 else 1)
    leave.set()
    other.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_libraries_that_are_not_loaded_are_not_loaded(tmp_path: Path) -> None:
    """A file with the right name is looked at only if the process has it already."""
    path = tmp_path / "libopenblas.so.0"
    path.write_bytes(b"no library")
    assert find_libraries([str(path), str(tmp_path / "libgomp.so.1"), "/lib/libm.so.6"]) == []


def test_numpys_blas_is_found() -> None:
    """On Linux the wheels of NumPy bring an OpenBLAS with names of its own."""
    loaded = Path("/proc/self/maps")
    if not loaded.exists() or "openblas" not in loaded.read_text():
        pytest.skip("NumPy here has another BLAS, or the system does not tell")
    found = [library for library in find_libraries() if library.family is BLAS]
    assert found
    number = found[0].get()
    assert number >= 1
    found[0].set(1)
    try:
        assert found[0].get() == 1
    finally:
        found[0].set(number)
