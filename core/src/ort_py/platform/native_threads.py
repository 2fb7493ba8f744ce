"""Sets native libraries with threads of their own (BLAS, OpenMP) to a number of threads for runs.

While a run is under way, BLAS has one thread: kernels split large products over the session's threads themselves. So N
parts times N threads of BLAS cannot happen, and no thread of BLAS spins for work when a run is over. OpenMP, whose
number belongs to the calling thread, gets the run's share. When the last run has ended, everything is as it was.

Why one thread: decision 0012. It does not depend on kernels or sessions.
"""

from __future__ import annotations

import os
import sys
import threading
from threading import get_ident
from typing import TypeAlias

from ort_py.platform.native_libraries import NativeLibrary, find_libraries

PreviousThreads: TypeAlias = tuple[tuple[NativeLibrary, int], ...]
"""Libraries, and the number of threads each had before it was changed."""


class ActiveRuns:
    """The runs under way in this process, and the numbers of threads that native libraries are set to because of them.

    Runs are counted by their thread: one whose end was lost to an interruption is forgotten with the thread's next.
    """

    def __init__(self) -> None:
        self._threads: dict[int, None] = {}
        self._limited = False
        self._before: PreviousThreads = ()
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._modules = 0
        self._shared: list[NativeLibrary] = []
        self._per_thread: list[NativeLibrary] = []

    def find_new(self) -> None:
        """Look for libraries, where Python has imported something since the last time: nothing else loads them."""
        modules = len(sys.modules)
        if modules != self._modules:
            found = find_libraries()
            self._shared = [library for library in found if not library.family.per_thread]
            self._per_thread = [library for library in found if library.family.per_thread]
            self._modules = modules

    def describe(self) -> tuple[str, ...]:
        """Describe in words the number of threads that each library is set to during runs."""
        return (
            *(f"{library.family.name} ({library.file}): 1 during runs" for library in self._shared),
            *(f"{library.family.name} ({library.file}): the run's share" for library in self._per_thread),
        )

    def share(self, threads: int) -> int:
        """The part of `threads` that each of the runs under way may use, at least 1."""
        running = len(self._threads)
        return max(1, threads // running) if running > 1 else threads

    def begin(self, threads: int) -> PreviousThreads:
        """A run begins on this thread.

        Args:
            threads: Threads that its session may use.

        Returns:
            For `end`.
        """
        if self._process != os.getpid():
            self._forked()
        self._threads[get_ident()] = None
        # This order, and the opposite one in `end`: of two threads at least one sees what the other did.
        if not self._limited and self._shared:
            self._limit_libraries()
        if not self._per_thread:
            return ()
        before = tuple((library, library.get()) for library in self._per_thread)
        share = self.share(threads)
        for library, _ in before:
            library.set(share)
        return before

    def tell_thread(self) -> None:
        """A thread of the pool begins to work for a run: each has its own number, and is one of the run's threads."""
        for library in self._per_thread:
            if library.get() != 1:
                library.set(1)

    def end(self, before: PreviousThreads) -> None:
        self._threads.pop(get_ident(), None)
        for library, number in before:
            library.set(number)
        if self._limited and not self._threads:
            self._restore_libraries()

    def _limit_libraries(self) -> None:
        with self._lock:
            if self._limited:
                return
            if not self._before:  # otherwise Ctrl-C came while they were given back
                now = [(library, library.get()) for library in self._shared]
                self._before = tuple(pair for pair in now if pair[1] != 1)
            for library, _ in self._before:
                library.set(1)
            self._limited = True

    def _restore_libraries(self) -> None:
        with self._lock:
            if not self._limited:
                return  # another thread did it while this one waited; a run that started since limits them again
            self._limited = False
            while self._threads:
                self._limited = True
                if self._threads:
                    return
                # The last one ended in between, saw that nothing had been set, and left it to this thread.
                self._limited = False
            for library, number in self._before:
                if library.get() == 1:  # otherwise the program has changed it since, and its number stays
                    library.set(number)
            self._before = ()

    def _forked(self) -> None:
        """In a forked child the parent's other threads, and their runs, are not there."""
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._threads.clear()


active_runs = ActiveRuns()
"""Those of the process."""
