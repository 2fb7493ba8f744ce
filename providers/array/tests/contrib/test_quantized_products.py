"""8-bit products of com.microsoft against onnxruntime: floats as close as one rounding, integers equal."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ort_py.errors import InvalidArgument, LimitError
from ort_py_array.contrib import quantized_products as products
from ort_py_kit.kernel_runner import LocalKernelContext, make_node_spec
from ort_py_kit.tolerances import assert_close

from ..oracle import run, sample
from ..runtime_oracle import addable, agree_with_runtime, runtime_outputs
from .near_ties import DOMAIN, agree_but_for_ties, assert_quantized, number, on_device, random_eight

TYPES = [np.uint8, np.int8]


def parameters(columns: int, dtype: Any, by_column: bool) -> tuple[Any, Any]:
    """Scale and zero point of a right operand."""
    if not by_column:
        return number(0.03), number(3, dtype)
    return np.linspace(0.01, 0.05, columns, dtype=np.float32), np.arange(columns).astype(dtype)


@pytest.mark.parametrize("constants", [(), (1, 3)], ids=["fed", "constant"])
@pytest.mark.parametrize("by_column", [False, True])
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(7, 40), (2, 3, 40), (40,), (0, 40)])
def test_dynamic_quantize_matmul(shape: Any, dtype: Any, by_column: bool, constants: Any) -> None:
    """A vector, a matrix, a batch, nothing."""
    b = addable(random_eight((40, 9), dtype))
    scale, zero = parameters(9, dtype, by_column)
    inputs = [sample(shape, np.float32), b, scale, zero, sample((9,), np.float32, 1)]
    agree_with_runtime("DynamicQuantizeMatMul", inputs, opset=1, domain=DOMAIN, constants=constants)
    agree_with_runtime("DynamicQuantizeMatMul", inputs[:3], opset=1, domain=DOMAIN)


def test_dynamic_quantize_matmul_is_exact_beyond_float32() -> None:
    """3,000 products of extreme values leave float32's exact range."""
    a = np.full((2, 3000), 1.0, np.float32)
    a[1, ::2] = -1.0
    b = random_eight((3000, 4), np.uint8)
    b[:, 0] = 255
    inputs = [a, b, number(1.0), number(0, np.uint8)]
    for constants in ((), (1, 3)):
        agree_with_runtime("DynamicQuantizeMatMul", inputs, opset=1, domain=DOMAIN, constants=constants)


def test_dynamic_quantize_matmul_of_batches() -> None:
    """Scales of shape (…, 1, columns), as for a batch of weights."""
    a, b = sample((2, 3, 8), np.float32), random_eight((2, 8, 4), np.int8)
    scale = sample((2, 1, 4), np.float32, 1, 0.1, 0.2)
    (y,) = run("DynamicQuantizeMatMul", [a, b, scale], domain=DOMAIN, opset=1)
    parts = [run("DynamicQuantizeMatMul", [a, b[i], scale[i, 0]], domain=DOMAIN, opset=1)[0][i] for i in range(2)]
    np.testing.assert_allclose(y, np.stack(parts), rtol=1e-6)


@pytest.mark.parametrize("constants", [(), (1, 5)], ids=["fed", "constant"])
@pytest.mark.parametrize("by_column", [False, True])
@pytest.mark.parametrize(("left", "right"), [(np.uint8, np.uint8), (np.uint8, np.int8), (np.int8, np.int8)])
def test_matmul_integer_to_float(left: Any, right: Any, by_column: bool, constants: Any) -> None:
    """The types that onnxruntime's processor kernels take."""
    a, b = random_eight((2, 5, 12), left), addable(random_eight((12, 9), right, 1), left)
    scale, zero = parameters(9, right, by_column)
    inputs = [a, b, number(0.02), scale, number(5, left), zero, sample((9,), np.float32)]
    agree_with_runtime("MatMulIntegerToFloat", inputs, opset=1, domain=DOMAIN, constants=constants)
    agree_with_runtime("MatMulIntegerToFloat", inputs[:4], opset=1, domain=DOMAIN)


@pytest.mark.parametrize("scale_type", [np.float32, np.float16])
@pytest.mark.parametrize("by_column", [False, True])
@pytest.mark.parametrize(("left", "right"), [(np.int8, np.uint8), (np.uint8, np.int8)])
def test_matmul_integer_to_float_beyond_onnxruntime(left: Any, right: Any, by_column: bool, scale_type: Any) -> None:
    """float16, all 8 bits, and parameters of A by column, against float64 rounded once."""
    a, b = random_eight((5, 12), left), random_eight((12, 9), right, 1)
    a_scale = np.linspace(0.001, 0.005, 12).astype(scale_type) if by_column else number(0.002, scale_type)
    a_zero = np.arange(12).astype(left) if by_column else number(4, left)
    b_scale, bias = number(0.03, scale_type), sample((9,), scale_type)
    inputs = [a, b, a_scale, b_scale, a_zero, number(7, right), bias]
    wide = [x.astype(np.float64) for x in inputs]
    wanted = ((wide[0] - wide[4]) * wide[2]) @ ((wide[1] - wide[5]) * wide[3]) + wide[6]
    (y,) = run("MatMulIntegerToFloat", inputs, domain=DOMAIN, opset=1)
    assert_close(y, wanted.astype(scale_type))


def gemm_inputs(
    a: Any, b: Any, columns: int, *, by_column: bool = False, bias: Any = None, out: Any = None
) -> list[Any]:
    """A, its parameters, B, its parameters, C, the parameters of Y."""
    scale, zero = parameters(columns, b.dtype, by_column)
    inputs = [a, number(0.02), number(5, a.dtype), b, scale, zero, bias]
    return inputs if out is None else [*inputs, number(0.9), number(11, out)]


def gemm_exact(inputs: list[Any], trans_a: bool, trans_b: bool, alpha: float) -> Any:
    """The formula in float64, before it is rounded."""
    a, a_scale, a_zero, b, b_scale, b_zero, c = (np.asarray(0 if x is None else x, np.float64) for x in inputs[:7])
    left, right = (a - a_zero).T if trans_a else a - a_zero, (b.T if trans_b else b) - b_zero
    y = (left @ right + c) * (alpha * a_scale * b_scale)
    return y if len(inputs) < 9 else y / np.float64(inputs[7]) + np.float64(inputs[8])


@pytest.mark.parametrize("constants", [(), (3, 5)], ids=["fed", "constant"])
@pytest.mark.parametrize("by_column", [False, True])
@pytest.mark.parametrize(("trans_a", "trans_b"), [(0, 0), (1, 0), (0, 1), (1, 1)])
@pytest.mark.parametrize(("left", "right"), [(np.uint8, np.uint8), (np.uint8, np.int8), (np.int8, np.int8)])
def test_qgemm(left: Any, right: Any, trans_a: int, trans_b: int, by_column: bool, constants: Any) -> None:
    """Quantised and float results, transposed either way."""
    a, b = random_eight((12, 5) if trans_a else (5, 12), left), random_eight((9, 12) if trans_b else (12, 9), right, 1)
    bias = np.random.default_rng(2).integers(-9999, 9999, (9,)).astype(np.int32)
    attributes: dict[str, Any] = {"transA": trans_a, "transB": trans_b, "alpha": 0.7}
    inputs = gemm_inputs(a, addable(b, left), 9, by_column=by_column, bias=bias, out=left)
    wanted = gemm_exact(inputs, bool(trans_a), bool(trans_b), float(np.float32(0.7)))
    agree_but_for_ties("QGemm", inputs, wanted, constants=constants, **attributes)
    agree_with_runtime("QGemm", inputs[:7], opset=1, domain=DOMAIN, constants=constants, **attributes)


@pytest.mark.parametrize("bias", [(), (1,), (1, 4), (3, 1), (3, 4)], ids=str)
def test_qgemm_broadcasts_c(bias: tuple[int, ...]) -> None:
    c = np.random.default_rng(0).integers(-999, 999, bias).astype(np.int32)
    inputs = gemm_inputs(random_eight((3, 6), np.uint8), random_eight((6, 4), np.uint8, 1), 4, bias=c, out=np.uint8)
    agree_but_for_ties("QGemm", inputs, gemm_exact(inputs, False, False, 1.0))


def test_qgemm_over_nothing_is_c() -> None:
    """An inner dimension of 0, which onnxruntime fills without the scale of columns."""
    c = np.arange(4, dtype=np.int32) * 100
    inputs = gemm_inputs(np.zeros((3, 0), np.uint8), np.zeros((0, 4), np.int8), 4, bias=c, out=np.uint8)
    (y,) = run("QGemm", inputs, domain=DOMAIN, opset=1)
    assert_quantized(y, np.broadcast_to(gemm_exact(inputs, False, False, 1.0), (3, 4)), np.uint8)


def test_qgemm_with_a_scale_but_no_zero_point_divides() -> None:
    """The result stays float32, as in onnxruntime."""
    a, b = random_eight((3, 6), np.uint8), random_eight((6, 4), np.uint8, 1)
    inputs = [*gemm_inputs(a, b, 4), number(0.5)]
    agree_with_runtime("QGemm", inputs, opset=1, domain=DOMAIN)


CONVOLUTIONS: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "small": ((2, 3, 9, 8), (8, 3, 3, 3), {"pads": [1, 1, 1, 1]}),
    "pointwise": ((2, 16, 6, 5), (4, 16, 1, 1), {}),
    "depthwise": ((1, 8, 9, 9), (8, 1, 3, 3), {"group": 8, "strides": [2, 2]}),
    "one_dimensional": ((1, 4, 20), (3, 4, 5), {"dilations": [2], "pads": [4, 3]}),
}


@pytest.mark.parametrize("constants", [(), (3, 4, 5)], ids=["fed", "constant"])
@pytest.mark.parametrize("channels_last", [0, 1])
@pytest.mark.parametrize(("left", "right"), [(np.uint8, np.uint8), (np.uint8, np.int8), (np.int8, np.int8)])
@pytest.mark.parametrize("case", CONVOLUTIONS)
def test_qlinear_conv(case: str, left: Any, right: Any, channels_last: int, constants: Any) -> None:
    """Channels first or last, one scale a filter, int32 bias."""
    shape, weights, attributes = CONVOLUTIONS[case]
    m = weights[0]
    x = random_eight(shape, left)
    inputs = [
        np.ascontiguousarray(np.moveaxis(x, 1, -1)) if channels_last else x,
        number(0.02),
        number(9, left),
        addable(random_eight(weights, right, 1), left),
        np.linspace(0.01, 0.05, m, dtype=np.float32),
        np.zeros(m, right) if right is np.int8 else number(4, right),
        number(1.7),
        number(100, left),
        np.random.default_rng(2).integers(-999, 999, m).astype(np.int32),
    ]
    arguments: dict[str, Any] = {"opset": 1, "domain": DOMAIN, "channels_last": channels_last, **attributes}
    agree_with_runtime("QLinearConv", inputs, constants=constants, **arguments)
    agree_with_runtime("QLinearConv", inputs[:8], **arguments)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    rows=st.integers(0, 4),
    inner=st.integers(1, 300),
    columns=st.integers(1, 5),
    zeros=st.tuples(st.integers(0, 255), st.integers(-128, 127)),
    y_scale=st.floats(2.0**-10, 1.0, width=32),
)
def test_qgemm_of_any_shape(rows: int, inner: int, columns: int, zeros: Any, y_scale: float) -> None:
    """Deep products of all 8 bits leave float32's exact range; a tiny scale of the result saturates."""
    a, b = random_eight((rows, inner), np.uint8), random_eight((inner, columns), np.int8, 1)
    zero = number(zeros[0], np.uint8)
    inputs = [a, number(0.02), zero, b, number(0.01), number(zeros[1], np.int8), None, number(y_scale), zero]
    (y,) = run("QGemm", inputs, domain=DOMAIN, opset=1)
    assert_quantized(y, gemm_exact(inputs, False, False, 1.0), np.uint8)


def test_on_another_array_module() -> None:
    """Nothing of NumPy's own is used."""
    a, b = random_eight((3, 6), np.uint8), random_eight((6, 4), np.int8, 1)
    for weights in ([], [1]):
        on_device("DynamicQuantizeMatMul", [sample((3, 6), np.float32), b, number(0.1)], constants=weights)
    on_device("MatMulIntegerToFloat", [a, b, number(0.1), number(0.2), number(3, np.uint8)])
    on_device("QGemm", gemm_inputs(a, b, 4, by_column=True, out=np.uint8))
    x, w, eight = random_eight((1, 6, 6, 2), np.uint8), random_eight((3, 2, 2, 2), np.uint8), number(3, np.uint8)
    inputs = [x, number(0.1), eight, w, number(0.1), eight, number(1.0), eight]
    for weights in ([], [3, 5]):
        on_device("QLinearConv", inputs, constants=weights, channels_last=1)


def refused(op_type: str, inputs: list[Any], text: str, **attributes: Any) -> None:
    """Assert that the kernel says what is wrong."""
    with pytest.raises(InvalidArgument, match=re.escape(text)):
        run(op_type, inputs, domain=DOMAIN, opset=1, **attributes)


def test_parameters_that_do_not_fit_are_refused() -> None:
    a, x, b = np.zeros((3, 6), np.uint8), np.zeros((3, 6), np.float32), np.zeros((6, 4), np.uint8)
    one, three = number(1.0), np.ones(3, np.float32)
    refused("DynamicQuantizeMatMul", [x, b, three], "B's scale has shape [3]; B has shape [6, 4]")
    refused("DynamicQuantizeMatMul", [x, b, one, np.zeros(3, np.uint8)], "B's zero point has shape [3]")
    refused("DynamicQuantizeMatMul", [x, b, one, None, three], "The bias needs one entry for each column of B")
    refused("MatMulIntegerToFloat", [a, b, three, one], "A's scale has shape [3]; A has shape [3, 6]")
    refused("MatMulIntegerToFloat", [a, b[:5], one, one], "Cannot multiply shapes [3, 6] and [5, 4]")


def test_matrices_that_do_not_fit_are_refused() -> None:
    """Ranks, C, and a zero point without its scale."""
    a, b, zero = np.zeros((3, 6), np.uint8), np.zeros((6, 4), np.uint8), number(0, np.uint8)
    inputs = [a, number(1.0), zero, b, number(1.0), zero]
    refused("QGemm", [a[0], *inputs[1:]], "QGemm multiplies matrices")
    refused("QGemm", [*inputs, np.zeros(3, np.int32)], "C does not broadcast to the result's [3, 4]")
    refused("QGemm", [*inputs, None, None, zero], "y_zero_point is given, but y_scale is not")


def test_channels_last_needs_three_axes() -> None:
    x, w, zero = np.zeros((3, 4), np.uint8), np.zeros((2, 4, 1), np.uint8), number(0, np.uint8)
    one = number(1.0)
    refused(
        "QLinearConv", [x, one, zero, w, one, zero, one, zero], "it needs batch, spatial and channel", channels_last=1
    )


class Capped(LocalKernelContext):
    """Refuses every array."""

    def check_allocation(self, shape: Any, dtype: Any) -> None:
        raise LimitError(f"{tuple(shape)} is too large")


@pytest.mark.parametrize("name", ["dynamic_quantize_matmul", "matmul_integer_to_float", "qgemm"])
def test_products_ask_before_they_allocate(name: str) -> None:
    a, b, zero, one = np.ones((3, 1), np.uint8), np.ones((1, 4), np.uint8), number(0, np.uint8), number(1.0)
    inputs: dict[str, list[Any]] = {
        "dynamic_quantize_matmul": [a.astype(np.float32), b, one],
        "matmul_integer_to_float": [a, b, one, one],
        "qgemm": [a, one, zero, b, one, zero],
    }
    node = make_node_spec("Op", inputs[name], domain=DOMAIN)
    with pytest.raises(LimitError, match=re.escape("(3, 4) is too large")):
        getattr(products, name)(Capped(node))(*inputs[name])


def test_runtime_outputs_of_a_vector_have_no_axes() -> None:
    a, b = sample((6,), np.float32), addable(random_eight((6,), np.int8))
    (y,) = run("DynamicQuantizeMatMul", [a, b, number(0.1)], domain=DOMAIN, opset=1)
    (wanted,) = runtime_outputs("DynamicQuantizeMatMul", [a, b, number(0.1)], opset=1, domain=DOMAIN)
    assert y.shape == np.shape(wanted) == ()
    np.testing.assert_allclose(y, wanted, rtol=1e-5)
