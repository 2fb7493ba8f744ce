"""The fake device goes through the doors of allocators and data transfers: a device that shows every wrong copy."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ort_py.discovery import default_catalog
from ort_py_kit import AllocatorSuite, DataTransferSuite
from ort_py_kit.fake_device import FakeFactory
from ort_py_kit.suites.capability import CapabilityChecks
from ort_py_kit.suites.lifetimes import LifetimeChecks
from ort_py_kit.suites.shapes import ShapeChecks
from ort_py_kit.suites.threads import ThreadChecks

NAME = "FakeExecutionProvider"


@pytest.fixture(scope="module", autouse=True)
def registered() -> Iterator[None]:
    """For the tests of this module."""
    default_catalog().register_provider(FakeFactory(NAME))
    yield
    default_catalog().reset()


class TestFake(CapabilityChecks, LifetimeChecks, ShapeChecks, ThreadChecks):
    """The provider. Its copies are noted one by one, so that its memory grows; results are not what it is for."""

    provider = NAME


class TestFakeMemory(AllocatorSuite):
    """Its memory, poisoned when it is freed."""

    provider = NAME


class TestFakeCopies(DataTransferSuite):
    """Its copies, done when somebody waits."""

    provider = NAME
