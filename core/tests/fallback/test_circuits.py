"""Breakers of a session's providers, and failures that no provider could handle."""

from __future__ import annotations

from core.tests.fallback.test_breaker import Clock
from ort_py.fallback.circuits import Circuits


def test_each_provider_has_its_own() -> None:
    """One that fails says nothing about the others."""
    circuits = Circuits(1, 60, Clock())
    circuits.of("A").failed()
    assert [one.name for one in circuits.seen()] == ["A"]
    assert circuits.of("B").state == "closed"
    assert circuits.of("A") is circuits.of("A")


def test_runs_look_only_while_there_is_something_to_look_at() -> None:
    """Nothing failed, or nothing is ever tried again: nothing to look at."""
    circuits = Circuits(1, 60, Clock())
    assert not circuits.watching
    circuits.of("A").failed()
    assert circuits.watching
    circuits.of("A").succeeded()
    assert not circuits.watching
    circuits.alone = True
    assert circuits.watching
    never = Circuits(1, 0, Clock())
    never.of("A").failed()
    assert not never.watching


def test_the_next_trial_is_given_once() -> None:
    """The first request gets one, and none is given before its time."""
    clock = Clock()
    circuits = Circuits(1, 60, clock)
    circuits.of("A").failed()
    assert circuits.next_trial() == ""
    clock.now += 60
    assert [circuits.next_trial(), circuits.next_trial()] == ["A", ""]


def test_trials_of_the_parent_do_not_end_in_a_forked_child() -> None:
    """So the child may begin one."""
    clock = Clock()
    circuits = Circuits(1, 60, clock)
    circuits.of("A").failed()
    clock.now += 60
    assert circuits.next_trial() == "A"
    circuits.after_fork()
    assert circuits.next_trial() == "A"


def test_what_did_not_help_thrice_is_hopeless_for_a_while() -> None:
    """At one node of one provider; a plan that helps ends it."""
    clock = Clock()
    circuits = Circuits(1, 60, clock)
    for _ in range(3):
        assert not circuits.is_hopeless("A", "n")
        circuits.give_up("A", "n")
    assert circuits.is_hopeless("A", "n")
    assert not circuits.is_hopeless("A", "m")
    assert not circuits.is_hopeless("B", "n")
    clock.now += 61
    assert not circuits.is_hopeless("A", "n")
    circuits.give_up("A", "n")
    assert circuits.is_hopeless("A", "n")
    circuits.helped("A")
    assert not circuits.is_hopeless("A", "n")


def test_only_so_many_failures_are_remembered() -> None:
    """A model of many nodes does not fill the memory."""
    circuits = Circuits(1, 60, Clock())
    for number in range(200):
        circuits.give_up("A", f"n{number}")
    assert len(circuits._hopeless) == 64
