"""Objects that are notified of a fork, in the child."""

from __future__ import annotations

import gc
import os

import pytest

from ort_py.platform import forks
from ort_py.platform.forks import notify_after_fork

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")


class Counter:
    """Counts forks."""

    forks = 0

    def after_fork(self) -> None:
        """One more."""
        self.forks += 1


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_children_are_told_and_parents_are_not() -> None:
    """Once a fork, in the child alone."""
    counter = Counter()
    notify_after_fork(counter)
    child = os.fork()
    if child == 0:
        os._exit(counter.forks)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
    assert counter.forks == 0


def test_nothing_is_kept_alive() -> None:
    counter = Counter()
    notify_after_fork(counter)
    del counter
    gc.collect()
    assert not any(isinstance(one, Counter) for one in forks._notified)
