"""Descriptions of calls: interpreted on NumPy they give what numpy.matmul gives, for all of ONNX's forms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ort_py_cuda.cublaslt.elements import Epilogue, arithmetic_of
from ort_py_cuda.cublaslt.layout import calls_of, matrix_view, product_shape, tn_refusal

from .column_major import interpret


def _steps(x: Any) -> tuple[int, ...]:
    return tuple(step // x.itemsize for step in x.strides)


def _memory(x: Any) -> Any:
    """The flat memory that an array views, from its first element on."""
    base = x
    while base.base is not None:
        base = base.base
    flat = base.reshape(-1)
    return flat[(x.__array_interface__["data"][0] - flat.__array_interface__["data"][0]) // x.itemsize :]


def _product(a: Any, b: Any, **options: Any) -> tuple[Any, int]:
    """The result of the calls, and how many there were."""
    calls = calls_of(a.shape, _steps(a), b.shape, _steps(b), **options)
    assert calls is not None
    shape = product_shape(a.shape, b.shape)
    assert shape is not None
    y = np.full(shape, np.nan)
    for call in calls:
        interpret(call.problem, _memory(b), _memory(a), y.reshape(-1), starts=(call.b, call.a, call.y))
    return y, len(calls)


def _numbers(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape)


_SIZES = st.integers(1, 4)


@st.composite
def _operands(draw: st.DrawFn) -> tuple[Any, Any]:
    """Two arrays that matmul takes: vectors, matrices, batches that broadcast, transposed and cut ones."""
    k = draw(_SIZES)
    lead = draw(st.lists(_SIZES, max_size=3))

    def operand(left: bool) -> Any:
        if draw(st.integers(0, 7)) == 0:
            return _numbers(2 * k)[:: draw(st.sampled_from([1, 2]))][:k] if draw(st.booleans()) else _numbers(k)
        own = [1 if draw(st.booleans()) else size for size in lead[draw(st.integers(0, len(lead))) :]]
        last = (draw(_SIZES), k) if left else (k, draw(_SIZES))
        if draw(st.booleans()):
            whole = _numbers(*own, last[1], last[0] + draw(st.integers(0, 2)))
            return np.swapaxes(whole[..., : last[0]], -1, -2)
        return _numbers(*own, last[0], last[1] + draw(st.integers(0, 2)))[..., : last[1]]

    return operand(True), operand(False)


@given(_operands())
@settings(max_examples=400, deadline=None)
def test_calls_give_what_matmul_gives(operands: tuple[Any, Any]) -> None:
    """All forms of broadcasting, vectors, transposed and strided operands."""
    a, b = operands
    if calls_of(a.shape, _steps(a), b.shape, _steps(b)) is None:
        a, b = np.ascontiguousarray(a), np.ascontiguousarray(b)
    np.testing.assert_allclose(_product(a, b)[0], np.matmul(a, b), atol=1e-12)


@given(_operands())
@settings(max_examples=100, deadline=None)
def test_small_batches_of_a_call(operands: tuple[Any, Any]) -> None:
    """Where a call takes two matrices at most, there are more calls and the same result."""
    a, b = (np.ascontiguousarray(x) for x in operands)
    np.testing.assert_allclose(_product(a, b, largest_batch=2)[0], np.matmul(a, b), atol=1e-12)


@pytest.mark.parametrize(
    ("left", "right", "calls"),
    [
        ((3, 4), (4, 5), 1),
        ((2, 3, 4), (4, 5), 1),
        ((2, 6, 3, 4), (4, 5), 1),
        ((2, 6, 3, 4), (2, 6, 4, 5), 1),
        ((2, 6, 3, 4), (1, 1, 4, 5), 1),
        ((2, 6, 3, 4), (6, 4, 5), 2),
        ((2, 1, 3, 4), (1, 6, 4, 5), 2),
        ((6, 1, 4), (4, 5), 1),
    ],
)
def test_how_many_calls_there_are(left: tuple[int, ...], right: tuple[int, ...], calls: int) -> None:
    """One wherever a strided batch can say it; the shorter axis is the one that is looped over."""
    assert _product(_numbers(*left), _numbers(*right))[1] == calls


def test_a_batch_of_rows_is_one_taller_matrix() -> None:
    """The same weights for all entries: one product of many rows and no batch."""
    calls = calls_of((8, 16, 32), (512, 32, 1), (32, 64), (64, 1))
    assert calls is not None
    (call,) = calls
    assert (call.problem.batch, call.problem.result.columns, call.problem.result.rows) == (1, 128, 64)


def test_operands_are_swapped_and_nothing_is_transposed() -> None:
    """Row-major Y = A B is the column-major Y' = B' A' of the same memory."""
    calls = calls_of((3, 4), (4, 1), (4, 5), (5, 1))
    assert calls is not None
    problem = calls[0].problem
    assert (problem.first.rows, problem.first.columns, problem.first.ld) == (5, 4, 5)
    assert (problem.second.rows, problem.second.columns, problem.second.ld) == (4, 3, 4)
    assert (problem.result.rows, problem.result.columns) == (5, 3)
    assert not problem.transpose_first
    assert not problem.transpose_second
    assert problem.depth == 4


@pytest.mark.parametrize("epilogue", list(Epilogue))
def test_epilogues_add_a_bias_to_each_column_of_ours(epilogue: Epilogue) -> None:
    """The library adds one entry per row of its result, which is one per column of ours."""
    a, b, bias = _numbers(3, 4), _numbers(4, 5), _numbers(5)
    calls = calls_of(a.shape, _steps(a), b.shape, _steps(b), epilogue=epilogue, accumulates=True)
    assert calls is not None
    y, c = np.zeros((3, 5)), _numbers(3, 5)
    interpret(
        calls[0].problem, b.reshape(-1), a.reshape(-1), y.reshape(-1), added=c.reshape(-1), bias=bias, alpha=2, beta=0.5
    )
    wanted = 2 * (a @ b) + 0.5 * c + (bias if epilogue.has_bias else 0)
    if epilogue & Epilogue.RELU:
        wanted = np.maximum(wanted, 0)
    elif epilogue & Epilogue.GELU:
        wanted = 0.5 * wanted * (1 + np.tanh(np.sqrt(2 / np.pi) * (wanted + 0.044715 * wanted**3)))
    np.testing.assert_allclose(y, wanted)


@pytest.mark.parametrize(
    ("shape", "steps", "view"),
    [
        ((3, 4), (4, 1), (False, 4)),
        ((3, 4), (6, 1), (False, 6)),
        ((3, 4), (1, 3), (True, 3)),
        ((3, 4), (1, 5), (True, 5)),
        ((1, 4), (99, 1), (False, 4)),
        ((1, 4), (99, 2), (True, 2)),
        ((3, 1), (2, 99), (False, 2)),
        ((3, 4), (8, 2), None),
        ((3, 4), (0, 1), None),
        ((3, 4), (-4, 1), None),
        ((1, 1), (0, 0), (False, 1)),
    ],
)
def test_what_can_be_read_where_it_is(
    shape: tuple[int, int], steps: tuple[int, int], view: tuple[bool, int] | None
) -> None:
    """A matrix with one contiguous axis whose rows do not overlap; all others are copied."""
    assert matrix_view(*shape, *steps) == view


@pytest.mark.parametrize(
    ("left", "right"), [((3, 4), (5, 6)), ((2, 3, 4), (3, 4, 5)), ((), (4,)), ((4,), ()), ((2, 3, 4), (5,))]
)
def test_shapes_that_do_not_fit(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    """No shape, and so no calls."""
    assert product_shape(left, right) is None


@given(_operands())
@settings(max_examples=100, deadline=None)
def test_product_shape_is_that_of_matmul(operands: tuple[Any, Any]) -> None:
    """Vectors lose their axis, leading axes broadcast."""
    a, b = operands
    assert product_shape(a.shape, b.shape) == np.matmul(a, b).shape


def test_one_byte_types_need_columns_and_whole_units() -> None:
    """int8 products want both operands contiguous along k, and sizes of four."""
    int8 = arithmetic_of("int8")
    float32 = arithmetic_of("float32")
    assert int8 is not None
    assert float32 is not None

    def refusal(a: Any, b: Any) -> str | None:
        calls = calls_of(a.shape, _steps(a), b.shape, _steps(b))
        assert calls is not None
        return tn_refusal(calls[0].problem, int8)

    a, b = np.zeros((8, 16), np.int8), np.zeros((12, 16), np.int8)
    assert refusal(a, b.T) is None
    assert "contiguous along the axis" in (refusal(a, np.zeros((16, 12), np.int8)) or "")
    assert "multiples of 4" in (refusal(np.zeros((8, 15), np.int8), np.zeros((12, 15), np.int8).T) or "")
    calls = calls_of((8, 16), (16, 1), (16, 12), (12, 1))
    assert calls is not None
    assert tn_refusal(calls[0].problem, float32) is None


@pytest.mark.parametrize(
    ("operand", "result", "found"),
    [
        ("float32", None, ("R_32F", "F32")),
        ("float64", None, ("R_64F", "F64")),
        ("float16", None, ("R_16F", "F32")),
        ("float16", "float32", ("R_32F", "F32")),
        ("bfloat16", None, ("R_16BF", "F32")),
        ("int8", None, ("R_32I", "I32")),
        ("float8_e4m3fn", None, ("R_16BF", "F32")),
        ("float8_e4m3fn", "float16", ("R_16F", "F32")),
        ("float8_e4m3fn", "float64", None),
        ("float8_e5m2", None, None),
        ("int64", None, None),
        ("float16", "float64", None),
    ],
)
def test_types_of_products(operand: str, result: str | None, found: tuple[str, str] | None) -> None:
    """Narrow floats are added up in float32; what the library lacks is None."""
    arithmetic = arithmetic_of(operand, result)
    assert (None if arithmetic is None else (arithmetic.result.name, arithmetic.compute.name)) == found


def test_tf32_is_an_option() -> None:
    """float32 stays float32 unless it is asked for."""
    plain, fast = arithmetic_of("float32"), arithmetic_of("float32", tf32=True)
    assert plain is not None
    assert fast is not None
    assert (plain.compute.name, fast.compute.name) == ("F32", "F32_FAST_TF32")


def test_two_forms_of_float8() -> None:
    """Each operand has its own type; others have one for both."""
    mixed = arithmetic_of("float8_e5m2", "float32", right="float8_e4m3fn")
    assert mixed is not None
    assert (mixed.operand.name, mixed.right.name) == ("R_8F_E5M2", "R_8F_E4M3")
    assert mixed.dots_columns
    same = arithmetic_of("float16", right="float16")
    assert same is not None
    assert same.right is same.operand
    assert arithmetic_of("float16", right="float32") is None
    assert arithmetic_of("float8_e4m3fn", right="float16") is None
