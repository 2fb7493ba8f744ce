"""Devices that are lost: reset, exchanged or left, once for all sessions of the process."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import ort_py
from core.tests.driving import HostProvider, floats, model_of
from core.tests.engine.recovery.faulty_sessions import FAULTY, HOST, TEXT, expected, faulty_session
from core.tests.fallback.test_breaker import Clock
from ort_py.contracts import FailureKind, IExecutionProvider, SessionContext
from ort_py.devices import Device
from ort_py.discovery import default_catalog
from ort_py.errors import DeviceReset, PluginError
from ort_py.fallback.circuits import Circuits
from ort_py.fallback.lost_devices import LostDevices, process_lost_devices
from ort_py.fallback.policy import SessionState
from ort_py_kit.fake_device import FakeBehaviour, FakeDevice, FakeFactory, FakeProvider
from ort_py_kit.faults import Faults

X = floats(4, 3)
FAKE = "FakeExecutionProvider"


def run(session: ort_py.InferenceSession) -> None:
    """One run, whose result is right."""
    np.testing.assert_array_equal(session.run(None, {"x": X})[0], expected(X))


@pytest.mark.parametrize("compiles", [False, True], ids=["kernels", "region"])
@pytest.mark.parametrize("after", [0, 2])
def test_a_device_that_can_be_reset(compiles: bool, after: int) -> None:
    """The session plans again on it, with its constants copied again, and is as it was."""
    faults = Faults()
    faults.resets = 1
    with faulty_session(faults, WEIGHTED, compiles=compiles, device=None if compiles else FakeFactory()) as session:
        faults.lose_device(after=after)
        for _ in range(3):
            np.testing.assert_allclose(session.run(None, {"x": X})[0], -X + 2)
        assert session.placement.counts() == {FAULTY: 2}
        assert session.state is SessionState.READY
        (record,) = session.fallback_report
        assert (record.action, record.provider, record.replacement) == ("device reset", FAULTY, "fake:0")
        assert "the device was lost, as requested" in record.reason
        assert faults.reset_calls == 1


WEIGHTED = "g (float[n, 3] x) => (float[n, 3] y) <float[3] w = {2, 2, 2}> { a = Neg(x) y = Add(a, w) }"


def test_a_device_that_cannot_be_reset_is_left() -> None:
    """A few tries, then the others run."""
    faults = Faults()
    with faulty_session(faults) as session:
        faults.lose_device()
        run(session)
        assert session.placement.counts() == {HOST: 3}
        assert session.state is SessionState.DEGRADED
        (record,) = session.fallback_report
        assert (record.action, record.replacement) == ("left out", HOST)
        assert 1 <= faults.reset_calls <= 3


def test_a_device_that_is_lost_again_and_again_is_left() -> None:
    """Resets that help for a moment only come to an end."""
    faults = Faults()
    faults.resets = 1000
    with faulty_session(faults) as session:
        for _ in range(10):
            faults.lose_device(after=1)
            run(session)
        assert session.placement.counts() == {HOST: 3}
        assert faults.reset_calls < 5
        assert [one.action for one in session.fallback_report] == ["device reset", "left out"]


def test_strict_does_not_reset() -> None:
    faults = Faults()
    faults.resets = 1
    with faulty_session(faults, strict="provider") as session:
        faults.lose_device()
        with pytest.raises(DeviceReset, match="as requested"):
            session.run(None, {"x": X})
        assert faults.reset_calls == 0


class TwoDevices(FakeProvider):
    """A provider that has another device, and loses the first one."""

    lost = False

    def use_backup_device(self) -> bool:
        if self.owner.device.index:
            return False
        self.owner = FakeDevice(1)
        self.transfer = type(self.transfer)(self.owner)
        return True

    def on_run_start(self) -> None:
        if type(self).lost and self.owner.device.index == 0:
            raise DeviceReset("device 0 is gone")


class TwoDevicesFactory(FakeFactory):
    """Makes them."""

    def create(self, options: Mapping[str, Any], context: SessionContext) -> IExecutionProvider:
        self.created.append(TwoDevices(self.owner, FakeBehaviour(), self.name))
        return self.created[-1]


def test_a_backup_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another device of the provider takes over, constants included; the session is degraded, and says which."""
    catalog = default_catalog()
    catalog.reset()
    catalog.register_provider(TwoDevicesFactory())
    options = ort_py.SessionOptions()
    options.cost_model = "always"
    options.graph_optimization_level = ort_py.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        with ort_py.InferenceSession(model_of(WEIGHTED).SerializeToString(), options, [FAKE]) as session:
            monkeypatch.setattr(TwoDevices, "lost", True)
            for _ in range(3):
                np.testing.assert_allclose(session.run(None, {"x": X})[0], -X + 2)
            assert session.placement.counts() == {FAKE: 2}
            assert session.state is SessionState.DEGRADED
            (record,) = session.fallback_report
            assert (record.action, record.replacement) == ("device changed", "fake:1")
            assert session.engine.providers.created[0].device == Device("fake", 1)
            assert "Now: fake:1" in str(record)
    finally:
        catalog.reset()
        process_lost_devices().forget()


def test_other_sessions_plan_again_without_a_second_reset() -> None:
    """One device, two sessions: one reset serves both, and both keep the provider."""
    faults = Faults()
    faults.resets = 1
    with faulty_session(faults) as first:
        options = first.get_session_options()
        model = model_of(TEXT).SerializeToString()
        with ort_py.InferenceSession(model, options, [FAULTY, HOST]) as second:
            faults.lose_device()
            run(first)
            faults.fail(error=lambda: DeviceReset("its arrays are gone"))
            run(second)
            assert faults.reset_calls == 1
            for session in (first, second):
                assert session.placement.counts() == {FAULTY: 3}
                assert [one.action for one in session.fallback_report] == ["device reset"]


def test_sessions_without_the_device_are_not_concerned() -> None:
    """A session of another provider goes on, before and after."""
    faults = Faults()
    model = model_of(TEXT).SerializeToString()
    with faulty_session(faults) as session, ort_py.InferenceSession(model, providers=[HOST]) as other:
        faults.lose_device()
        run(session)
        run(other)
        assert (other.state, other.fallback_report, other.fallback_report.circuits) == ("ready", [], ())


def test_new_sessions_leave_a_lost_device_alone() -> None:
    """For a while: with an entry in their report."""
    faults = Faults()
    with faulty_session(faults) as session:
        faults.lose_device()
        run(session)
        calls = faults.calls
        model, options = model_of(TEXT).SerializeToString(), session.get_session_options()
        with ort_py.InferenceSession(model, options, [FAULTY, HOST]) as later:
            run(later)
            assert faults.calls == calls
            (record,) = later.fallback_report
            assert (record.kind, record.provider, record.replacement) == ("initialisation", FAULTY, HOST)
            assert "was lost in this process" in record.reason
        options.strict = "provider"
        with pytest.raises(PluginError, match="was lost in this process"):
            ort_py.InferenceSession(model, options, [FAULTY, HOST])


def test_a_device_that_comes_back_is_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the pause a trial resets it first."""
    clock = Clock()
    monkeypatch.setattr(process_lost_devices(), "_clock", clock)
    faults = Faults()
    with faulty_session(faults) as session:
        session.engine.recovery.circuits = Circuits(1, 60, clock)
        faults.lose_device()
        run(session)
        clock.now += 61
        run(session)
        assert session.placement.counts() == {HOST: 3}
        faults.resets = 1
        clock.now += 1000
        run(session)
        assert session.placement.counts() == {FAULTY: 3}
        assert session.state is SessionState.READY
        assert [one.action for one in session.fallback_report] == ["left out", "tried again"]


def test_a_provider_may_say_what_its_exceptions_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    """Libraries have classes of their own for a lost device and for short memory."""
    kinds = {"gone": FailureKind.DEVICE_LOST, "full": FailureKind.OUT_OF_MEMORY, "yours": FailureKind.CALLER}
    monkeypatch.setattr(HostProvider, "failure_kind", lambda self, error: kinds.get(str(error)))
    faults = Faults()
    faults.resets = 1
    with faulty_session(faults) as session:
        faults.fail(error=lambda: RuntimeError("gone"))
        run(session)
        faults.fail(error=lambda: RuntimeError("full"))
        run(session)
        assert [one.action for one in session.fallback_report] == ["device reset", "memory freed"]
        faults.fail(math.inf, error=lambda: RuntimeError("yours"))
        with pytest.raises(ort_py.OrtPyError, match="yours"):
            session.run(None, {"x": X})
        assert session.placement.counts() == {FAULTY: 3}


def test_callbacks_that_raise_count_as_no(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """`failure_kind`, `reset_device` and `use_backup_device` of a broken plug-in: the device is left."""

    def broken(*_: object) -> bool:
        raise OSError("no driver")

    faults = Faults()
    with faulty_session(faults) as session:
        provider = type(session.engine.providers.created[0])
        for name in ("failure_kind", "reset_device", "use_backup_device"):
            monkeypatch.setattr(provider, name, broken)
        faults.lose_device()
        run(session)
        assert session.placement.counts() == {HOST: 3}
        for name in ("failure_kind", "reset_device", "use_backup_device"):
            assert f"{FAULTY}: {name} failed" in caplog.text


def test_a_reset_is_tried_a_few_times_at_most() -> None:
    """For one loss; and after a few losses not at all, until the pause is over."""
    clock = Clock()
    lost, device, calls = LostDevices(clock), Device("fake"), []

    def reset() -> bool:
        calls.append(1)
        return False

    assert not lost.reset("X", device, 0, reset)
    assert len(calls) == 2
    assert lost.is_left("X", device)
    assert not lost.is_left("X", Device("fake", 1))
    clock.now += 61
    assert not lost.is_left("X", device)
    assert lost.retry("X", device, lambda: True)
    assert lost.generation("X", device) == 1
    assert lost.seen()[0].name == "X on fake:0"
