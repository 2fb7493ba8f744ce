"""QuantizeLinear and DequantizeLinear of com.microsoft: as onnxruntime, and as ONNX's for types it lacks there."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ort_py.errors import InvalidArgument

from ..oracle import agree, run, sample
from ..runtime_oracle import agree_with_runtime
from .near_ties import DOMAIN, number, on_device

X = sample((3, 4, 5), np.float32, low=-9, high=9)
WIDE = [np.int8, np.uint8, np.int16, np.uint16]
FOUR = ["int4", "uint4"]


@pytest.mark.parametrize("dtype", WIDE)
def test_one_scale(dtype: Any) -> None:
    agree_with_runtime("QuantizeLinear", [X, number(0.0123), number(3, dtype)], opset=1, domain=DOMAIN)
    q = np.arange(60).reshape(3, 4, 5).astype(dtype)
    agree_with_runtime("DequantizeLinear", [q, number(0.0123), number(3, dtype)], opset=1, domain=DOMAIN)


@pytest.mark.parametrize("axis", [0, 1, -1, None])
@pytest.mark.parametrize("dtype", WIDE)
def test_one_scale_an_entry_of_an_axis(dtype: Any, axis: int | None) -> None:
    """Without the attribute it is axis 1."""
    size = X.shape[1 if axis is None else axis]
    scale, zero = np.linspace(0.1, 0.9, size, dtype=np.float32), np.arange(size).astype(dtype)
    attributes: dict[str, Any] = {} if axis is None else {"axis": axis}
    agree_with_runtime("QuantizeLinear", [X, scale, zero], opset=1, domain=DOMAIN, **attributes)
    q = np.arange(60).reshape(3, 4, 5).astype(dtype)
    agree_with_runtime("DequantizeLinear", [q, scale, zero], opset=1, domain=DOMAIN, **attributes)


def test_int32() -> None:
    """Only dequantised, and without zero point."""
    q = np.array([-(2**31), -7, 0, 2**24 + 1, 2**31 - 1], np.int32)
    agree_with_runtime("DequantizeLinear", [q, number(0.3), number(0, np.int32)], opset=1, domain=DOMAIN)


@pytest.mark.parametrize("name", FOUR)
def test_four_bits_are_those_of_onnx(name: str) -> None:
    """The operators are ONNX's (21), which have an oracle."""
    dtype = np.dtype(getattr(ml_dtypes, name))
    inputs = [X, number(1.3), number(1, dtype)]
    np.testing.assert_array_equal(
        *(run("QuantizeLinear", inputs, domain=d, opset=o)[0] for d, o in ((DOMAIN, 1), ("", 21)))
    )
    agree("QuantizeLinear", inputs, opset=21)
    (y,) = run("DequantizeLinear", [np.arange(8).astype(dtype), number(1.5), number(1, dtype)], domain=DOMAIN, opset=1)
    assert y.tolist() == [1.5 * (value - 1) for value in range(8)]


def test_half_precision() -> None:
    """float16 in and out; quotients and products are formed in float32 and rounded once, here and in onnxruntime."""
    x, scale = X.astype(np.float16), number(0.3, np.float16)
    (q,) = run("QuantizeLinear", [x, scale, number(3, np.uint8)], domain=DOMAIN, opset=1)
    np.testing.assert_array_equal(q, np.clip(np.rint(x.astype(np.float64) / float(scale)) + 3, 0, 255))
    (y,) = run("DequantizeLinear", [q, scale, number(3, np.uint8)], domain=DOMAIN, opset=1)
    assert y.dtype == np.float16
    np.testing.assert_array_equal(y, ((q.astype(np.float64) - 3) * float(scale)).astype(np.float16))
    agree_with_runtime("QuantizeLinear", [x, scale, number(3, np.uint8)], opset=1, domain=DOMAIN)
    agree_with_runtime("DequantizeLinear", [q, scale, number(3, np.uint8)], opset=1, domain=DOMAIN)


def test_without_zero_point_the_result_is_uint8() -> None:
    (q,) = run("QuantizeLinear", [X, number(0.1)], domain=DOMAIN, opset=1)
    np.testing.assert_array_equal(
        q, run("QuantizeLinear", [X, number(0.1), number(0, np.uint8)], domain=DOMAIN, opset=1)[0]
    )
    assert q.dtype == np.uint8


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    dtype=st.sampled_from(WIDE),
    shape=st.lists(st.integers(0, 4), max_size=4),
    scale=st.floats(2.0**-30, 8.0, width=32),
    zero=st.integers(0, 127),
)
def test_any_shape_scale_and_zero_point(dtype: Any, shape: list[int], scale: float, zero: int) -> None:
    """Scalars, empty tensors, tiny scales that saturate."""
    x = sample(shape, np.float32)
    agree_with_runtime("QuantizeLinear", [x, number(scale), number(zero, dtype)], opset=1, domain=DOMAIN)


def test_on_another_array_module() -> None:
    """Nothing of NumPy's own is used."""
    on_device("QuantizeLinear", [X, number(0.1), number(3, np.uint8)])
    on_device("DequantizeLinear", [X.astype(np.int8), np.ones(4, np.float32), np.ones(4, np.int8)], axis=1)


@pytest.mark.parametrize(
    ("scale", "zero", "text"),
    [
        ((4,), (), "The scale has shape [4] and the zero point []"),
        ((3,), (3,), "does not fit an input of shape [3, 4, 5] along axis 1"),
    ],
)
def test_scales_that_do_not_fit_are_refused(scale: tuple[int, ...], zero: tuple[int, ...], text: str) -> None:
    inputs = [X, np.ones(scale, np.float32), np.zeros(zero, np.uint8)]
    with pytest.raises(InvalidArgument, match=re.escape(text)):
        run("QuantizeLinear", inputs, domain=DOMAIN, opset=1)
