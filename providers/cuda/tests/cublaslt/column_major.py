"""cuBLASLt's computation on NumPy: its column-major problems interpreted from their description alone."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ort_py_cuda.cublaslt.elements import Epilogue
from ort_py_cuda.cublaslt.layout import Matrix, Problem

__all__ = ["interpret", "stored"]


def stored(memory: Any, start: int, matrix: Matrix, place: int) -> Any:
    """The column-major matrix number `place` of a batch, as a view of flat memory. It must lie inside."""
    begin = start + place * matrix.stride
    last = begin + matrix.rows - 1 + (matrix.columns - 1) * matrix.ld
    assert 0 <= begin <= last < memory.size, f"{matrix} at {begin} reaches {last} of {memory.size} elements"
    assert matrix.ld >= max(1, matrix.rows), f"columns overlap: {matrix}"
    size = memory.itemsize
    return np.lib.stride_tricks.as_strided(memory[begin:], (matrix.rows, matrix.columns), (size, matrix.ld * size))


def interpret(
    problem: Problem,
    first: Any,
    second: Any,
    result: Any,
    *,
    starts: tuple[int, int, int] = (0, 0, 0),
    added: Any = None,
    bias: Any = None,
    alpha: float = 1.0,
    beta: float = 0.0,
) -> None:
    """Do what the library does with flat memory: ``D = epilogue(alpha · op(first) · op(second) + beta · C + bias)``.

    Args:
        problem: The problem.
        first: Memory of the library's A.
        second: Of its B.
        result: Of its D, written to.
        starts: Where matrices begin in first, second and result.
        added: Memory of its C, laid out as D.
        bias: One entry per row of D.
        alpha: Factor of the product.
        beta: Factor of C.
    """
    wide = np.int64 if first.dtype.kind == "i" else np.float64
    for place in range(problem.batch):
        a = stored(first, starts[0], problem.first, place).astype(wide)
        b = stored(second, starts[1], problem.second, place).astype(wide)
        d = stored(result, starts[2], problem.result, place)
        y = alpha * ((a.T if problem.transpose_first else a) @ (b.T if problem.transpose_second else b))
        if problem.accumulates and beta:
            y = y + beta * stored(added, starts[2], problem.result, place).astype(wide)
        if problem.epilogue.has_bias:
            y = y + bias.reshape(-1, 1)
        if problem.epilogue & Epilogue.RELU:
            y = np.maximum(y, 0)
        elif problem.epilogue & Epilogue.GELU:
            y = 0.5 * y * (1 + np.tanh(math.sqrt(2 / math.pi) * (y + 0.044715 * y**3)))
        d[...] = y
