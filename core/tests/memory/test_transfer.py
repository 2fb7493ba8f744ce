"""Routes between devices, and copies on the host."""

from __future__ import annotations

import numpy as np
import pytest

from ort_py.devices import HOST, Device
from ort_py.errors import EngineError
from ort_py.memory.transfer import HostTransfer, TransferTable
from ort_py_kit.fake_device import FakeDevice, FakeTransfer

ZERO, ONE = FakeDevice(0), FakeDevice(1)


def test_one_device_needs_no_copy() -> None:
    """From a device to itself the route is empty."""
    assert TransferTable([]).route(HOST, HOST) == ()
    assert TransferTable([]).route(ZERO.device, ZERO.device) == ()


def test_a_direct_copy_is_one_hop() -> None:
    """The first transfer that can copy is taken."""
    first, second = FakeTransfer(ZERO), FakeTransfer(ZERO)
    (hop,) = TransferTable([first, second]).route(HOST, ZERO.device)
    assert (hop.transfer, hop.source, hop.target) == (first, HOST, ZERO.device)


def test_two_devices_meet_on_the_host() -> None:
    """Where nothing copies directly, the way goes through the host."""
    table = TransferTable([FakeTransfer(ZERO), FakeTransfer(ONE)])
    hops = table.route(ZERO.device, ONE.device)
    assert [(hop.source, hop.target) for hop in hops] == [(ZERO.device, HOST), (HOST, ONE.device)]


def test_no_route_says_who_was_asked() -> None:
    """The error names both devices and every transfer there is."""
    with pytest.raises(EngineError) as caught:
        TransferTable([FakeTransfer(ZERO)]).route(HOST, Device("moon", 3))
    assert "No data transfer copies arrays from cpu:0 to moon:3." in str(caught.value)
    assert "FakeTransfer, HostTransfer" in str(caught.value)
    assert "data_transfers()" in str(caught.value)


def test_half_a_way_is_no_way() -> None:
    """Through the host both halves are needed."""
    with pytest.raises(EngineError, match="from fake:0 to fake:1"):
        TransferTable([FakeTransfer(ZERO)]).route(ZERO.device, ONE.device)


def test_the_host_copies_to_contiguous_memory() -> None:
    """A strided source gives a C-contiguous copy that shares nothing."""
    source = np.arange(6).reshape(2, 3).T
    copied = HostTransfer().copy(source, HOST, HOST, None)
    assert copied.flags.c_contiguous
    assert not np.shares_memory(copied, source)
    assert copied.tolist() == source.tolist()
