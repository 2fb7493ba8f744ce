"""The gate around forks: who makes something is waited for, who comes later waits, and a child starts afresh."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from ort_py_onednn.binding.forks import ForkGate


def test_a_fork_waits_for_the_makers() -> None:
    """Until the last of them is done."""
    gate = ForkGate()
    inside, leave, closed = threading.Event(), threading.Event(), threading.Event()

    def make() -> None:
        with gate.making():
            inside.set()
            leave.wait(30)

    def fork() -> None:
        gate.before_fork()
        closed.set()
        gate.after_in_parent()

    maker, forker = threading.Thread(target=make), threading.Thread(target=fork)
    maker.start()
    assert inside.wait(30)
    forker.start()
    assert not closed.wait(0.1)
    leave.set()
    assert closed.wait(30)
    maker.join()
    forker.join()


def test_makers_wait_for_a_fork() -> None:
    gate = ForkGate()
    made = threading.Event()

    def make() -> None:
        with gate.making():
            made.set()

    gate.before_fork()
    maker = threading.Thread(target=make)
    maker.start()
    assert not made.wait(0.1)
    gate.after_in_parent()
    assert made.wait(30)
    maker.join()


def test_making_nests_and_may_fork_itself() -> None:
    """A thread does not wait for what it does itself."""
    gate = ForkGate(patience=30)
    with gate.making(), gate.making():
        gate.before_fork()
        gate.after_in_parent()
    gate.before_fork()
    gate.after_in_parent()


@contextmanager
def gate_with_a_maker() -> Iterator[ForkGate]:
    """A gate with little patience, and a thread that goes on making something."""
    gate = ForkGate(patience=0.05)
    inside, leave = threading.Event(), threading.Event()

    def make() -> None:
        with gate.making():
            inside.set()
            leave.wait(30)

    maker = threading.Thread(target=make)
    maker.start()
    assert inside.wait(30)
    yield gate
    leave.set()
    maker.join()


def test_patience_ends() -> None:
    """A maker that never comes back delays a fork, and does not forbid it."""
    with gate_with_a_maker() as gate:
        gate.before_fork()
        gate.after_in_parent()


def test_a_child_starts_afresh() -> None:
    """Work of the parent's other threads is not continued in the child."""
    with gate_with_a_maker() as gate:
        gate.before_fork()
        gate.after_in_child()
        with gate.making():
            pass
        assert gate._makers == 0
