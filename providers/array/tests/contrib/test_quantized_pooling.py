"""8-bit pools of com.microsoft against a naive mean in float64 and onnxruntime."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ort_py.errors import InvalidArgument

from ..oracle import run
from ..runtime_oracle import agree_with_runtime, runtime_outputs
from .near_ties import DOMAIN, agree_but_for_ties, assert_quantized, number, on_device, random_eight

TYPES = [np.uint8, np.int8]

SCALES = (0.031, 0.0237)
"""Of input and output. No mean of integers times their ratio is a half."""


def last(x: Any) -> Any:
    """Channels last."""
    return np.ascontiguousarray(np.moveaxis(x, 1, -1))


def mean(x: Any, zero: int, sizes: Sequence[int], attributes: dict[str, Any]) -> Any:
    """Means of the windows of ``(n, c, *size)`` less the zero point, one by one, in float64."""
    rank = x.ndim - 2
    kernel, strides = attributes["kernel_shape"], attributes.get("strides", [1] * rank)
    pads = attributes.get("pads", [0] * 2 * rank)
    y = np.zeros((*x.shape[:2], *sizes))
    for place in itertools.product(*map(range, sizes)):
        first = [p * s - pads[axis] for axis, (p, s) in enumerate(zip(place, strides, strict=True))]
        seen_of = tuple(slice(max(0, f), max(0, f + k)) for f, k in zip(first, kernel, strict=True))
        window = x[(slice(None), slice(None), *seen_of)]
        axes = tuple(range(2, x.ndim))
        seen = np.prod(kernel) if attributes.get("count_include_pad") else np.prod(window.shape[2:])
        here: Any = (slice(None), slice(None), *place)
        y[here] = (window.astype(np.float64) - zero).sum(axis=axes) / seen
    return y


POOLS: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "plain": ((2, 3, 7, 6), (5, 4), {"kernel_shape": [3, 3]}),
    "strides": ((1, 5, 9, 8), (4, 4), {"kernel_shape": [3, 2], "strides": [2, 2]}),
    "pads": ((1, 2, 5, 5), (5, 6), {"kernel_shape": [3, 3], "pads": [1, 2, 1, 1]}),
    "counted_pads": ((1, 2, 5, 5), (5, 6), {"kernel_shape": [3, 3], "pads": [1, 2, 1, 1], "count_include_pad": 1}),
    "ceil": ((1, 2, 6, 6), (3, 3), {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}),
    "one": ((2, 3, 11), (5,), {"kernel_shape": [3], "strides": [2]}),
    "three": ((1, 2, 4, 4, 4), (3, 3, 3), {"kernel_shape": [2, 2, 2]}),
}


@pytest.mark.parametrize("channels_last", [0, 1])
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("case", POOLS)
def test_average_pool(case: str, dtype: Any, channels_last: int) -> None:
    """One to three axes, padding seen or counted, ceil mode, channels first and last."""
    shape, sizes, attributes = POOLS[case]
    x = random_eight(shape, dtype)
    exact = mean(x, 3, sizes, attributes) * (np.float32(SCALES[0]) / np.float64(np.float32(SCALES[1]))) + 6
    inputs = [x, number(SCALES[0]), number(3, dtype), number(SCALES[1]), number(6, dtype)]
    if channels_last:
        inputs[0], exact = last(x), last(exact)
    agree_but_for_ties("QLinearAveragePool", inputs, exact, channels_last=channels_last, **attributes)


def test_average_pool_in_ceil_mode_divides_by_the_whole_kernel() -> None:
    """Where padding counts, a window that reaches beyond it too: AveragePool has changed, the 8-bit form not."""
    x = random_eight((1, 2, 6, 6), np.uint8)
    attributes: dict[str, Any] = {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1, "count_include_pad": 1}
    exact = mean(x, 3, (3, 3), attributes) * (np.float32(SCALES[0]) / np.float64(np.float32(SCALES[1]))) + 6
    inputs = [x, number(SCALES[0]), number(3, np.uint8), number(SCALES[1]), number(6, np.uint8)]
    agree_but_for_ties("QLinearAveragePool", inputs, exact, **attributes)


def test_absent_zero_points_are_zero() -> None:
    x = random_eight((1, 2, 5, 5), np.int8)
    (y,) = run("QLinearAveragePool", [x, number(0.3), None, number(0.2)], domain=DOMAIN, opset=1, kernel_shape=[2, 2])
    exact = mean(x, 0, (4, 4), {"kernel_shape": [2, 2]}) * (np.float32(0.3) / np.float64(np.float32(0.2)))
    assert_quantized(y, exact, np.int8)


def test_exact_halves_are_rounded_with_their_zero_point() -> None:
    """Scales are powers of two: 1/2 + 1 becomes 2, as in onnxruntime."""
    x = np.array([[[1, 0, 2, 1, 3, 2]]], np.uint8)
    inputs = [x, number(0.5), number(0, np.uint8), number(0.5), number(1, np.uint8)]
    attributes: dict[str, Any] = {"kernel_shape": [2], "strides": [2]}
    (y,) = run("QLinearAveragePool", inputs, domain=DOMAIN, opset=1, **attributes)
    assert y.tolist() == [[[2, 2, 4]]]
    np.testing.assert_array_equal(
        y, runtime_outputs("QLinearAveragePool", inputs, opset=1, domain=DOMAIN, **attributes)[0]
    )


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("taps", [1, 2, 3])
def test_ties_are_those_of_the_steps_in_float32(taps: int, dtype: Any) -> None:
    """Scales of which products and quotients lie at halves or close to them: the integers of onnxruntime."""
    x = np.arange(256, dtype=np.uint8).view(dtype).reshape(1, 1, 1, 256)
    for x_scale, y_scale, zero in itertools.product((0.05, 0.1, 0.5), (0.01, 0.02, 0.1, 0.0625), (-3, 0, 126)):
        inputs = [x, number(x_scale), number(zero % 127, dtype), number(y_scale), number(100, dtype)]
        agree_with_runtime("QLinearAveragePool", inputs, opset=1, domain=DOMAIN, kernel_shape=[1, taps])


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    dtype=st.sampled_from(TYPES),
    size=st.tuples(st.integers(3, 7), st.integers(3, 7)),
    kernel=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    strides=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    batch=st.integers(0, 2),
    zeros=st.tuples(st.integers(0, 127), st.integers(0, 127)),
    scales=st.tuples(*[st.floats(2.0**-10, 1.0, width=32)] * 2),
    channels_last=st.integers(0, 1),
)
def test_average_pool_of_any_shape(
    dtype: Any, size: Any, kernel: Any, strides: Any, batch: int, zeros: Any, scales: Any, channels_last: int
) -> None:
    """Any scales and zero points, saturating or not; an empty batch."""
    x = random_eight((batch, 2, *size), dtype)
    out = [(s - k) // t + 1 for s, k, t in zip(size, kernel, strides, strict=True)]
    attributes = {"kernel_shape": list(kernel), "strides": list(strides)}
    exact = mean(x, zeros[0], out, attributes) * (scales[0] / scales[1]) + zeros[1]
    inputs = [
        last(x) if channels_last else x,
        number(scales[0]),
        number(zeros[0], dtype),
        number(scales[1]),
        number(zeros[1], dtype),
    ]
    (y,) = run("QLinearAveragePool", inputs, domain=DOMAIN, opset=1, channels_last=channels_last, **attributes)
    assert_quantized(y, last(exact) if channels_last else exact, dtype)


@pytest.mark.parametrize("channels_last", [0, 1])
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(2, 3, 7, 6), (1, 20, 9), (2, 1, 3, 4, 5), (0, 3, 4, 4)])
def test_global_average_pool(shape: tuple[int, ...], dtype: Any, channels_last: int) -> None:
    """All spatial axes, whatever their number."""
    x = random_eight(shape, dtype)
    axes = tuple(range(2, x.ndim))
    centred = x.astype(np.float64) - 3
    exact = centred.mean(axis=axes, keepdims=True) * (np.float32(SCALES[0]) / np.float64(np.float32(SCALES[1]))) + 6
    inputs = [x, number(SCALES[0]), number(3, dtype), number(SCALES[1]), number(6, dtype)]
    if channels_last:
        inputs[0], exact = last(x), last(exact)
    agree_but_for_ties("QLinearGlobalAveragePool", inputs, exact, channels_last=channels_last)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(
    "attributes",
    [
        {"kernel_shape": [3, 3]},
        {"kernel_shape": [2, 3], "strides": [2, 1], "pads": [1, 1, 0, 1]},
        {"kernel_shape": [2, 2], "dilations": [2, 1], "ceil_mode": 1, "strides": [2, 2]},
        {"kernel_shape": [3, 3], "auto_pad": "SAME_UPPER", "strides": [2, 2]},
    ],
    ids=str,
)
def test_nhwc_max_pool(attributes: dict[str, Any], dtype: Any) -> None:
    agree_with_runtime("NhwcMaxPool", [random_eight((2, 7, 8, 5), dtype)], opset=1, domain=DOMAIN, **attributes)


def test_nhwc_max_pool_of_one_and_three_axes() -> None:
    for shape, kernel in (((2, 3, 9), [2]), ((1, 2, 4, 5, 4), [2, 3, 2])):
        x = random_eight(shape, np.int8)
        (y,) = run("NhwcMaxPool", [last(x)], domain=DOMAIN, opset=1, kernel_shape=kernel)
        np.testing.assert_array_equal(y, last(run("MaxPool", [x], opset=12, kernel_shape=kernel)[0]))


def test_on_another_array_module() -> None:
    """Nothing of NumPy's own is used."""
    x, scale, zero = random_eight((1, 2, 5, 6), np.int8), number(0.3), number(3, np.int8)
    on_device("QLinearAveragePool", [x, scale, zero, scale, zero], kernel_shape=[2, 2], pads=[1, 0, 0, 1])
    on_device("QLinearGlobalAveragePool", [x, scale, zero, scale, zero], channels_last=1)
    on_device("NhwcMaxPool", [x], kernel_shape=[1, 2])


@pytest.mark.parametrize("op_type", ["QLinearAveragePool", "QLinearGlobalAveragePool", "NhwcMaxPool"])
def test_two_axes_are_refused(op_type: str) -> None:
    scale, zero = number(0.3), number(3, np.int8)
    inputs = [np.zeros((3, 4), np.int8)] + ([] if op_type == "NhwcMaxPool" else [scale, zero, scale, zero])
    attributes = {} if "Global" in op_type else {"kernel_shape": [1]}
    with pytest.raises(InvalidArgument, match=re.escape("The input has shape [3, 4]; pooling needs batch")):
        run(op_type, inputs, domain=DOMAIN, opset=1, **attributes)


def test_several_scales_are_refused() -> None:
    """With the input and its shape."""
    zero = number(3, np.int8)
    inputs = [np.zeros((1, 2, 3), np.int8), np.ones(2, np.float32), zero, number(0.3), zero]
    with pytest.raises(
        InvalidArgument, match=re.escape("Input 1 ('x1') has shape [2]; QLinearGlobalAveragePool knows one")
    ):
        run("QLinearGlobalAveragePool", inputs, domain=DOMAIN, opset=1)
