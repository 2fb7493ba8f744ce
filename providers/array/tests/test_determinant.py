"""Det against the sum over permutations and onnxruntime; batches, empty matrices, blocks."""

from __future__ import annotations

from itertools import permutations
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ort_py.errors import InvalidArgument
from ort_py_kit.tolerances import assert_close

from .oracle import BF16, FLOATS, run, sample
from .runtime_oracle import agree_with_runtime


def by_permutations(x: Any) -> Any:
    """Leibniz' formula, matrix by matrix."""
    size = x.shape[-1]
    y = np.zeros(x.shape[:-2])
    for order in permutations(range(size)):
        sign = prod(1 if a < b else -1 for i, a in enumerate(order) for b in order[i + 1 :])
        y += sign * np.prod([x[..., row, column] for row, column in enumerate(order)], axis=0)
    return y


@settings(max_examples=25, deadline=None, derandomize=True)
@given(lead=st.lists(st.integers(0, 3), max_size=3), size=st.integers(0, 4))
def test_leibniz(lead: list[int], size: int) -> None:
    """Any batch and size; a matrix without rows has the determinant 1."""
    x = sample((*lead, size, size), np.float64)
    assert_close(run("Det", [x])[0], by_permutations(x))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_every_type(dtype: Any) -> None:
    """Narrow floats are computed in float32 and rounded once."""
    x = sample((5, 3, 3), dtype)
    assert_close(run("Det", [x], opset=11 if dtype != BF16 else 22)[0], by_permutations(x.astype(float)).astype(dtype))


def test_onnxruntime_agrees() -> None:
    """An independent implementation, on larger matrices; one matrix gives a scalar."""
    agree_with_runtime("Det", [sample((2, 3, 12, 12), np.float32, low=-1, high=1)], opset=11)
    agree_with_runtime("Det", [sample((6, 6), np.float32)], opset=11)


def test_large_batches_are_cut_into_blocks() -> None:
    """The parts give what all give at once: the determinant of a triangle is its diagonal's product."""
    x = np.triu(sample((40, 3000, 3, 3), np.float32))
    assert_close(run("Det", [x])[0], np.prod(np.diagonal(x, axis1=-2, axis2=-1), axis=-1))


def test_singular_and_not_finite() -> None:
    """A singular matrix has 0, one with NaN has NaN."""
    y = run("Det", [np.array([[[1, 2], [2, 4]], [[np.nan, 1], [1, 1]]], np.float32)])[0]
    assert y[0] == 0
    assert np.isnan(y[1])


@pytest.mark.parametrize("shape", [(3,), (2, 3), ()], ids=str)
def test_other_shapes_are_refused(shape: tuple[int, ...]) -> None:
    """Only square matrices have a determinant."""
    with pytest.raises(InvalidArgument, match="Det needs square matrices") as caught:
        run("Det", [np.zeros(shape, np.float32)])
    assert caught.value.fix
