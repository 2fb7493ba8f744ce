"""MatMul, Gemm and Einsum."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from ort_py.errors import InvalidArgument

from .oracle import FLOATS, agree, bound, run, sample


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize(
    "shapes",
    [((3, 4), (4, 5)), ((2, 3, 4), (4, 5)), ((2, 1, 3, 4), (5, 4, 2)), ((4,), (4, 5)), ((3, 4), (4,)), ((4,), (4,))],
    ids=str,
)
def test_matmul_of_every_rank(shapes: tuple[tuple[int, ...], ...], dtype: Any) -> None:
    """Vectors, matrices and broadcast batches; narrow floats are rounded once."""
    agree("MatMul", [sample(shapes[0], dtype), sample(shapes[1], dtype, 1)], opset=13)


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint32, np.uint64])
def test_matmul_of_integers(dtype: Any) -> None:
    """The integer types of the schema."""
    agree("MatMul", [sample((3, 4), dtype), sample((4, 2), dtype, 1)], opset=9)


def test_matmul_reads_transposed_and_strided_views() -> None:
    """The declaration says that inputs need not be contiguous, so views of any strides must be right."""
    a, b = sample((4, 6, 2), np.float32), sample((5, 4), np.float32, 1)
    definition, call = bound("MatMul", [a[:, ::2, 0].T, b.T], opset=13)
    assert definition.strided
    np.testing.assert_allclose(call(a[:, ::2, 0].T, b.T), a[:, ::2, 0].T.copy() @ b.T.copy(), rtol=1e-5)
    np.testing.assert_allclose(call(a[::2, ::2, 1], b[:3, :1]), a[::2, ::2, 1].copy() @ b[:3, :1], rtol=1e-5)


def test_matmul_over_an_empty_inner_dimension_is_zero() -> None:
    (y,) = run("MatMul", [np.zeros((2, 0), np.float32), np.zeros((0, 3), np.float32)], opset=13)
    np.testing.assert_array_equal(y, np.zeros((2, 3), np.float32))


@pytest.mark.parametrize("shapes", [((3, 4), (5, 4)), ((2, 3, 4), (3, 4, 5)), ((), (3,))], ids=str)
def test_matmul_refuses_shapes_that_do_not_fit(shapes: tuple[tuple[int, ...], ...]) -> None:
    text = f"Cannot multiply shapes {list(shapes[0])} and {list(shapes[1])}"
    with pytest.raises(InvalidArgument, match=re.escape(text)):
        run("MatMul", [np.zeros(shape, np.float32) for shape in shapes], opset=13)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("trans_a", [0, 1])
@pytest.mark.parametrize("trans_b", [0, 1])
def test_gemm_transposes_and_scales(trans_a: int, trans_b: int, dtype: Any) -> None:
    """alpha, beta, both transpositions, a bias row."""
    a = sample((4, 3) if trans_a else (3, 4), dtype)
    b = sample((5, 4) if trans_b else (4, 5), dtype, 1)
    agree("Gemm", [a, b, sample((5,), dtype, 2)], opset=13, transA=trans_a, transB=trans_b, alpha=0.5, beta=0.25)


@pytest.mark.parametrize("c", [(3, 5), (3, 1), (1,), ()], ids=str)
def test_gemm_broadcasts_c(c: tuple[int, ...]) -> None:
    """C of every shape that spreads to the result; absent from opset 11 on."""
    a, b = sample((3, 4), np.float32), sample((4, 5), np.float32, 1)
    agree("Gemm", [a, b, sample(c, np.float32, 2)], opset=9)
    agree("Gemm", [a, b], opset=11)


def test_gemm_checks_shapes_that_it_has_not_met() -> None:
    """Shapes once found good are remembered; others are looked at, also when only the bias is another one."""
    inputs = [sample((2, 3), np.float32), sample((3, 4), np.float32, 1), sample((4,), np.float32, 2)]
    _, kernel = bound("Gemm", inputs)
    for _ in range(2):
        np.testing.assert_allclose(kernel(*inputs), inputs[0] @ inputs[1] + inputs[2], rtol=1e-6)
    with pytest.raises(InvalidArgument, match=r"C has shape \[3\], which does not broadcast to \[2, 4\]"):
        kernel(*inputs[:2], np.zeros(3, np.float32))
    with pytest.raises(InvalidArgument, match="Cannot multiply shapes"):
        kernel(inputs[1], *inputs[1:])


def test_gemm_of_integers_scales_like_a_cast() -> None:
    a, b = np.array([[3]], np.int32), np.array([[3]], np.int32)
    assert run("Gemm", [a, b], opset=13, alpha=0.5)[0].tolist() == [[4]]


@pytest.mark.parametrize(
    ("shapes", "text"),
    [
        (((3, 4), (5, 4)), "Cannot multiply shapes [3, 4] and [5, 4] with transA=0, transB=0"),
        (((3, 4), (4, 5), (2, 5)), "C has shape [2, 5], which does not broadcast to [3, 5]"),
    ],
)
def test_gemm_refuses_shapes_that_do_not_fit(shapes: tuple[tuple[int, ...], ...], text: str) -> None:
    with pytest.raises(InvalidArgument, match=re.escape(text)):
        run("Gemm", [np.zeros(shape, np.float32) for shape in shapes], opset=13)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij,jk->ik", ((3, 4), (4, 5))),
        ("bij, bjk -> bik", ((2, 3, 4), (2, 4, 5))),
        ("ii->i", ((3, 3),)),
        ("...ij->...ji", ((2, 3, 4),)),
        ("ij->", ((3, 4),)),
        ("i,j,k->ijk", ((2,), (3,), (4,))),
    ],
)
def test_einsum(equation: str, shapes: tuple[tuple[int, ...], ...], dtype: Any) -> None:
    """Products, batches, diagonals, ellipses, sums and three operands."""
    agree("Einsum", [sample(s, dtype, i) for i, s in enumerate(shapes)], opset=12, equation=equation)


def test_einsum_never_returns_a_view() -> None:
    """A result that only permutes its input is a copy, in C order."""
    x = sample((3, 4), np.float32)
    (y,) = run("Einsum", [x], opset=12, equation="ij->ji")
    assert y.flags.c_contiguous
    assert not np.shares_memory(x, y)


def test_einsum_refuses_an_equation_that_does_not_fit() -> None:
    """With the equation, the shapes and NumPy's reason."""
    with pytest.raises(InvalidArgument, match=re.escape("'ij,jk' does not fit operands of shapes [[2, 3], [4, 5]]")):
        run("Einsum", [np.zeros((2, 3)), np.zeros((4, 5))], opset=12, equation="ij,jk")


@pytest.mark.parametrize("shapes", [((0, 2, 0), (0, 3)), ((0, 2, 3), (3, 4)), ((2, 2, 0), (0, 0))], ids=str)
def test_matmul_of_empty_batches_by_a_matrix(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    """No rows, no inner axis, or no columns: zeros of the right shape, or nothing."""
    a, b = (np.ones(shape, np.float32) for shape in shapes)
    np.testing.assert_array_equal(run("MatMul", [a, b])[0], a @ b)
