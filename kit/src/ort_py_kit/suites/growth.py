"""Memory over many runs and sessions: flat. Python's own by tracemalloc, a native library's by the process's size."""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ort_py_kit.samples import Sample
from ort_py_kit.subject import Subject
from ort_py_kit.suites.base import Problem, ProviderChecks, fail, problems_of

_WARM = 6
_RUNS = 60
_RUN_BYTES = 256 << 10
"""Bytes fed to a run: large enough that what is kept of it shows in the process's size."""

_SESSIONS = 12
_SLACK = 200
"""Bytes of Python objects a run or session may leave: counters and caches of the interpreter grow a little."""

_SESSION_SLACK = 12 << 10

_PAUSES = (0, 0, 0, 0.1, 0.2, 0.4, 0.8)
"""Seconds before each measurement: a thread that still works for the session, e.g. fills the cache, may end first."""


class GrowthChecks(ProviderChecks):
    """Nothing is left behind by a run or by a session."""

    def test_memory_stays_flat_over_runs(self, usable: Subject, claimed: Sequence[Sample]) -> None:
        """Sixty runs leave neither Python objects nor native memory behind."""

        def check(sample: Sample) -> None:
            size = sample.size_of(_RUN_BYTES)
            feeds = sample.feeds(size)
            with usable.session(sample.model) as session:
                _flat(lambda: session.run(None, feeds), _RUNS, _SLACK, _RUN_BYTES // 2, "run")

        with _only_new_objects():
            problems = problems_of(claimed, check)
        if problems:
            fail(
                f"Runs of {usable.name} leave memory behind.",
                problems,
                fix="drop what a run made when it ends: lists that grow, native handles that are never released, "
                "arrays kept by a cache without a bound.",
            )

    def test_memory_stays_flat_over_sessions(self, usable: Subject, claimed: Sequence[Sample]) -> None:
        """Sessions that are closed leave nothing behind."""

        def check(sample: Sample) -> None:
            def once() -> None:
                with usable.session(sample.model) as session:
                    session.run(None, feeds)

            feeds = sample.feeds()
            _flat(once, _SESSIONS, _SESSION_SLACK, 1 << 20, "session")

        with _only_new_objects():
            problems = problems_of(list(claimed)[:4], check)
        if problems:
            fail(
                f"Closed sessions of {usable.name} leave memory behind.",
                problems,
                fix="release in `close` of the instance, the region, the allocator and the provider what each of them "
                "made; keep no sessions' objects in module-level tables.",
            )


@contextmanager
def _only_new_objects() -> Iterator[None]:
    """Collections look at what is made from now on: looking at the cases and their models again takes a while."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _flat(call: Callable[[], object], times: int, slack: int, native: int, what: str) -> None:
    """Call again and again, and more often if something is left behind.

    Raises:
        Problem: Each call left more than `slack` bytes of Python objects, or `native` bytes of the process.
    """
    left = python = size = 0.0
    tracing = tracemalloc.is_tracing()
    if not tracing:
        # Once for all: a table that was made before, and grows again while it is used, would look like a leak each
        # time.
        tracemalloc.start()
    try:
        for _ in range(_WARM):
            call()
        for pause in _PAUSES:  # memory that is kept once is warm-up, memory that is kept repeatedly is a leak
            time.sleep(pause)
            gc.collect()
            before, resident = tracemalloc.get_traced_memory()[0], _resident()
            for _ in range(times):
                call()
            gc.collect()
            python = (tracemalloc.get_traced_memory()[0] - before) / times
            size = (_resident() - resident) / times
            left = max(python / slack, size / native)
            if left <= 1:
                return
    finally:
        if not tracing:
            tracemalloc.stop()
    if python > slack:
        raise Problem(f"each {what} leaves {python:.0f} bytes of Python objects")
    raise Problem(f"each {what} makes the process {size / 1024:.0f} KiB larger")


def _resident() -> int:
    """Bytes of the process in memory; 0 where the system does not say, so that native growth is not seen there."""
    file = Path("/proc/self/statm")
    if not file.is_file():
        return 0
    import resource

    return int(file.read_text(encoding="ascii").split()[1]) * resource.getpagesize()
