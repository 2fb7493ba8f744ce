"""Fixtures of the provider's tests: they need the library, which exists for some platforms."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest


@pytest.fixture(scope="session")
def library_reason() -> str:
    """The reason why there is no library here; empty if there is one."""
    from ort_py_xnnpack.binding.library import (  # pytest reads this file where the package is not there, too
        Missing,
        find,
    )

    found = find()
    return found.reason if isinstance(found, Missing) else ""


@pytest.fixture(autouse=True)
def _needs_the_library(library_reason: str) -> Iterator[None]:
    if library_reason:
        pytest.skip(f"XNNPACK cannot be opened: {library_reason}")
    with np.errstate(all="ignore"):
        yield
