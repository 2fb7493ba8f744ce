"""Fixtures of the provider's tests: they need the library, which exists for one platform."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

if TYPE_CHECKING:
    from ort_py_onednn.execution.plan import Plan
    from ort_py_onednn.execution.region import DnnlRegion


@pytest.fixture(scope="session")
def library_reason() -> str:
    """The reason why there is no library here; empty if there is one."""
    from ort_py_onednn.binding.library import (  # pytest reads this file where the package is not there, too
        Missing,
        find,
    )

    found = find()
    return found.reason if isinstance(found, Missing) else ""


@pytest.fixture
def needs_exact_integers(library_reason: str) -> None:
    """Skip a test of how products of 8-bit integers are made where the provider refuses to make them."""
    if library_reason:
        return  # the test is skipped for want of a library
    from ort_py_onednn.binding.features import NO_EXACT_INTEGERS, has_exact_integers

    if not has_exact_integers():
        pytest.skip(f"the provider makes no products of 8-bit integers here: {NO_EXACT_INTEGERS}")


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[Plan]:
    """Every plan that is made."""
    from ort_py_onednn.execution.region import DnnlRegion  # it imports the package, which may not be there

    found: list[Plan] = []
    original = DnnlRegion._planned

    def remember(self: DnnlRegion, *arguments: Any) -> Plan:
        found.append(original(self, *arguments))
        return found[-1]

    monkeypatch.setattr(DnnlRegion, "_planned", remember)
    return found


@pytest.fixture(autouse=True)
def _plans_are_checked(request: pytest.FixtureRequest, library_reason: str) -> Iterator[None]:
    """Check every plan that a test makes, and its first run: `watched`."""
    if library_reason or request.node.get_closest_marker("unwatched"):
        yield
        return
    from providers.onednn.tests.checking import watched  # it imports the package, which may not be there

    with watched():
        yield


@pytest.fixture(autouse=True)
def _needs_the_library(request: pytest.FixtureRequest, library_reason: str) -> Iterator[None]:
    if library_reason:
        pytest.skip(f"oneDNN cannot be opened: {library_reason}")
    with np.errstate(all="ignore"):
        yield
