"""Movement in plans: each copy once, a wait before the host reads, nothing between nodes of one device."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pytest

from core.tests.driving import Driven, HostProvider, drive, floats, reference
from ort_py.contracts import IDataTransfer, IExecutionProvider
from ort_py.planning.plan import ContiguousStep, CopyStep, ExecutionPlan, KernelStep, RegionStep, WaitStep
from ort_py_kit.fake_device import FakeBehaviour, FakeDevice, FakeProvider


def on_device(*operators: str, compiles: bool = False) -> FakeProvider:
    """A fake provider for these operators; for all it knows where none is named."""
    return FakeProvider(behaviour=FakeBehaviour(operators=operators or None, compiles=compiles))


def titles(plan: ExecutionPlan) -> list[str]:
    """Title of each step, without names."""
    return [step.title.split("'")[0].strip() for step in plan.steps]


def check(text: str, *providers: IExecutionProvider, **feeds: np.ndarray) -> Driven:
    """Plan, run twice (a pooled frame the second time) and compare with the reference."""
    driven = drive(text, *providers, HostProvider())
    wanted = reference(text, feeds)
    for _ in range(2):
        for got, want in zip(driven.run(feeds), wanted, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    return driven


def test_nodes_of_one_device_follow_without_copies() -> None:
    """One copy in, three kernels, one copy out, one wait."""
    driven = check("g (float[4] x) => (float[4] y) { a = Relu(x) b = Neg(a) y = Abs(b) }", on_device(), x=floats(4))
    assert titles(driven.plan) == [
        "copy cpu:0 to fake:0",
        "Relu",
        "Neg",
        "Abs",
        "copy fake:0 to cpu:0",
        "wait for fake:0",
    ]


def test_a_value_is_copied_once_however_many_read_it() -> None:
    """Three device nodes read one feed, two host nodes one device value."""
    text = """
    g (float[4] x) => (float[4] p, float[4] q) {
      a = Relu(x) b = Relu(x) c = Add(a, b) d = Add(c, x)
      p = Neg(d) q = Abs(d)
    }
    """
    driven = check(text, on_device("Relu", "Add"), x=floats(4))
    copies = [step for step in driven.plan.steps if isinstance(step, CopyStep)]
    assert len(copies) == 2
    assert [type(step) for step in driven.plan.steps].count(WaitStep) == 1


def test_one_wait_covers_all_copies_before_it() -> None:
    """Two results arrive together; both are waited for once."""
    text = "g (float[4] x) => (float[4] p, float[4] q) { p = Neg(x) q = Abs(x) }"
    driven = check(text, on_device(), x=floats(4))
    assert titles(driven.plan)[-3:] == ["copy fake:0 to cpu:0", "copy fake:0 to cpu:0", "wait for fake:0"]


def test_a_later_arrival_needs_a_wait_of_its_own() -> None:
    """A copy after a wait is not covered by that wait."""
    text = "g (float[4] x) => (float[4] y) { a = Relu(x) b = Neg(a) c = Relu(b) y = Neg(c) }"
    driven = check(text, on_device("Relu"), x=floats(4))
    assert [type(step) for step in driven.plan.steps].count(WaitStep) == 2


def test_a_wait_stands_before_the_host_reads() -> None:
    """Between the copy out and the host's kernel there is a wait."""
    text = "g (float[4] x) => (float[4] y) { a = Relu(x) y = Neg(a) }"
    driven = check(text, on_device("Relu"), x=floats(4))
    assert titles(driven.plan)[2:] == ["copy fake:0 to cpu:0", "wait for fake:0", "Neg"]


def test_shapes_stay_on_the_host() -> None:
    """Shape makes its result on the host and Reshape reads it there: nothing waits for the device."""
    text = "g (float[2,3] x, float[6] z) => (float[2,3] y) { s = Shape(x) a = Relu(z) y = Reshape(a, s) }"
    driven = check(text, on_device(), x=floats(2, 3), z=floats(6))
    kinds = [type(step) for step in driven.plan.steps]
    assert kinds.count(WaitStep) == 1
    assert kinds[-1] is WaitStep


def test_a_shape_computed_on_the_device_is_fetched() -> None:
    """A host input that a device node made is copied and waited for before the kernel is called."""
    text = "g (float[6] z, int64[2] t) => (float[r,c] y) { s = Add(t, t) a = Relu(z) y = Reshape(a, s) }"
    driven = check(text, on_device(), z=floats(6)[:4], t=np.array([1, 1]))
    order = titles(driven.plan)
    assert order.index("wait for fake:0") < order.index("Reshape")


def test_constants_are_copied_while_planning() -> None:
    """A weight is on its device before the first run, once for all its readers; runs copy only feeds and results."""
    text = "g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { a = Add(x, w) y = Mul(a, w) }"
    provider = on_device()
    driven = drive(text, provider, HostProvider())
    assert len(provider.transfer.copies) == 1
    assert driven.constants.device_bytes() == {provider.device: 8}
    assert driven.run({"x": np.array([1, 1], np.float32)})[0].tolist() == [2, 6]
    assert len(provider.transfer.copies) == 3


def test_two_devices_meet_on_the_host() -> None:
    """From one device to another a value takes two hops in one step."""
    first = FakeProvider(FakeDevice(0), FakeBehaviour(operators={"Relu"}), "First")
    second = FakeProvider(FakeDevice(1), FakeBehaviour(operators={"Neg"}), "Second")
    text = "g (float[4] x) => (float[4] y, float[4] z) { a = Relu(x) y = Neg(a) b = Neg(x) z = Relu(b) }"
    driven = check(text, first, second, x=floats(4))
    hops = [len(step.hops) for step in driven.plan.steps if isinstance(step, CopyStep)]
    assert hops.count(2) == 2
    assert "copy fake:0 to fake:1" in titles(driven.plan)


def test_two_providers_of_one_device_share_arrays_and_streams() -> None:
    """A library beside another on the same accelerator needs no copies."""
    first = on_device("Relu")
    second = FakeProvider(first.owner, FakeBehaviour(operators={"Neg"}), "Second")
    text = "g (float[4] x) => (float[4] y) { a = Relu(x) b = Neg(a) y = Relu(b) }"
    driven = check(text, first, second, x=floats(4))
    assert len([step for step in driven.plan.steps if isinstance(step, CopyStep)]) == 2
    assert len(driven.plan.streams) == 1


def test_a_region_gets_its_border_on_its_device() -> None:
    """Feeds go in by one copy each, results come out by one each; weights are the region's own business."""
    text = """
    g (float[2,3] x) => (float[2,4] y, float[2,4] z) <float[3,4] w = {1,2,3,4,5,6,7,8,9,10,11,12}> {
      a = MatMul(x, w) y = Relu(a) b = Neg(y) z = Abs(b)
    }
    """
    driven = check(text, on_device("MatMul", "Relu", "Abs", compiles=True), x=floats(2, 3))
    regions = [step for step in driven.plan.steps if isinstance(step, RegionStep)]
    assert [step.node_count for step in regions] == [2, 1]
    assert [len(step.outputs) for step in regions] == [1, 1]
    assert [type(step) for step in driven.plan.steps].count(CopyStep) == 4


def test_strided_values_are_made_contiguous_for_kernels_that_need_it() -> None:
    """A transposed view is copied once for two MatMuls; kernels that take strides read it as it is."""
    text = """
    g (float[3,2] x, float[3,4] w) => (float[2,4] y, float[2,4] z, float[2,3] n) {
      t = Transpose<perm = [1, 0]>(x)
      y = MatMul(t, w)
      v = Neg(w)
      z = MatMul(t, v)
      n = Neg(t)
    }
    """
    for provider in (on_device(), HostProvider(name="Host2")):
        driven = check(text, provider, x=floats(3, 2), w=floats(3, 4))
        made = [step for step in driven.plan.steps if isinstance(step, ContiguousStep)]
        assert len(made) == 1
        readers = [
            step.inputs
            for step in driven.plan.steps
            if isinstance(step, KernelStep) and made[0].outputs[0] in step.inputs
        ]
        assert len(readers) == 2


def test_what_a_strided_kernel_makes_of_strided_input_counts_as_strided() -> None:
    """NumPy keeps the order of its inputs, so the result of Neg on a transposed array is transposed too."""
    text = "g (float[3,2] x, float[3,4] w) => (float[2,4] y) { t = Transpose(x) n = Neg(t) y = MatMul(n, w) }"
    driven = check(text, on_device(), x=floats(3, 2), w=floats(3, 4))
    assert "make contiguous" in titles(driven.plan)


def test_a_missing_copy_is_found_while_planning() -> None:
    """A device provider without data transfers is refused with its device's name."""

    class Mute(FakeProvider):
        def data_transfers(self) -> Collection[IDataTransfer]:  # type: ignore[override]  # looser on purpose
            return ()

    with pytest.raises(Exception, match="No data transfer copies arrays from cpu:0 to fake:0"):
        drive("g (float[4] x) => (float[4] y) { y = Relu(x) }", Mute(), HostProvider())
