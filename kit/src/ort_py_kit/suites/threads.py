"""Many threads at once: one session serves them all, and sessions are made and closed beside each other."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ort_py_kit.samples import Sample
from ort_py_kit.subject import Subject
from ort_py_kit.suites.base import Problem, ProviderChecks, agree, fail, problems_of

THREADS = 8

_RUNS = 12
"""Runs of each thread: with a switch of threads every few instructions, what is shared is soon met."""

_SWITCH_SECONDS = 1e-6


class ThreadChecks(ProviderChecks):
    """Results do not depend on what other threads do."""

    def test_threads_share_a_session(self, usable: Subject, claimed: Sequence[Sample]) -> None:
        """Eight threads run one session on inputs of their own, and each gets its own results."""

        def check(sample: Sample) -> None:
            fed = [sample.feeds(3 + seed % 3, seed) for seed in range(THREADS)]
            with usable.session(sample.model) as session:
                alone = [session.run(None, feeds) for feeds in fed]
                names = [info.name for info in session.get_outputs()]

                def work(number: int) -> None:
                    for _ in range(_RUNS):
                        for name, left, right in zip(names, session.run(None, fed[number]), alone[number], strict=True):
                            agree(left, right, name)

                on_threads(work)

        problems = problems_of(claimed, check)
        if problems:
            fail(
                f"{usable.name} gives other results when {THREADS} threads run at once.",
                problems,
                fix="keep what a run writes in its `RegionInstance` (each frame has its own) or in local variables, "
                "never in the kernel, the region or the provider; lock what must be shared.",
            )

    def test_threads_make_sessions(self, usable: Subject, claimed: Sequence[Sample]) -> None:
        """Eight threads make, run and close sessions of different models at the same time."""
        expected = {}
        for sample in claimed:
            with usable.reference(sample.model) as session:
                expected[sample.name] = session.run(None, sample.feeds())

        def work(number: int) -> None:
            for sample in claimed[number % 2 :: 2][:4]:
                with usable.session(sample.model) as session:
                    for left, right in zip(session.run(None, sample.feeds()), expected[sample.name], strict=True):
                        agree(left, right, sample.name)

        try:
            on_threads(work)
        except Exception as error:
            fail(
                f"{usable.name} cannot be created, run and closed on {THREADS} threads at once.",
                [f"{type(error).__name__}: {error}"],
                fix="lock what `create` and `compile` share, such as the library's first initialisation.",
            )


def on_threads(work: Callable[[int], None], count: int = THREADS) -> None:
    """Call `work` with each thread's number, all at once, with very frequent switches.

    Raises:
        Problem: A thread raised; the first error and how many threads failed.
    """
    errors: list[Exception] = []
    start = threading.Barrier(count)

    def body(number: int) -> None:
        start.wait()
        try:
            work(number)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=body, args=(number,)) for number in range(count)]
    with _switching():
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if errors:
        first = errors[0]
        kind = "" if isinstance(first, Problem) else f"{type(first).__name__}: "
        raise Problem(f"{len(errors)} of {count} threads fail: {kind}{first}") from first


@contextmanager
def _switching() -> Iterator[Any]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_SECONDS)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
