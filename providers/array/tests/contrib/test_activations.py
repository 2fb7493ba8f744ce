"""Gelu and its relatives of com.microsoft against onnxruntime, and a float64 formula for the types it lacks."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ort_py.errors import InvalidArgument

from ..oracle import BF16, sample
from ..runtime_oracle import agree_with_runtime
from .closed_forms import DOMAIN, contrib, rounded_once

_NARROW = (np.dtype(np.float16), BF16)
_erf = np.vectorize(math.erf, otypes=[np.float64])


def _exact(op_type: str, x: Any) -> Any:
    x = x.astype(np.float64)
    if op_type == "QuickGelu":
        return x / (1 + np.exp(-np.float64(np.float32(1.702)) * x))
    if op_type == "FastGelu":
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return 0.5 * x * (1 + _erf(x / math.sqrt(2)))


@pytest.mark.parametrize("shape", [(3, 50), (70, 1000), (5,), (0, 4)], ids=str)
@pytest.mark.parametrize("op_type", ["Gelu", "QuickGelu", "FastGelu"])
def test_without_bias(op_type: str, shape: tuple[int, ...]) -> None:
    """Small and large tensors; the latter are cut into blocks."""
    agree_with_runtime(op_type, [sample(shape, np.float32)], opset=1, domain=DOMAIN)


@pytest.mark.parametrize("shape", [(3, 50), (2, 70, 600), (5,), (3, 40000), (0, 4)], ids=str)
@pytest.mark.parametrize("op_type", ["BiasGelu", "FastGelu"])
def test_with_bias(op_type: str, shape: tuple[int, ...]) -> None:
    """One bias a column; rows may be longer than a block."""
    inputs = [sample(shape, np.float32), sample(shape[-1:], np.float32, 1)]
    agree_with_runtime(op_type, inputs, opset=1, domain=DOMAIN)


def test_the_factor_of_quick_gelu() -> None:
    agree_with_runtime("QuickGelu", [sample((4, 5), np.float32)], opset=1, domain=DOMAIN, alpha=0.7)


@pytest.mark.parametrize("dtype", [*_NARROW, np.dtype(np.float64)], ids=str)
@pytest.mark.parametrize("op_type", ["Gelu", "QuickGelu", "FastGelu", "BiasGelu"])
def test_types_that_onnxruntime_lacks(op_type: str, dtype: Any) -> None:
    """The float64 formula, rounded once; the sum with the bias is not rounded before."""
    x, bias = sample((4, 30), dtype), sample((30,), dtype, 1)
    with_bias = op_type in ("BiasGelu", "FastGelu")
    (y,) = contrib(op_type, [x, bias] if with_bias else [x])
    total = x.astype(np.float64) + bias.astype(np.float64) if with_bias else x
    rounded_once(y, _exact(op_type, total), dtype)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=4), st.integers(0, 99))
def test_any_shape(shape: list[int], seed: int) -> None:
    x, bias = sample(shape, np.float32, seed), sample(shape[-1:], np.float32, seed + 1)
    (y,) = contrib("BiasGelu", [x, bias])
    assert y.shape == tuple(shape)
    np.testing.assert_allclose(y, _exact("BiasGelu", x + bias), rtol=1e-5, atol=1e-6)


def test_numbers_that_are_none() -> None:
    """NaN stays NaN, infinity stays, and minus infinity does not become NaN if the formula has a limit."""
    x = np.array([np.nan, np.inf, 0.0], np.float32)
    for op_type in ("Gelu", "QuickGelu", "FastGelu"):
        np.testing.assert_array_equal(contrib(op_type, [x])[0], x)


@pytest.mark.parametrize("bias", [np.zeros(3, np.float32), np.zeros((1, 4), np.float32)], ids=["short", "matrix"])
@pytest.mark.parametrize("op_type", ["BiasGelu", "FastGelu"])
def test_a_bias_that_does_not_fit_is_refused(op_type: str, bias: Any) -> None:
    with pytest.raises(InvalidArgument, match=re.escape(f"A bias of shape {list(bias.shape)}") + r"[\s\S]*last axis"):
        contrib(op_type, [np.zeros((2, 4), np.float32), bias])
