"""Rules of matrix products, first and second derivatives, against central differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.end_to_end.gradient.cases import cases
from tests.end_to_end.gradient.finite_differences import check_gradients, random_inputs

MATMUL = [
    *[((2, 3), (3, 2)), ((3,), (3,)), ((3,), (3, 2)), ((2, 3), (3,)), ((2, 2, 3), (3, 2))],
    *[((2, 1, 1, 3), (2, 3, 2)), ((3,), (2, 3, 2)), ((2, 2, 3), (3,))],
]


@pytest.mark.parametrize(
    ("body", "inputs", "opset", "dims"),
    cases([("y = MatMul(a, b)", random_inputs(1, a=left, b=right)) for left, right in MATMUL], 12, 13, 21, 21),
)
def test_matmul(body: str, inputs: dict[str, Any], opset: int, dims: str) -> None:
    """Vectors, matrices and batches that broadcast."""
    check_gradients(body, inputs, opset=opset, dims=dims)


@pytest.mark.parametrize("flip_left", [0, 1])
@pytest.mark.parametrize("flip_right", [0, 1])
def test_gemm(flip_left: int, flip_right: int) -> None:
    """Transposed operands, factors, and a bias that broadcasts."""
    left, right = ((3, 2), (2, 3))[::-1][flip_left], ((3, 4), (4, 3))[flip_right]
    body = f"y = Gemm<alpha = 0.5, beta = 2.0, transA = {flip_left}, transB = {flip_right}>(a, b, c)"
    for opset, dims in ((12, "symbolic"), (21, "static")):
        check_gradients(body, random_inputs(1, a=left, b=right, c=(4,)), opset=opset, dims=dims)


def test_gemm_without_bias() -> None:
    check_gradients("y = Gemm(a, b)", random_inputs(1, a=(2, 3), b=(3, 2)))


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("bij,bjk->bik", {"a": (2, 3, 2), "b": (2, 2, 2)}),
        ("ij,kj->k", {"a": (2, 3), "b": (2, 3)}),
        ("ij,jk", {"a": (2, 3), "b": (3, 2)}),
        ("i,j,ij->", {"a": (2,), "b": (3,), "c": (2, 3)}),
    ],
)
def test_einsum(equation: str, shapes: dict[str, tuple[int, ...]]) -> None:
    """Batches, letters summed in one operand alone, no arrow, three operands."""
    check_gradients(f'y = Einsum<equation = "{equation}">({", ".join(shapes)})', _operands(shapes))


def _operands(shapes: dict[str, tuple[int, ...]]) -> dict[str, Any]:
    generator = np.random.default_rng(1)
    return {name: generator.uniform(-1.0, 1.0, shape) for name, shape in shapes.items()}
