"""Fixtures of the operator library's tests: the engine switches floating-point warnings off, once per run."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest


@pytest.fixture(autouse=True)
def _quiet_arithmetic() -> Iterator[None]:
    # Infinities and NaN are ordinary results in ONNX; NumPy would report each, and warnings are errors here.
    with np.errstate(all="ignore"):
        yield
