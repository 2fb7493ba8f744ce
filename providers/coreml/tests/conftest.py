"""Fixtures of the provider's tests: an interpreter stands in for Core ML, which runs on macOS only."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from ort_py.contracts import Availability
from ort_py.devices import HOST
from ort_py_coreml import back_ends, plugin, runtime
from providers.coreml.tests.mil_interpreter import InterpretedRuntime


def pytest_itemcollected(item: pytest.Item) -> None:
    """coremltools leaves it to the garbage collector to remove its temporary folders, which Python warns about."""
    item.add_marker(pytest.mark.filterwarnings("ignore:Implicitly cleaning up:ResourceWarning"))


@pytest.fixture
def interpreted(monkeypatch: pytest.MonkeyPatch) -> Iterator[InterpretedRuntime]:
    """The provider is available, and its packages are computed by the interpreter."""
    found = InterpretedRuntime()
    monkeypatch.setattr(runtime, "open_runtime", lambda: found)
    there = Availability(True, reason="an interpreter", devices=(HOST,))
    monkeypatch.setattr(plugin.CoreMLProviderFactory, "probe", lambda _: there)
    absent = Availability(False, reason="not in these tests")
    monkeypatch.setattr(back_ends, "find", lambda name: there if name == "coremltools" else absent)
    with np.errstate(all="ignore"):
        yield found
