"""Sums and means of many elements keep the digits that NumPy's sums in pairs keep."""

from __future__ import annotations

import numpy as np
import pytest

from providers.onednn.tests.models import model, node, run_here


@pytest.mark.parametrize("size", [64, 250, 1000])
@pytest.mark.parametrize("name", ["GlobalAveragePool", "ReduceMean 2 3", "ReduceMean 1 2 3", "ReduceSum 1 2 3"])
def test_many_elements(name: str, size: int) -> None:
    """A million numbers between 100 and 101: added one after the other they are 1 % off."""
    op_type, *axes = name.split()
    x = (np.random.default_rng(0).random((1, 1, size, size)) + 100).astype(np.float32)
    made = node(op_type, "x axes" if axes else "x", "y")
    data = model([made], {"x": x}, {"axes": np.array(axes, np.int64)} if axes else {})
    (found,) = run_here(data, {"x": x})
    wanted = x.astype(np.float64).sum() if op_type == "ReduceSum" else x.astype(np.float64).mean()
    np.testing.assert_allclose(found.reshape(()), wanted, rtol=1e-6)


@pytest.mark.parametrize("width", [2, 64, 65, 300])
def test_short_rows(width: int) -> None:
    """They are products with a constant, up to some width, and as exact."""
    x = (np.random.default_rng(0).random((500, width)) + 100).astype(np.float32)
    axes = {"axes": np.array([1], np.int64)}
    (found,) = run_here(model([node("ReduceMean", "x axes", "y")], {"x": x}, axes), {"x": x})
    np.testing.assert_allclose(found, x.astype(np.float64).mean(1, keepdims=True), rtol=1e-6)


def test_sums_that_cancel() -> None:
    """Of sorted numbers the sums of parts are large: the parts of 68 · 136 are no longer than what keeps the digits."""
    x = np.sort(np.random.default_rng(0).standard_normal(68 * 136)).astype(np.float32).reshape(1, -1)
    axes = {"axes": np.array([1], np.int64)}
    (found,) = run_here(model([node("ReduceSum", "x axes", "y")], {"x": x}, axes), {"x": x})
    np.testing.assert_allclose(found.reshape(()), x.astype(np.float64).sum(), atol=1e-7 * np.abs(x).sum())
