"""Providers with faults on request: they behave like their originals until a fault is set."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest

from core.tests.driving import HostProvider, drive, floats
from ort_py.contracts import SessionContext
from ort_py.devices import Device
from ort_py.errors import DeviceReset, ExecutionError
from ort_py_kit.fake_device import FakeBehaviour, FakeFactory, FakeProvider
from ort_py_kit.faults import Faults, FaultyFactory, FaultyProvider

TEXT = "g (float[n] x) => (float[n] y) { a = Neg(x) y = Abs(a) }"
X = floats(5)


def faulty(faults: Faults, *, compiles: bool = False) -> FaultyProvider:
    """A provider with these faults, on the host or, with regions, on a fake device."""
    inner = FakeProvider(behaviour=FakeBehaviour(compiles=True)) if compiles else HostProvider()
    return FaultyProvider(inner, faults, "FaultyExecutionProvider")


@pytest.mark.parametrize("compiles", [False, True], ids=["kernels", "region"])
def test_without_faults_it_is_as_the_other(compiles: bool) -> None:
    """Results are right; calls are counted."""
    faults = Faults()
    driven = drive(TEXT, faulty(faults, compiles=compiles))
    np.testing.assert_array_equal(driven.run({"x": X})[0], np.abs(X))
    assert faults.calls == (1 if compiles else 2)


def test_fail_counts_from_now_on() -> None:
    """So many calls, after so many that go well, with the error that is given."""
    faults = Faults()
    driven = drive(TEXT, faulty(faults))
    driven.run({"x": X})
    faults.fail(2, after=3, error=lambda: OSError("the cable"))
    driven.run({"x": X})
    for _ in range(2):
        with pytest.raises(ExecutionError, match="OSError: the cable"):
            driven.run({"x": X})
    driven.run({"x": X})


def test_fail_for_good_until_healed() -> None:
    """`math.inf` for all calls to come."""
    faults = Faults()
    driven = drive(TEXT, faulty(faults))
    faults.fail(math.inf)
    for _ in range(3):
        with pytest.raises(ExecutionError, match="set to fail"):
            driven.run({"x": X})
    faults.heal()
    driven.run({"x": X})


def test_memory_goes_by_the_bytes_of_a_call() -> None:
    faults = Faults()
    driven = drive(TEXT, faulty(faults))
    faults.memory_bytes = 20
    driven.run({"x": X})
    with pytest.raises(ExecutionError, match="24 bytes exceed the requested limit of 20"):
        driven.run({"x": floats(6)})


def test_a_lost_device_stays_lost_until_it_is_reset() -> None:
    """It stays lost until the permitted number of resets is reached."""
    faults = Faults()
    provider = faulty(faults)
    driven = drive(TEXT, provider)
    faults.lose_device(after=2)
    driven.run({"x": X})
    for _ in range(2):
        with pytest.raises(DeviceReset, match="as requested"):
            driven.run({"x": X})
    assert not provider.reset_device()
    faults.resets = 1
    assert provider.reset_device()
    driven.run({"x": X})
    assert faults.reset_calls == 2
    faults.lose_device()
    assert not provider.use_backup_device()
    faults.backups = 1
    assert provider.use_backup_device()
    driven.run({"x": X})


def test_it_can_be_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each call takes so much longer."""
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    faults = Faults()
    faults.seconds = 0.5
    drive(TEXT, faulty(faults)).run({"x": X})
    assert slept == [0.5, 0.5]


def test_it_can_refuse_every_so_manieth_node() -> None:
    """With a reason; regions that have such a node are refused whole."""
    faults = Faults()
    faults.refuse_every = 2
    driven = drive(TEXT, faulty(faults), HostProvider())
    assert driven.runner_of("a") == "FaultyExecutionProvider"
    assert driven.runner_of("y") == "HostExecutionProvider"


def test_the_factory_is_the_others() -> None:
    """But for the name and the rank."""
    inner = FakeFactory()
    factory = FaultyFactory(inner, Faults(), "FaultyExecutionProvider", rank=7)
    assert (factory.name, factory.default_rank) == ("FaultyExecutionProvider", 7)
    assert factory.device_class is inner.device_class
    assert factory.probe().devices == (Device("fake"),)
    provider = factory.create({}, SessionContext())
    assert provider is factory.created[0]
    assert provider.name == "FaultyExecutionProvider"
    assert FaultyFactory(inner, Faults()).name == inner.name
