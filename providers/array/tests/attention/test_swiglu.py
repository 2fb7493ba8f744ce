"""SwiGLU-28: the reference over shapes and types; extreme gates; blocks; what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ort_py.errors import InvalidArgument
from ort_py_kit.tolerances import assert_close

from ..oracle import FLOATS, agree, run, sample


@settings(max_examples=20, deadline=None, derandomize=True)
@given(
    shape=st.lists(st.integers(0, 4), max_size=3),
    alpha=st.sampled_from([1.0, 1.702, 0.0, -2.0]),
    dtype=st.sampled_from(FLOATS),
    seed=st.integers(0, 99),
)
def test_it_agrees_with_the_reference(shape: list[int], alpha: float, dtype: Any, seed: int) -> None:
    """Any shape, a scalar and empty ones included, of every type."""
    agree("SwiGLU", [sample(shape, dtype, seed), sample(shape, dtype, seed + 1)], alpha=alpha)


def test_large_tensors_are_cut_into_blocks() -> None:
    """Blocks give what the closed form gives."""
    gate, linear = (sample((3, 40000), np.float32, seed) for seed in range(2))
    (y,) = run("SwiGLU", [gate, linear])
    assert_close(y, gate / (1 + np.exp(-gate)) * linear)


def test_gates_far_from_zero_are_shut_or_open() -> None:
    """The exponential overflows where the sigmoid is 0; NaN stays NaN."""
    gate = np.array([-1e4, 1e4, np.nan, 0], np.float32)
    with np.errstate(over="ignore"):
        (y,) = run("SwiGLU", [gate, np.full(4, 2, np.float32)])
    np.testing.assert_array_equal(y, np.array([0, 2e4, np.nan, 0], np.float32))


def test_shapes_that_differ_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="must have the same shape") as caught:
        run("SwiGLU", [np.zeros((2, 3), np.float32), np.zeros(3, np.float32)])
    assert "SwiGLU_under_test" in str(caught.value)
    assert caught.value.fix
