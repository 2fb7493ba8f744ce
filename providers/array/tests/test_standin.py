"""The stand-in array module refuses what a device would, and has what both array modules have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from .standin import NAMES, StandInArray, array_module, to_device, to_host

xp: Any = array_module


@pytest.mark.parametrize(
    "wait",
    [
        bool,
        int,
        float,
        list,
        np.asarray,
        lambda x: x.tolist(),
        lambda x: [1, 2, 3][x],
        lambda x: np.add(x, 1),
        lambda x: np.zeros(1) + x,
        lambda x: np.concatenate([x, x]),
    ],
)
def test_implicit_waits_are_refused(wait: Callable[[Any], Any]) -> None:
    """Nothing turns a stand-in array into host values by accident."""
    with pytest.raises((TypeError, AttributeError)):
        wait(StandInArray(np.array([1])))


@pytest.mark.parametrize(
    "mix",
    [xp.add, lambda x, n: x + n, lambda x, n: xp.concatenate((x, n)), lambda x, n: x[n]],
)
def test_numpy_arrays_are_refused(mix: Callable[[Any, Any], Any]) -> None:
    """Host and device arrays do not mix, not even as indices."""
    with pytest.raises(TypeError, match="mixed with device arrays"):
        mix(to_device(np.array([0])), np.array([0]))


def test_names_that_one_module_lacks_are_missing() -> None:
    """Only shared names exist; each is NumPy's."""
    assert all(hasattr(np, name) for name in NAMES)
    for name in ("vectorize", "asnumpy", "frompyfunc"):
        assert not hasattr(xp, name)
    assert not hasattr(xp.multiply, "at")


def test_arithmetic_and_views() -> None:
    """Kernels can use functions, operators, indices, writes through views, and `item`."""
    x = to_device(np.arange(6.0).reshape(2, 3))
    x.reshape((-1,))[1:3] = 7
    assert to_host(xp.sum(x * 2 + 1, axis=1)).tolist() == [31, 27]
    assert to_host(x[xp.asarray(np.array([1]))]).shape == (1, 3)
    assert xp.max(x).item() == 7
    assert to_host(xp.lib.stride_tricks.as_strided(x, (2, 2), (8, 24))).shape == (2, 2)
    assert to_host(-x.T)[0, 0] == 0
    assert "StandInArray" in repr(x)
