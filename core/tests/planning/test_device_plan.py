"""Plans for feeds and results on a device: copies between are left out, and made where somebody else reads."""

from __future__ import annotations

from collections.abc import Mapping

from core.tests.driving import HostProvider, drive
from ort_py.devices import Device
from ort_py.memory.transfer import TransferTable
from ort_py.planning.device_plan import device_plan
from ort_py.planning.plan import ExecutionPlan
from ort_py_kit.fake_device import FakeBehaviour, FakeProvider

FAKE = Device("fake", 0)
THERE = {"x": FAKE}
WANTED = {"y": FAKE}


def plans(
    text: str, *operators: str, inputs: Mapping[str, Device] = THERE, outputs: Mapping[str, Device] = WANTED
) -> tuple[ExecutionPlan, ExecutionPlan]:
    """The plan with everything on the host, and the one with these places."""
    provider = FakeProvider(behaviour=FakeBehaviour(operators=operators or None))
    plan = drive(text, provider, HostProvider()).plan
    return plan, device_plan(plan, inputs, outputs, TransferTable(provider.data_transfers()))


def titles(plan: ExecutionPlan) -> list[str]:
    """Title of each step, without names."""
    return [step.title.split("'")[0].strip() for step in plan.steps]


def test_copies_at_both_ends_go() -> None:
    """Kernels and the wait are left; the plan it was made from is as it was."""
    plan, placed = plans("g (float[4] x) => (float[4] y) { a = Relu(x) y = Neg(a) }")
    assert titles(placed) == ["Relu", "Neg", "wait for fake:0"]
    assert len(plan.steps) == 5
    assert (placed.inputs[0].device, placed.outputs[0].device) == (FAKE, FAKE)


def test_results_are_not_released() -> None:
    """A result that a later step reads outlives it, and is dropped after the run."""
    _, placed = plans("g (float[4] x) => (float[4] y, float[4] z) { y = Relu(x) z = Neg(y) }")
    slot = placed.outputs[0].slot
    assert all(slot not in step.release for step in placed.steps)
    assert {placed.inputs[0].slot, slot} <= set(placed.clear)


def test_readers_on_the_host_get_a_copy() -> None:
    """A host node reads the input: one copy to the host, waited for, in front."""
    _, placed = plans("g (float[4] x) => (float[4] y, float[4] z) { y = Relu(x) z = Neg(x) }", "Relu")
    assert titles(placed)[:2] == ["copy fake:0 to cpu:0", "wait for fake:0"]
    assert titles(placed).count("copy fake:0 to cpu:0") == 1


def test_results_of_the_host_are_brought() -> None:
    """A host node makes the output: a copy to the device, and a wait, at the end."""
    _, placed = plans("g (float[4] x) => (float[4] y) { y = Neg(x) }", "Relu", inputs={})
    assert titles(placed) == ["Neg", "copy cpu:0 to fake:0", "wait for fake:0"]


def test_nothing_else_moves() -> None:
    """Only the named inputs and outputs have other places."""
    text = "g (float[4] x, float[4] b) => (float[4] y, float[4] z) { y = Add(x, b) z = Neg(y) }"
    _, placed = plans(text)
    assert titles(placed) == [
        "copy cpu:0 to fake:0",
        "Add",
        "Neg",
        "copy fake:0 to cpu:0",
        "wait for fake:0",
    ]


def test_an_input_that_is_an_output() -> None:
    """Handed through on the device; the caller gets a copy, as the plan says."""
    _, placed = plans("g (float[4] x) => (float[4] y) { y = Identity(x) }")
    assert "copy fake:0 to cpu:0" not in titles(placed)
    assert placed.outputs[0].copy
