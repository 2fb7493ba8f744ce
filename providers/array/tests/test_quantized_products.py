"""Products and convolutions of 8-bit integers: exact, whatever the size."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ort_py.errors import InvalidArgument
from ort_py_array.exact_products import exact_depth, exact_matmul, known_depth
from ort_py_kit.kernel_runner import LocalKernelContext, make_node_spec

from .oracle import run
from .runtime_oracle import addable, agree_with_runtime
from .test_quantization import integers, scalar

TYPES = [np.int8, np.uint8]


@pytest.mark.parametrize("left", TYPES)
@pytest.mark.parametrize("right", TYPES)
@pytest.mark.parametrize("constants", [(), (1, 3)], ids=["fed", "constant"])
def test_matmul_integer_is_exact_beyond_float32(left: Any, right: Any, constants: tuple[int, ...]) -> None:
    """3,000 products of extreme values leave float32's exact range; onnxruntime and int64 agree with us."""
    a, b = integers((4, 3000), left), integers((3000, 5), right, 1)
    a[0], b[:, 0] = np.iinfo(left).max, np.iinfo(right).max
    zeros = [scalar(7, left), scalar(3, right)]
    agree_with_runtime("MatMulInteger", [a, addable(b, left), *zeros], opset=10, constants=constants)
    (y,) = run("MatMulInteger", [a, b, *zeros], opset=10, constants=constants)
    np.testing.assert_array_equal(y, (a.astype(np.int64) - 7) @ (b.astype(np.int64) - 3))


def test_matmul_integer_with_zero_points_by_row_and_column() -> None:
    """The specification allows one per row of A and one per column of B; onnxruntime only the latter."""
    a, b = integers((2, 4, 6), np.uint8), integers((6, 3), np.int8, 1)
    rows, columns = integers((4,), np.uint8, 2), integers((3,), np.int8, 3)
    (y,) = run("MatMulInteger", [a, b, rows, columns], opset=10)
    np.testing.assert_array_equal(
        y, (a.astype(int) - rows.astype(int)[:, None]) @ (b.astype(int) - columns.astype(int))
    )


def test_matmul_integer_refuses_a_zero_point_that_does_not_fit() -> None:
    with pytest.raises(InvalidArgument, match=re.escape("first operand's scale or zero point has shape [3]")):
        run("MatMulInteger", [np.zeros((2, 4), np.uint8), np.zeros((4, 2), np.int8), np.zeros(3, np.uint8)], opset=10)


def test_exact_depth_is_the_last_exact_number_of_products() -> None:
    """One more product of the bounds could leave the integers that float32 holds."""
    depth = exact_depth(255, 128)
    assert depth * 255 * 128 <= 2**24 < (depth + 1) * 255 * 128


def test_known_depth_is_certified_by_the_sums_of_columns() -> None:
    """All at once where they are small, else in pieces whose sums are, else as deep as the greatest value allows."""
    few = np.ones((6000, 2), np.float32)
    few[::100] = 255
    assert exact_depth(255, 255) < known_depth(np, few) == 6000
    uneven = np.full((1400, 2), 100, np.float32)
    assert known_depth(np, uneven) == exact_depth(255, 100) < 700
    uneven[::2] = 50
    assert known_depth(np, uneven) == 700
    assert known_depth(np, np.full(100, 255, np.float32)) >= 100
    assert known_depth(np, np.zeros((0, 3), np.float32)) == 1
    assert known_depth(np, np.zeros((50, 3), np.float32)) >= 50


@pytest.mark.parametrize("depth", [300, 519, 777, 1500])
@pytest.mark.parametrize("constants", [(), (1, 3)], ids=["fed", "constant"])
def test_matmul_integer_of_known_weights_is_exact(constants: tuple[int, ...], depth: int) -> None:
    """Odd numbers of products, some columns full of extreme values."""
    a, b = integers((3, depth), np.uint8), integers((depth, 5), np.int8, 1)
    a[0], b[:, 0] = 255, 127
    zeros = [scalar(0, np.uint8), scalar(0, np.int8)]
    (y,) = run("MatMulInteger", [a, b, *zeros], opset=10, constants=constants)
    np.testing.assert_array_equal(y, a.astype(np.int64) @ b.astype(np.int64))


def test_exact_matmul_of_vectors() -> None:
    """Rank 1 is cut along its only axis."""
    a = np.full(2000, 255, np.float32)
    context = LocalKernelContext(make_node_spec("MatMulInteger", [a, a]))
    assert int(exact_matmul(context, a, a, exact_depth(255, 255))) == 2000 * 255 * 255


@pytest.mark.parametrize("right", TYPES)
@pytest.mark.parametrize("opset", [10, 21])
def test_qlinear_matmul_rounds_and_saturates_as_onnxruntime(right: Any, opset: int) -> None:
    """The requantised product, bit by bit."""
    inputs = [
        integers((2, 7, 600), np.uint8),
        scalar(0.02),
        scalar(9, np.uint8),
        addable(integers((600, 9), right, 1)),
        scalar(0.03),
        scalar(2, right),
        scalar(1.7),
        scalar(100, np.uint8),
    ]
    agree_with_runtime("QLinearMatMul", inputs, opset=opset, constants=(3, 5))


FLOAT8 = [np.dtype(getattr(ml_dtypes, f"float8_{name}")) for name in ("e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz")]


@pytest.mark.parametrize("scale", [np.float32, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("constants", [(), (3, 5)], ids=["fed", "constant"])
@pytest.mark.parametrize("dtype", FLOAT8, ids=str)
def test_qlinear_matmul_of_eight_bit_floats(dtype: Any, constants: tuple[int, ...], scale: Any) -> None:
    """Version 21: values, products and scales are exact in float32, so only the last rounding is seen; it saturates."""
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-8, 9, shape).astype(np.float32) for shape in ((2, 5, 12), (12, 40)))
    a[0, 0], b[:, 0] = 8, 8
    zero = scalar(0, dtype)
    factors = [scalar(value, scale) for value in (2.0, 0.5, 0.125)]
    for y_scale in (factors[2], scalar(2.0**-8, scale)):
        inputs = [a.astype(dtype), factors[0], zero, b.astype(dtype), factors[1], zero, y_scale, zero]
        (y,) = run("QLinearMatMul", inputs, opset=21, constants=constants)
        exact = a.astype(np.float64) @ b.astype(np.float64) / float(y_scale)
        largest = {"float8_e4m3fn": 448.0, "float8_e4m3fnuz": 240.0}.get(dtype.name, 57344.0)
        assert y.dtype == dtype
        np.testing.assert_array_equal(y.astype(np.float64), np.clip(exact, -largest, largest).astype(dtype))
        assert np.abs(y.astype(np.float64)).max() == largest or y_scale is factors[2]


def test_qlinear_matmul_of_integers_and_eight_bit_floats() -> None:
    """Each of the three may have a type of its own; scales by row and column."""
    rng = np.random.default_rng(0)
    a, b = rng.integers(-8, 9, (4, 6)).astype(np.int8), rng.integers(-8, 9, (6, 3)).astype(FLOAT8[2])
    a_scale, b_scale = (np.exp2(np.arange(n)).astype(np.float32) for n in (4, 3))
    zeros = [np.arange(4).astype(np.int8), np.zeros(3, FLOAT8[2]), scalar(7, np.uint8)]
    inputs = [a, a_scale, zeros[0], b, b_scale, zeros[1], scalar(16.0), zeros[2]]
    (y,) = run("QLinearMatMul", inputs, opset=21)
    left = (a - np.arange(4.0)[:, None]) * a_scale[:, None]
    exact = left @ (b.astype(np.float64) * b_scale) / 16
    np.testing.assert_array_equal(y, np.clip(np.rint(exact) + 7, 0, 255).astype(np.uint8))


CONVOLUTIONS: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "small": ((2, 3, 9, 9), (8, 3, 3, 3), {"pads": [1, 1, 1, 1]}),
    "deep": ((1, 120, 6, 6), (4, 120, 3, 3), {"pads": [1, 0, 1, 2]}),
    "depthwise": ((1, 8, 9, 9), (8, 1, 3, 3), {"group": 8, "strides": [2, 2]}),
    "deep_groups": ((1, 160, 5, 5), (4, 80, 3, 3), {"group": 2}),
    "one_dimensional": ((1, 4, 20), (3, 4, 5), {"dilations": [2]}),
}


@pytest.mark.parametrize("right", TYPES)
@pytest.mark.parametrize("constants", [(), (1,)], ids=["fed", "constant"])
@pytest.mark.parametrize("case", CONVOLUTIONS)
def test_conv_integer_equals_onnxruntime(case: str, constants: tuple[int, ...], right: Any) -> None:
    """Also where channels have to be taken in parts, or float64, to stay exact."""
    shape, weights, attributes = CONVOLUTIONS[case]
    inputs = [integers(shape, np.uint8), integers(weights, right, 1), scalar(12, np.uint8)]
    agree_with_runtime("ConvInteger", inputs, opset=10, constants=constants, **attributes)


@pytest.mark.parametrize("by_filter", [False, True])
@pytest.mark.parametrize("constants", [(), (3, 5)], ids=["fed", "constant"])
@pytest.mark.parametrize("left", TYPES)
@pytest.mark.parametrize("case", CONVOLUTIONS)
def test_qlinear_conv_equals_onnxruntime(case: str, left: Any, constants: tuple[int, ...], by_filter: bool) -> None:
    """With an int32 bias, one weight scale or one a filter."""
    shape, weights, attributes = CONVOLUTIONS[case]
    m = weights[0]
    inputs = [
        integers(shape, left),
        scalar(0.02),
        scalar(9, left),
        addable(integers(weights, np.int8, 1), left),
        np.linspace(0.01, 0.05, m, dtype=np.float32) if by_filter else scalar(0.03),
        np.zeros(m, np.int8) if by_filter else scalar(0, np.int8),
        scalar(1.7),
        scalar(100, left),
        np.random.default_rng(2).integers(-999, 999, m).astype(np.int32),
    ]
    agree_with_runtime("QLinearConv", inputs, opset=10, constants=constants, **attributes)


def test_known_filters_of_extreme_values_are_taken_in_parts() -> None:
    """576 products of 255 and 127 each are beyond what float32 adds up: the sums of the weights say so."""
    x, w = np.full((1, 64, 4, 4), 255, np.uint8), np.full((2, 64, 3, 3), 127, np.int8)
    x[..., 0, 0], w[:, 0, 0, 0] = 254, 126
    for constants in ((), (1,)):
        agree_with_runtime("ConvInteger", [x, w], opset=10, constants=constants)


@pytest.mark.parametrize(
    ("x_zero", "w_zero", "text"),
    [((3,), (), "x_zero_point has shape [3] instead of one entry"), ((), (3,), "w_zero_point has shape [3]")],
)
def test_zero_points_that_do_not_fit_are_refused(x_zero: Any, w_zero: Any, text: str) -> None:
    """With the name and the shape."""
    inputs = [np.zeros((1, 2, 5, 5), np.uint8), np.zeros((4, 2, 3, 3), np.int8)]
    zeros = [np.zeros(x_zero, np.uint8), np.zeros(w_zero, np.int8)]
    with pytest.raises(InvalidArgument, match=re.escape(text)):
        run("ConvInteger", [*inputs, *zeros], opset=10)
