"""Constants: once on each device, the weight's own array on the host."""

from __future__ import annotations

from typing import Any

import numpy as np

from core.tests.driving import HostProvider, drive, typed_model
from ort_py.contracts import KernelContext, KernelDef
from ort_py.devices import HOST
from ort_py.memory.transfer import TransferTable
from ort_py.planning.constants import ConstantPool
from ort_py_kit.fake_device import (
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


def packing(made: list[int]) -> KernelDef:
    """A kernel of Add that reads twice its second input, where that is known, in its place."""

    def factory(ctx: KernelContext) -> Any:
        def twice(w: Any) -> Any:
            made.append(1)
            return ctx.xp.add(w, w)

        prepared = ctx.packed((1,), "twice", twice)

        def run(x: Any, w: Any) -> Any:
            assert (w.shape, w.dtype) == ((2,), np.float32)
            return ctx.xp.add(x, w if prepared is None else prepared)

        return run

    return KernelDef("Add", factory, since=14)


PACKED = "g (float[2] x) => (float[2] y, float[2] z) <float[2] v = {5, 7}> { y = Add(x, v) z = Add(x, v) }"


def test_a_packed_constant_is_made_once_for_all_who_read_it() -> None:
    """Two nodes of two plans share one form, and no plan keeps the original."""
    made: list[int] = []
    plans = [drive(PACKED, HostProvider([packing(made)])) for _ in range(2)]
    for driven in plans:
        assert [result.tolist() for result in driven.run({"x": np.ones(2, np.float32)})] == [[11, 15], [11, 15]]
        arrays = [item for item in driven.program.plan.template if isinstance(item, np.ndarray)]
        assert [array.strides for array in arrays] == [(0,), (0,)]
        assert driven.constants.packed_bytes() == {HOST: 8}
    assert made == [1]


def test_a_packed_constant_of_a_device_belongs_to_its_plan() -> None:
    """Its memory is of the session's allocator; no copy of the original is made for the nodes that packed it."""
    made: list[int] = []
    plans = []
    for _ in range(2):
        provider = FakeProvider(behaviour=FakeBehaviour(kernels=[packing(made)]))
        plans.append(drive(PACKED, provider))
        assert plans[-1].run({"x": np.ones(2, np.float32)})[0].tolist() == [11, 15]
        assert plans[-1].constants.packed_bytes() == {provider.device: 8}
        assert plans[-1].constants.device_bytes() == {}
    assert made == [1, 1]


def test_what_is_not_known_cannot_be_packed() -> None:
    """A fed input reaches the kernel as it is."""
    made: list[int] = []
    driven = drive("g (float[2] x, float[2] w) => (float[2] y) { y = Add(x, w) }", HostProvider([packing(made)]))
    assert driven.run({"x": np.ones(2, np.float32), "w": np.ones(2, np.float32)})[0].tolist() == [2, 2]
    assert not made
