"""Weights in blocks of few bits: what NumPy writes is what onnxruntime's native functions write, to the last bit."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import ort_py as ort
from ort_py_onnxruntime.native import native
from ort_py_onnxruntime.weight_blocks import FUNCTIONS

ROWS = (1, 3, 16, 17, 31, 33, 64, 65, 100, 129, 257)
"""Blocks that are full, that begin, and that end within a byte."""
COLUMNS = (1, 2, 7, 131)
SIZES = (16, 32, 64, 128, 256)
DTYPES = (np.float32, np.float16)


def _weights(rows: int, columns: int, dtype: Any) -> list[np.ndarray[Any, Any]]:
    """Matrices with ties, with blocks of zeros of both signs, and with numbers of one sign."""
    normal = np.random.default_rng(rows * 1000 + columns).standard_normal((rows, columns)).astype(np.float32)
    zeros = normal.copy()
    zeros[:, ::2] = 0
    zeros[:, 1::3] = -0.0
    matrices = (normal, np.round(normal * 4) / 4, zeros, np.abs(normal) / 1000, -np.abs(normal) * 1000)
    return [matrix.astype(dtype) for matrix in matrices]


def _compare(name: str, wanted: list[tuple[Any, Any]], arguments: Any) -> None:
    """Call both functions and compare all that they write and return.

    Args:
        wanted: Size and type of each array that is written.
        arguments: Makes the arguments of a call with these arrays.
    """
    written = []
    for function in (getattr(native(), name), FUNCTIONS[name]):
        arrays = [np.zeros(shape, dtype) for shape, dtype in wanted]
        answer = function(*arguments(*arrays))
        written.append((answer, [array.tobytes() for array in arrays]))
    assert written[0] == written[1], f"{name} of {wanted}"


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("bits", [2, 4, 8])
def test_blocks_of_columns(bits: int, symmetric: bool, dtype: Any) -> None:
    each = 8 // bits
    for rows, columns, size in itertools.product(ROWS, COLUMNS, SIZES):
        blocks = -(-rows // size)
        wanted = [
            ((columns, blocks, size // each), np.uint8),
            ((columns, blocks), dtype),
            ((columns, -(-blocks // each)), np.uint8),
        ]
        for weight in _weights(rows, columns, dtype):
            whole = np.pad(weight, ((0, blocks * size - rows), (0, 0)))  # as onnxruntime's tool passes it
            _compare(
                f"quantize_matmul_{bits}bits",
                wanted,
                lambda packed, scales, zeros, whole=whole, rows=rows, columns=columns, size=size: (
                    (packed, whole, scales, zeros, size, columns, rows, symmetric)
                ),
            )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("symmetric", [True, False])
def test_blocks_in_the_order_of_the_matrix(symmetric: bool, dtype: Any) -> None:
    for rows, columns, given in itertools.product(ROWS, COLUMNS, (16, 32, 128, None)):
        size = given or rows  # whole columns
        blocks = -(-rows // size)
        wanted = [
            (-(-rows * columns // 2), np.uint8),
            ((blocks, columns), dtype),
            (-(-blocks * columns // 2), np.uint8),
        ]
        for weight in _weights(rows, columns, dtype):
            _compare(
                "quantize_qdq_matmul_4bits",
                wanted,
                lambda packed, scales, zeros, weight=weight, rows=rows, columns=columns, size=size: (
                    (packed, weight, scales, zeros, size, columns, rows, symmetric)
                ),
            )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", [0, 1])
def test_blocks_of_bitsandbytes(kind: int, dtype: Any) -> None:
    for rows, columns, size in itertools.product(ROWS, COLUMNS, SIZES):
        wanted = [(-(-rows * columns // 2), np.uint8), (-(-rows * columns // size), dtype)]
        for weight in _weights(rows, columns, dtype):
            _compare(
                "quantize_matmul_bnb4",
                wanted,
                lambda packed, largest, weight=weight, rows=rows, columns=columns, size=size: (
                    (packed, weight, largest, size, kind, columns, rows)
                ),
            )


def test_transposed_numbers_of_four_bits() -> None:
    name = "pack_fp4_weights_for_cuda_moe_gemm"
    for rows, columns in ((32, 16), (64, 2), (2, 2), (4, 6)):
        packed = np.random.default_rng(0).integers(0, 256, (rows, columns // 2), dtype=np.uint8)
        theirs = getattr(native(), name)(packed, rows, columns)
        np.testing.assert_array_equal(FUNCTIONS[name](packed, rows, columns).ravel(), np.ravel(theirs))


BYTES = np.zeros(16, np.uint8)
COLUMN = np.zeros((32, 1), np.float32)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("quantize_matmul_4bits", (BYTES, COLUMN.astype(np.float64), BYTES, BYTES, 32, 1, 32, True)),
        ("quantize_matmul_4bits", (BYTES.tolist(), COLUMN, COLUMN.copy(), BYTES, 32, 1, 32, True)),
        ("quantize_matmul_4bits", (BYTES, COLUMN[:3], COLUMN.copy(), BYTES, 32, 1, 32, True)),
        ("quantize_matmul_4bits", (BYTES, COLUMN, COLUMN.copy(), BYTES, 20, 1, 32, True)),
        ("quantize_matmul_bnb4", (BYTES, COLUMN, COLUMN.copy(), 16, 2, 1, 32)),
    ],
    ids=["float64", "list", "too few elements", "block of 20", "type 2"],
)
def test_what_cannot_be_quantised_is_refused(name: str, arguments: tuple[Any, ...]) -> None:
    """Elements of other types, arrays that cannot be written to, blocks and types that onnxruntime does not have."""
    with pytest.raises(ort.OrtPyError):
        FUNCTIONS[name](*arguments)
