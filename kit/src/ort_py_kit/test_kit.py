"""The suites for the provider that the command line names: ``pytest --pyargs ort_py_kit --provider NAME``."""

from __future__ import annotations

import pytest

from ort_py_kit.plugin import COMMAND_LINE
from ort_py_kit.suites.allocator import AllocatorSuite
from ort_py_kit.suites.base import ProviderChecks
from ort_py_kit.suites.provider import ProviderSuite
from ort_py_kit.suites.transfer import DataTransferSuite
from ort_py_kit.suites.transform import TransformSuite


class _FromTheCommandLine(ProviderChecks):
    @pytest.fixture(autouse=True)
    def _given(self, request: pytest.FixtureRequest) -> None:
        suite = type(self)
        suite.provider, suite.plugin, suite.options, suite.expected_failures = request.config.stash[COMMAND_LINE]


class TestProvider(_FromTheCommandLine, ProviderSuite):
    """The provider itself."""


class TestAllocator(_FromTheCommandLine, AllocatorSuite):
    """Its memory."""


class TestDataTransfer(_FromTheCommandLine, DataTransferSuite):
    """Its copies."""


class TestTransforms(_FromTheCommandLine, TransformSuite):
    """The transforms it brings."""
