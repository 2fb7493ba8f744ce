"""Dependencies of steps: by slots, by streams, by regions with threads of their own."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from core.tests.driving import HostProvider, drive
from ort_py.planning.dependencies import Dependencies, dependencies_of
from ort_py.planning.plan import CopyStep, RegionStep, WaitStep
from ort_py_kit.fake_device import FakeBehaviour, FakeProvider

BRANCHES = "g (float[4] x) => (float[4] y) { a = Neg(x) b = Abs(a) c = Tanh(x) d = Exp(c) y = Add(b, d) }"
CHAIN = "g (float[4] x) => (float[4] y) { a = Neg(x) b = Abs(a) y = Tanh(b) }"


def found(text: str) -> Dependencies:
    """The dependencies of a model on the host."""
    return dependencies_of(drive(text).plan)


def test_a_step_waits_for_those_it_reads() -> None:
    """Each of two branches waits only for its own steps, and the last step waits for both."""
    assert found(BRANCHES).waits == ((), (0,), (), (2,), (1, 3))


def test_captures_of_bodies_are_read() -> None:
    """A step with a body waits for what the body takes from outside."""
    text = """g (float[4] x, bool c) => (float[4] y) {
      a = Neg(x)
      y = If(c) <then_branch = t() => (float[4] p) { p = Abs(a) }, else_branch = e() => (float[4] q) { q = Exp(x) }>
    }"""
    assert found(text).waits[-1] == (0,)


def test_a_chain_has_no_branches() -> None:
    """Nothing in it may run at the same time; in two branches something may."""
    assert (found(CHAIN).branches, found(CHAIN).longest) == (False, 3)
    assert (found(BRANCHES).branches, found(BRANCHES).longest) == (True, 3)


def test_an_empty_plan_has_no_branches() -> None:
    """A model that hands its input on has no step."""
    assert not Dependencies((), frozenset()).branches


def test_steps_of_a_stream_keep_their_order_on_one_thread() -> None:
    """All steps of the device, its copies and waits included, are pinned and wait for the one before."""
    plan = drive(BRANCHES, FakeProvider(behaviour=FakeBehaviour(operators={"Neg", "Tanh"})), HostProvider()).plan
    dependencies = dependencies_of(plan)
    pinned = sorted(dependencies.pinned)
    streamed = [
        number
        for number, step in enumerate(plan.steps)
        if isinstance(step, CopyStep | WaitStep) or step.provider == plan.steps[pinned[0]].provider
    ]
    assert pinned == streamed
    assert all(before in dependencies.waits[step] for before, step in pairwise(pinned))


def test_the_host_reads_what_a_stream_brought_after_the_wait() -> None:
    """The wait step writes no slot, yet whoever reads what was copied before waits for it."""
    plan = drive(BRANCHES, FakeProvider(behaviour=FakeBehaviour(operators={"Neg", "Tanh"})), HostProvider()).plan
    dependencies = dependencies_of(plan)
    copied = {step.outputs[0] for step in plan.steps if isinstance(step, CopyStep)}
    readers = [
        number
        for number, step in enumerate(plan.steps)
        if number not in dependencies.pinned and copied.intersection(step.inputs)
    ]
    assert readers
    for reader in readers:
        before = dependencies.waits[reader]
        assert any(isinstance(plan.steps[step], WaitStep) for step in before)


def test_nothing_runs_beside_a_region_with_threads_of_its_own() -> None:
    """A compiled region on the host waits for all before it, and all after it wait for it."""
    text = "g (float[4] x) => (float[4] y, float[4] z) { a = Neg(x) z = Exp(x) b = Abs(a) c = Tanh(x) y = Add(b, c) }"
    provider = FakeProvider(behaviour=FakeBehaviour(operators={"Abs"}, compiles=True))
    plan = drive(text, provider, HostProvider()).plan
    plan = replace(plan, streams=(), streaming=frozenset())  # as if the region were on the host
    dependencies = dependencies_of(plan)
    (region,) = [number for number, step in enumerate(plan.steps) if isinstance(step, RegionStep)]
    assert dependencies.waits[region] == tuple(range(region))
    assert all(region in before for before in dependencies.waits[region + 1 :])
