"""Plans are read by people: everything that happens stands in their text."""

from __future__ import annotations

import pytest

from core.tests.driving import HostProvider, drive
from ort_py_kit.fake_device import FakeBehaviour, FakeProvider

TEXT = """
g (float[4] x, bool c) => (float[4] y, float[4] x) <float[4] w = {1, 2, 3, 4}> {
  a = Add(x, w)
  y = If (c) <
    then_branch = positive () => (float[4] r) { r = Neg(a) },
    else_branch = negative () => (float[4] s) { s = Abs(a) }
  >
}
"""


def test_a_plan_prints_what_happens() -> None:
    """Inputs, every step with slots, provider and releases, bodies indented, outputs with their copies."""
    provider = FakeProvider(behaviour=FakeBehaviour(operators={"Add"}))
    assert str(drive(TEXT, provider, HostProvider()).plan) == (
        "plan 'g': 5 steps, 11 slots\n"
        "  in  x -> %2 on cpu:0\n"
        "  in  c -> %3 on cpu:0\n"
        "     0 copy cpu:0 to fake:0 on FakeExecutionProvider: (%2) -> (%4)\n"
        "     1 Add 'a' on FakeExecutionProvider: (%4, %5) -> (%6)  release (%4)  may reuse memory\n"
        "     2 copy fake:0 to cpu:0 on FakeExecutionProvider: (%6) -> (%7)  release (%6)\n"
        "     3 wait for fake:0 on FakeExecutionProvider: () -> ()\n"
        "     4 If 'y': (%3, %7, %7) -> (%10)  release (%3, %7)\n"
        "      then 'positive': 1 steps, 4 slots\n"
        "           0 Neg 'r' on HostExecutionProvider: (%2) -> (%3)\n"
        "        out r <- %3\n"
        "      else 'negative': 1 steps, 4 slots\n"
        "           0 Abs 's' on HostExecutionProvider: (%2) -> (%3)\n"
        "        out s <- %3\n"
        "  out y <- %10 (copied)\n"
        "  out x <- %2 (copied)"
    )


def test_an_absent_input_prints_as_a_dash() -> None:
    """Optional inputs that are not given have no slot of their own."""
    driven = drive("g (float[4] x) => (float y) { y = ReduceSum<keepdims = 0>(x, ) }")
    assert "ReduceSum 'y' on HostExecutionProvider: (%2) -> (%3)" in str(driven.plan)


def test_a_plan_lists_its_regions_and_bodies() -> None:
    """`regions` and `nested` find what is directly inside."""
    plan = drive(TEXT, FakeProvider(behaviour=FakeBehaviour(operators={"Add"}, compiles=True)), HostProvider()).plan
    (region,) = plan.regions
    assert region.title == "region FakeExecutionProvider_g_0 of 1 nodes"
    assert [role for role, _ in plan.nested()] == ["then", "else"]


def test_what_a_region_has_to_say_stands_below_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The remarks are read together with the plan: a provider may learn more while it runs."""
    plan = drive(TEXT, FakeProvider(behaviour=FakeBehaviour(operators={"Add"}, compiles=True)), HostProvider()).plan
    (step,) = plan.regions
    before = str(plan).splitlines()
    monkeypatch.setattr(step.region, "remarks", lambda: ("not fused: its input is a sequence",))
    (number,) = [place for place, line in enumerate(before) if "region FakeExecutionProvider" in line]
    assert str(plan).splitlines() == [
        *before[: number + 1],
        "      not fused: its input is a sequence",
        *before[number + 1 :],
    ]


def test_a_region_that_cannot_say_anything(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """A plug-in's mistake is logged, and the plan is shown."""
    plan = drive(TEXT, FakeProvider(behaviour=FakeBehaviour(operators={"Add"}, compiles=True)), HostProvider()).plan
    (step,) = plan.regions
    before = str(plan)

    def broken() -> tuple[str, ...]:
        raise RuntimeError("no remarks today")

    monkeypatch.setattr(step.region, "remarks", broken)
    assert str(plan) == before
    assert "no remarks today" in caplog.text
