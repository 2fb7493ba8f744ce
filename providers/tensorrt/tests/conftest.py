"""Fixtures of this provider's tests: TensorRT-RTX, which builds engines without a GPU."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from ort_py_tensorrt.toolkit import Toolkit, open_toolkit
from ort_py_tensorrt.variants import RTX

NEEDS_RTX = "tensorrt-rtx-cu13 is not installed: its parser and its builder are what is tested (90 MB, no GPU needed)"


@pytest.fixture(scope="session")
def toolkit() -> Toolkit:
    """TensorRT-RTX itself; skips where it is not installed."""
    if find_spec(RTX.module) is None:
        pytest.skip(NEEDS_RTX)
    return open_toolkit(RTX)
