"""Planned runs of random graphs equal plain ones: control flow, views, devices and in-place steps included."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.tests.driving import HostProvider, drive
from core.tests.execution.random_graphs import feeds, graphs
from ort_py.contracts import IExecutionProvider, KernelContext, KernelDef
from ort_py.execution.planned_runs import PlannedRuns
from ort_py.planning import memory_plan
from ort_py_kit.fake_device import FakeBehaviour, FakeDevice, FakeProvider, fake_kernels


@pytest.fixture(autouse=True)
def poisoned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every planned run begins with an arena full of NaN."""
    monkeypatch.setattr(PlannedRuns, "poison", True)


def strict(definition: KernelDef) -> KernelDef:
    """The kernel, which refuses to write over an input that it did not offer, and spoils what it is given first."""

    def factory(ctx: KernelContext) -> Callable[..., Any]:
        call, count = definition.factory(ctx), len(ctx.node.inputs)
        allowed = {source for source, _ in definition.inplace}

        def checked(*arrays: Any) -> Any:
            for out in arrays[count:]:
                shared = [position for position in range(count) if np.shares_memory(arrays[position], out)]
                assert len(shared) <= 1
                assert allowed.issuperset(shared)
                if shared:
                    assert arrays[shared[0]].ctypes.data == out.ctypes.data
                    assert arrays[shared[0]].strides == out.strides
                elif out.size:
                    out.view(np.uint8)[...] = 0xFF
            return call(*arrays)

        return checked

    return definition.replace(factory=factory)


def providers(where: str) -> tuple[IExecutionProvider, ...]:
    """Providers that run a graph: the host, a device, or both with copies between them."""
    if where == "host":
        return (HostProvider([strict(one) if one.out else one for one in fake_kernels()]),)
    some = {"Neg", "Add", "MatMul", "Transpose", "Concat"}
    behaviour = FakeBehaviour() if where == "device" else FakeBehaviour(operators=some)
    return (FakeProvider(FakeDevice(), behaviour=behaviour), HostProvider())


@pytest.mark.parametrize("where", ["host", "device", "both"])
@given(text=graphs(), seed=st.integers(0, 50))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_planned_equals_unplanned(where: str, text: str, seed: int) -> None:
    """Control flow, views, devices and in-place steps included; feeds and earlier results stay as they are."""
    driven, plain = drive(text, *providers(where)), drive(text, HostProvider())
    plain.program.runs.over = True
    held: list[tuple[np.ndarray, np.ndarray]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory_plan, "_WORTH_BYTES", 1)  # however little is saved
        for turn in (0, 2, 0, 4, 1, 3):  # both branches, loops of several lengths
            given_now = feeds(seed + turn)
            before = {name: value.copy() for name, value in given_now.items()}
            results = driven.run(given_now)
            for found, expected in zip(results, plain.run(before), strict=True):
                np.testing.assert_allclose(found, expected, rtol=1e-6)  # products may be summed in another order
            for name, value in given_now.items():
                np.testing.assert_array_equal(value, before[name])
            held += [(result, result.copy()) for result in results]
    for result, copy in held:
        np.testing.assert_array_equal(result, copy)


def test_random_graphs_are_planned() -> None:
    """Without planned values these tests would prove nothing: this plan has a place for most of its values."""
    text = (
        "g (float[4,4] x, float[4,4] w) => (float[4,4] y) { a = Add(x, w) b = MatMul(a, w) c = Tanh(b) y = Sub(c, a) }"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory_plan, "_WORTH_BYTES", 1)
        driven = drive(text, *providers("device"))
        driven.run({name: value for name, value in feeds(0).items() if name in "xw"})
    assert sum(len(plan.values) for plan in driven.program.runs.plans()) == 4
