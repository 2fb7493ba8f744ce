"""Quantising and dequantising against onnxruntime, and the reference for types that it does not have."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ort_py.errors import InvalidArgument

from .oracle import agree, run, sample
from .runtime_oracle import agree_with_runtime

X = sample((3, 4, 5), np.float32, low=-150, high=150)


def scalar(value: float, dtype: Any = np.float32) -> Any:
    """An array of shape ()."""
    return np.array(value).astype(dtype)


def integers(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> Any:
    """Seeded integers over the whole range of a type."""
    info = np.iinfo(dtype)
    return np.random.default_rng(seed).integers(info.min, info.max, shape, dtype, endpoint=True)


@pytest.mark.parametrize("opset", [10, 13, 19, 21, 23])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_one_scale_for_all(dtype: Any, opset: int) -> None:
    """Ties to even, saturation, zero point; and back."""
    agree_with_runtime("QuantizeLinear", [X, scalar(0.5), scalar(5, dtype)], opset=opset)
    agree_with_runtime("DequantizeLinear", [integers((3, 4), dtype), scalar(0.5), scalar(5, dtype)], opset=opset)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_one_scale_an_entry_of_an_axis(axis: int) -> None:
    scale = sample((X.shape[axis],), np.float32, 1, 0.1, 2)
    zero = integers((X.shape[axis],), np.int8)
    agree_with_runtime("QuantizeLinear", [X, scale, zero], opset=13, axis=axis)
    agree_with_runtime("DequantizeLinear", [integers(X.shape, np.int8), scale, zero], opset=13, axis=axis)


@pytest.mark.parametrize("block_size", [2, 3])
def test_one_scale_a_block(block_size: int) -> None:
    """Blocks that divide the axis and blocks that do not."""
    blocks = -(-4 // block_size)
    scale, zero = sample((3, blocks, 5), np.float32, 1, 0.1, 2), integers((3, blocks, 5), np.int8)
    for op_type, x in (("QuantizeLinear", X), ("DequantizeLinear", integers(X.shape, np.int8, 3))):
        agree_with_runtime(op_type, [x, scale, zero], opset=21, axis=1, block_size=block_size)


def test_wide_integers() -> None:
    """uint16 out; int32 in, where float32 could not hold the difference."""
    agree_with_runtime("QuantizeLinear", [X, scalar(0.001), scalar(7, np.uint16)], opset=21)
    agree_with_runtime("DequantizeLinear", [integers((9,), np.int32), scalar(0.01)], opset=13)


def test_without_zero_point_the_result_is_uint8_or_output_dtype() -> None:
    agree_with_runtime("QuantizeLinear", [X, scalar(0.7)], opset=13)
    assert run("QuantizeLinear", [X, scalar(0.7)], opset=21, output_dtype=3)[0].dtype == np.int8


@pytest.mark.parametrize("name", ["int4", "uint4"])
def test_four_bits(name: str) -> None:
    """Sub-byte integers saturate in their own range."""
    dtype = np.dtype(getattr(ml_dtypes, name))
    agree("QuantizeLinear", [X, scalar(9.3), scalar(1, dtype)], opset=21)
    agree("DequantizeLinear", [np.arange(8).astype(dtype), scalar(9.3), scalar(1, dtype)], opset=21)


@pytest.mark.parametrize("saturate", [0, 1])
@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"])
def test_eight_bit_floats(name: str, saturate: int) -> None:
    """Overflow becomes the largest value, or what the type has for it."""
    dtype = np.dtype(getattr(ml_dtypes, name))
    x = np.concatenate([X.ravel(), np.array([np.inf, -np.inf, np.nan, 1e9], np.float32)])
    (y,) = run("QuantizeLinear", [x, scalar(0.1), scalar(0, dtype)], opset=19, saturate=saturate)
    assert y.dtype == dtype
    expected = (x / np.float32(0.1)).astype(np.float32)
    if saturate:
        largest = {"float8_e4m3fn": 448, "float8_e4m3fnuz": 240}.get(name, 57344)
        expected = np.clip(expected, -largest, largest)
    np.testing.assert_array_equal(y.astype(np.float32), expected.astype(dtype).astype(np.float32))


def test_half_precision_scales_give_half_precision() -> None:
    """The result of dequantising has the scale's type."""
    (y,) = run("DequantizeLinear", [integers((5,), np.int8), scalar(0.5, np.float16)], opset=19)
    assert y.dtype == np.float16
    (q,) = run("QuantizeLinear", [X.astype(np.float16), scalar(0.5, np.float16), scalar(0, np.uint16)], opset=21)
    assert q.dtype == np.uint16


@pytest.mark.parametrize("x", [X, abs(X), -abs(X), X * 0], ids=["mixed", "positive", "negative", "zero"])
def test_dynamic_quantization(x: Any) -> None:
    """The scale always covers 0; all zeros have scale 1."""
    agree_with_runtime("DynamicQuantizeLinear", [x], opset=11, outputs=3)


def test_dynamic_quantization_of_nothing() -> None:
    """An empty tensor has a scale, too."""
    y, scale, zero = run("DynamicQuantizeLinear", [X[:0]], opset=11, outputs=3)
    assert (y.shape, scale.tolist(), zero.tolist()) == ((0, 4, 5), 1.0, 0)


@pytest.mark.parametrize(
    ("scale", "attributes", "text"),
    [
        ((3,), {"axis": 1}, "fit an input of shape [3, 4, 5] along axis 1"),
        ((3, 3, 5), {"block_size": 2}, "blocks of 2"),
    ],
)
def test_scales_that_do_not_fit_are_refused(scale: tuple[int, ...], attributes: dict[str, int], text: str) -> None:
    with pytest.raises(InvalidArgument, match=re.escape(text)):
        run("QuantizeLinear", [X, np.ones(scale, np.float32)], opset=21, **attributes)


@pytest.mark.parametrize("zero", [np.uint8(200), np.int8(-7), np.int16(300)])
def test_large_arrays_are_quantised_as_small_ones(zero: Any) -> None:
    """In blocks, the last of them shorter; values beyond the range and ties among them."""
    x = np.rint(sample((270001,), np.float32, low=-300, high=300) * 4) / 4
    scale, shift = np.array(0.5, np.float32), np.array(zero)
    (whole,) = run("QuantizeLinear", [x, scale, shift])
    pieces = [run("QuantizeLinear", [part, scale, shift])[0] for part in np.array_split(x, 7)]
    np.testing.assert_array_equal(whole, np.concatenate(pieces))


def test_large_arrays_are_quantised_dynamically_as_in_onnxruntime() -> None:
    """In blocks, the last of them shorter."""
    agree_with_runtime("DynamicQuantizeLinear", [sample((3, 90001), np.float32)], opset=11, outputs=3)


def test_numpy_scalars_are_dequantised() -> None:
    """Scalars that NumPy's functions return count as tensors, with and without a zero point."""
    assert run("DequantizeLinear", [np.int8(5), np.float32(0.5), np.int8(1)], opset=21)[0] == 2
    assert run("DequantizeLinear", [np.int8(5), np.float32(0.5)], opset=21)[0] == 2.5
