"""Constants: once on each device, the weight's own array on the host."""

from __future__ import annotations

from typing import Any

import numpy as np

from core.tests.driving import drive, typed_model
from ort_py.contracts import KernelContext, KernelDef
from ort_py.devices import HOST
from ort_py.memory.transfer import TransferTable
from ort_py.planning.constants import ConstantPool
from ort_py.testing.fake_device import (
    FakeArray,
    FakeBehaviour,
    FakeDevice,
    FakeProvider,
    FakeStream,
    FakeTransfer,
)

MODEL = typed_model(
    "g (float[2] x) => (float[2] y) <float[2] v = {1, 2}, float[2] w = {3, 4}> { a = Add(x, v) y = Add(a, w) }"
)
V, W = (value.weight for value in MODEL.graph.initializers.values())


def test_the_host_reads_the_weight_itself() -> None:
    """No copy is made on the host."""
    assert V is not None
    assert ConstantPool(TransferTable([])).array(V, HOST) is V.array()


def test_a_device_gets_one_copy_of_each_over_one_stream() -> None:
    """Asking twice copies once; all constants of a device share a stream, and are there when asked for."""
    device = FakeDevice()
    made: list[FakeStream] = []

    def make() -> FakeStream:
        made.append(device.create_stream())
        return made[-1]

    transfer = FakeTransfer(device)
    pool = ConstantPool(TransferTable([transfer]), {device.device: make})
    assert V is not None
    assert W is not None
    first = pool.array(V, device.device)
    assert isinstance(first, FakeArray)
    assert pool.array(V, device.device) is first
    assert first.raw.tolist() == [1, 2]
    pool.array(W, device.device)
    assert (len(transfer.copies), len(made)) == (2, 1)
    assert pool.device_bytes() == {device.device: 16}


def test_arrays_a_factory_makes_are_there_before_the_first_run() -> None:
    """A kernel may prepare something on its device when it is bound: the plan's stream does it, and is waited for."""

    def factory(ctx: KernelContext) -> Any:
        prepared = ctx.xp.full((2,), 5, "float32")
        return lambda x: ctx.xp.add(x, prepared)

    kernel = KernelDef("Neg", factory, since=13)
    provider = FakeProvider(behaviour=FakeBehaviour(kernels=[kernel]))
    driven = drive("g (float[2] x) => (float[2] y) { y = Neg(x) }", provider)
    assert driven.run({"x": np.ones(2, np.float32)})[0].tolist() == [6, 6]
