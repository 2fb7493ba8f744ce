"""Products of arrays through the binding give the results of NumPy."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ort_py.errors import EPFail, InvalidArgument
from ort_py_cuda.cublaslt.elements import Compute, Epilogue
from ort_py_cuda.cublaslt.products import multiply
from providers.cuda.tests.emulation.host import on_host
from providers.cuda.tests.fixtures_cublaslt import on_the_host

from .fake_library import FakeLt


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> FakeLt:
    """The library that multiplies on the host."""
    return on_the_host(monkeypatch, FakeLt(workspace=4096))[1]


def _sample(*shape: int, dtype: Any = np.float32) -> Any:
    return on_host(np.random.default_rng(sum(shape)).integers(-4, 5, shape).astype(dtype))


@pytest.mark.parametrize(
    ("left", "right"),
    [((3, 4), (4, 5)), ((4,), (4, 5)), ((3, 4), (4,)), ((4,), (4,)), ((2, 1, 3, 4), (5, 4, 2)), ((6, 3, 4), (4, 2))],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
def test_products(library: FakeLt, left: tuple[int, ...], right: tuple[int, ...], dtype: Any) -> None:
    """Each form in each type, the operands as they lie in memory."""
    a, b = _sample(*left, dtype=dtype), _sample(*right, dtype=dtype)
    y = multiply(a, b)
    assert y.dtype == dtype
    np.testing.assert_array_equal(y.astype(np.float64), np.matmul(a.astype(np.float64), b.astype(np.float64)))
    assert set(library.streams) == {7}


def test_int8(library: FakeLt) -> None:
    """Bytes give 32-bit integers; the second operand is read as columns."""
    a, b = _sample(3, 16, dtype=np.int8), _sample(8, 16, dtype=np.int8)
    y = multiply(a, b.T)
    assert y.dtype == np.int32
    np.testing.assert_array_equal(y, a.astype(np.int32) @ b.T.astype(np.int32))
    (problem, compute), *_ = library.problems
    assert (problem.transpose_first, problem.transpose_second, compute) == (True, False, Compute.I32)


def test_int8_of_another_form(library: FakeLt) -> None:
    """Forms of products that the library lacks are refused before the call."""
    with pytest.raises(EPFail, match="contiguous along the axis"):
        multiply(_sample(4, 16, dtype=np.int8), _sample(16, 4, dtype=np.int8))


def test_float8_with_scales(library: FakeLt) -> None:
    """Scales stay on the device; the result is bfloat16, or what is asked for."""
    a, b = _sample(16, 16, dtype=ml_dtypes.float8_e4m3fn), _sample(16, 16, dtype=ml_dtypes.float8_e4m3fn)
    scales = on_host(np.array([0.5], np.float32)), on_host(np.array([0.25], np.float32))
    y = multiply(a, b.T, a_scale=scales[0], b_scale=scales[1], result=np.float32)
    np.testing.assert_array_equal(y, a.astype(np.float32) @ b.T.astype(np.float32) / 8)
    assert multiply(a, b.T).dtype == ml_dtypes.bfloat16


_E4M3, _E5M2 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2


@pytest.mark.parametrize(("left", "right"), [(_E4M3, _E4M3), (_E4M3, _E5M2), (_E5M2, _E4M3)])
def test_float8_as_bytes(library: FakeLt, left: Any, right: Any) -> None:
    """Operands are arrays of bytes, and each is described to the library with its own type."""
    a, b = _sample(16, 32, dtype=left), _sample(48, 32, dtype=right)
    names = np.dtype(left).name, np.dtype(right).name
    y = multiply(a.view(np.uint8), b.view(np.uint8).T, elements=names, result=np.float32)
    np.testing.assert_array_equal(y, a.astype(np.float32) @ b.T.astype(np.float32))


def test_float8_that_no_gpu_multiplies(library: FakeLt) -> None:
    """Two of the form with the wide range."""
    a = _sample(16, 16, dtype=np.uint8)
    with pytest.raises(EPFail, match="no product of float8_e5m2 and float8_e5m2"):
        multiply(a, a.T, elements=("float8_e5m2", "float8_e5m2"))
    with pytest.raises(EPFail, match="multiples of 16"):
        multiply(a[:, :8].copy(), a[:, :8].copy().T, elements=("float8_e4m3fn", "float8_e4m3fn"))


@pytest.mark.parametrize("epilogue", [Epilogue.DEFAULT, Epilogue.RELU, Epilogue.GELU])
def test_an_epilogue_that_the_library_lacks(monkeypatch: pytest.MonkeyPatch, epilogue: Epilogue) -> None:
    """The product by itself, and what follows behind it; the result is the same."""
    a, b, bias, c = _sample(3, 4), _sample(4, 5), _sample(5), _sample(3, 5)
    options: dict[str, Any] = {"bias": bias, "added": c, "alpha": 0.5, "epilogue": epilogue}
    on_the_host(monkeypatch)
    wanted = multiply(a, b, **options)
    library = on_the_host(monkeypatch, FakeLt(epilogues=False))[1]
    np.testing.assert_allclose(multiply(a, b, **options), wanted, rtol=1e-6)
    assert [problem.epilogue for problem, _ in library.problems] == [Epilogue.DEFAULT]


def test_other_failures_are_no_reason_to_try_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither an algorithm that is missing without an epilogue, nor another status with one."""
    a, b, bias = _sample(3, 4), _sample(4, 5), _sample(5)
    on_the_host(monkeypatch, FakeLt(algorithms=False))
    for given in (None, bias):
        with pytest.raises(EPFail, match="CUBLAS_STATUS_NOT_SUPPORTED"):
            multiply(a, b, bias=given)
    broken = FakeLt()
    broken.failing["cublasLtMatmulAlgoGetHeuristic"] = 14
    on_the_host(monkeypatch, broken)
    with pytest.raises(EPFail, match="CUBLAS_STATUS_INTERNAL_ERROR"):
        multiply(a, b, bias=bias)
    assert broken.calls.count("cublasLtMatmulAlgoGetHeuristic") == 1


def test_matrices_of_a_batch_have_one_alignment(library: FakeLt) -> None:
    """The alignment covers the address and the distance to the next matrix."""
    multiply(_sample(2, 3, 5), _sample(2, 5, 32))
    assert library.alignments == [(128, 4, 128, 128)]  # of B, A, C and D: 640, 60 and 384 bytes to the next


def test_parts_of_narrow_sums_are_not_rounded(library: FakeLt) -> None:
    """They are added up in float32; wide results may be added up in place."""
    for dtype in (np.float16, ml_dtypes.bfloat16, np.float32):
        multiply(_sample(3, 4, dtype=dtype), _sample(4, 5, dtype=dtype))
    multiply(_sample(3, 4, dtype=np.float16), _sample(4, 5, dtype=np.float16), result=np.float32)
    assert library.reductions == [2, 2, 7, 7]


def test_a_column_is_read_in_one_piece(library: FakeLt) -> None:
    """In memory it is a row, and it is not read as rows of one element."""
    a, b = _sample(3, 24), _sample(24, 1)
    np.testing.assert_array_equal(multiply(a, b), a @ b)
    ((problem, _),) = library.problems
    assert (problem.transpose_first, problem.first.rows, problem.first.ld) == (True, 24, 24)


def test_bias_factor_and_what_is_added(library: FakeLt) -> None:
    """relu(alpha a b + beta c + bias), c and the result one array or two."""
    a, b, c, bias = _sample(3, 4), _sample(4, 5), _sample(3, 5), _sample(5)
    wanted = np.maximum(2 * (a @ b) + 0.5 * c + bias, 0)
    options: dict[str, Any] = {"bias": bias, "alpha": 2, "beta": 0.5, "epilogue": Epilogue.RELU}
    np.testing.assert_array_equal(multiply(a, b, added=c, **options), wanted)
    np.testing.assert_array_equal(multiply(a, b, c, added=c, **options), wanted)
    np.testing.assert_array_equal(c, wanted)


def test_results_are_written_where_they_are_wanted(library: FakeLt) -> None:
    a, b, out = _sample(3, 4), _sample(4, 5), on_host(np.empty((3, 5), np.float32))
    assert multiply(a, b, out) is out
    np.testing.assert_array_equal(out, a @ b)


def test_operands_that_cannot_be_read_are_copied(library: FakeLt) -> None:
    """Every second column of one, and of both."""
    a, b = _sample(3, 8)[:, ::2], _sample(4, 10)[:, ::2]
    np.testing.assert_array_equal(multiply(a, b), np.matmul(a, b))
    np.testing.assert_array_equal(multiply(a, np.ascontiguousarray(b).view(type(a))), np.matmul(a, b))


def test_empty_products(library: FakeLt) -> None:
    """No rows: nothing to do. No depth: zeros and what is added; the library is not asked."""
    assert multiply(_sample(0, 4), _sample(4, 5)).shape == (0, 5)
    np.testing.assert_array_equal(multiply(_sample(2, 0), _sample(0, 3)), np.zeros((2, 3)))
    bias, c = _sample(3), _sample(2, 3)
    y = multiply(_sample(2, 0), _sample(0, 3), bias=bias, added=c, beta=2, epilogue=Epilogue.RELU)
    np.testing.assert_array_equal(y, np.maximum(2 * c + bias, 0))
    gelu = multiply(_sample(2, 0), _sample(0, 3), bias=bias, epilogue=Epilogue.GELU)
    assert np.all((gelu > 0) == (bias > 0))
    assert not library.problems


def test_a_plan_is_asked_for_once(library: FakeLt) -> None:
    """Equal problems share a plan; another alignment is another problem."""
    a, b = _sample(3, 4), _sample(4, 5)
    for _ in range(3):
        multiply(a, b, multiply(a, b))
    asked = library.calls.count("cublasLtMatmulAlgoGetHeuristic")
    assert asked <= 4  # the results' addresses differ in alignment
    assert library.calls.count("cublasLtMatmul") == 6


def test_scratch_is_made_for_each_product(library: FakeLt) -> None:
    """The algorithm's requirement is allocated with the module's allocator."""
    multiply(_sample(3, 4), _sample(4, 5))
    ((address, size),) = library.workspaces
    assert address
    assert size == 4096


def test_tf32(library: FakeLt) -> None:
    """Only where it is asked for."""
    multiply(_sample(3, 4), _sample(4, 5))
    multiply(_sample(3, 4), _sample(4, 5), tf32=True)
    assert [compute for _, compute in library.problems] == [Compute.F32, Compute.F32_FAST_TF32]


def test_types_without_a_product(library: FakeLt) -> None:
    with pytest.raises(EPFail, match="no product of int64 and int64"):
        multiply(_sample(3, 4, dtype=np.int64), _sample(4, 5, dtype=np.int64))
    with pytest.raises(EPFail, match="no product of float32 and float64"):
        multiply(_sample(3, 4), _sample(4, 5, dtype=np.float64))


def test_shapes_that_do_not_fit(library: FakeLt) -> None:
    with pytest.raises(InvalidArgument, match=r"Cannot multiply shapes \[3, 4\] and \[5, 6\]"):
        multiply(_sample(3, 4), _sample(5, 6))
