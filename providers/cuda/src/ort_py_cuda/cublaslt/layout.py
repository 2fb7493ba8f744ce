"""Row-major products with ONNX's broadcasting as column-major calls of a library: pure data, no array and no library.

The algebra. The library stores matrices by columns: entry (i, j) of a matrix with leading dimension ld is at ``i + j
· ld``. Ours are stored by rows: entry (i, j) is at ``i · ld + j``. So memory that holds our matrix X is, to the
library, X'. From ``Y = A · B`` follows ``Y' = B' · A'``: asked for the product of the memory of B and the memory of
A, in this order, it writes the memory of Y, and nothing is moved. Where the memory of an operand holds its transpose
(the rows are what is contiguous), the library is asked to transpose it. A bias that the library adds to each column
of Y', one entry per row, is one entry per column of Y: ONNX's bias.

Batches. Leading axes broadcast; a broadcast axis has stride 0. Axes that are one run in all three arrays are joined; an
axis over which B is the same and A continues row by row is not a batch but adds rows; the longest axis left becomes the
library's strided batch, and the others become several calls. `tests/cublaslt/test_layout.py` interprets the calls on
NumPy and compares them with `numpy.matmul`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product as combinations

from ort_py.lazy_dataclass import dataclass
from ort_py_cuda.cublaslt.elements import Arithmetic, Epilogue

__all__ = ["Call", "Matrix", "Problem", "calls_of", "matrix_view", "product_shape", "tn_refusal"]

_LARGEST_BATCH = 65535
"""Matrices in one call: the third axis of a grid has no more blocks."""


@dataclass(frozen=True, slots=True)
class Matrix:
    """A column-major matrix as the library sees it, and how far the next one of a batch is. All in elements.

    Attributes:
        rows: Rows as stored, before any transposition.
        columns: Columns as stored.
        ld: From one column to the next.
        stride: From one matrix of a batch to the next; 0 where all are the same.
    """

    rows: int
    columns: int
    ld: int
    stride: int = 0


@dataclass(frozen=True, slots=True)
class Problem:
    """The computation of one library call: ``D = epilogue(alpha · op(first) · op(second) + beta · C)``, m × n.

    Attributes:
        first: The library's A: memory of our B.
        second: The library's B: memory of our A.
        result: The library's C and D, of one layout.
        transpose_first: Whether op transposes the first.
        transpose_second: Whether op transposes the second.
        batch: Matrices.
        epilogue: What follows.
        accumulates: Whether C is read (beta is not 0).
    """

    first: Matrix
    second: Matrix
    result: Matrix
    transpose_first: bool = False
    transpose_second: bool = False
    batch: int = 1
    epilogue: Epilogue = Epilogue.DEFAULT
    accumulates: bool = False

    @property
    def depth(self) -> int:
        """k: what is summed over."""
        return self.first.rows if self.transpose_first else self.first.columns


@dataclass(frozen=True, slots=True)
class Call:
    """A problem and where its matrices begin, in elements from the first element of our A, B and Y."""

    problem: Problem
    a: int = 0
    b: int = 0
    y: int = 0


def product_shape(a: Sequence[int], b: Sequence[int]) -> tuple[int, ...] | None:
    """Shape of ``numpy.matmul`` of arrays of these shapes; None where they do not fit."""
    left, right = tuple(a), tuple(b)
    if not left or not right or left[-1] != right[-2 if len(right) > 1 else 0]:
        return None
    lead: list[int] = []
    for back in range(max(len(left), len(right), 2), 2, -1):
        sizes = {shape[-back] for shape in (left, right) if len(shape) >= back}
        if len(sizes - {1}) > 1:
            return None
        lead.append((sizes - {1} or {1}).pop())
    return (*lead, *left[-2:-1], *(right[-1:] if len(right) > 1 else ()))


def matrix_view(rows: int, columns: int, row_step: int, column_step: int) -> tuple[bool, int] | None:
    """The form in which a strided matrix can be read in place: (whether its memory holds the transpose, leading
    dimension).

    Args:
        rows: Rows of our matrix.
        columns: Its columns.
        row_step: Elements from one row to the next; of no meaning where there is one row.
        column_step: Elements from one column to the next; of no meaning where there is one column.

    Returns:
        None where neither axis is contiguous, or rows overlap: such a matrix has to be copied.
    """
    if columns == 1 and row_step == 1 and rows > 1:
        return True, rows  # as one row it is one piece, which can be read sixteen bytes at a time
    if column_step == 1 or columns == 1:
        ld = columns if rows == 1 else row_step
        if ld >= columns:
            return False, max(ld, 1)
    if row_step == 1 or rows == 1:
        ld = rows if columns == 1 else column_step
        if ld >= rows:
            return True, max(ld, 1)
    return None


def _promoted(shape: Sequence[int], steps: Sequence[int], *, left: bool) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """A vector as the matrix that matmul takes it for."""
    if len(shape) > 1:
        return tuple(shape), tuple(steps)
    return ((1, shape[0]), (0, steps[0])) if left else ((shape[0], 1), (steps[0], 0))


@dataclass(frozen=True, slots=True)
class _Axis:
    """A batch axis: its length and the steps of A, B and Y along it."""

    size: int
    a: int
    b: int
    y: int

    def continues(self, inner: _Axis) -> bool:
        """Return whether this axis and the next inner one are one run in all three arrays."""
        return (self.a, self.b, self.y) == (inner.a * inner.size, inner.b * inner.size, inner.y * inner.size)


def _batch_axes(
    a: tuple[tuple[int, ...], tuple[int, ...]], b: tuple[tuple[int, ...], tuple[int, ...]], matrix: int
) -> list[_Axis]:
    """Batch axes, outermost first, joined where they are one run. `matrix` is the size of one matrix of Y."""
    rank = max(len(a[0]), len(b[0])) - 2

    def along(operand: tuple[tuple[int, ...], tuple[int, ...]], axis: int) -> tuple[int, int]:
        shape, steps = operand
        place = axis - (rank + 2 - len(shape))
        return (1, 0) if place < 0 else (shape[place], 0 if shape[place] == 1 else steps[place])

    axes: list[_Axis] = []
    step = matrix
    for axis in reversed(range(rank)):
        (a_size, a_step), (b_size, b_step) = along(a, axis), along(b, axis)
        size = b_size if a_size == 1 else a_size
        if size != 1:
            axes.insert(0, _Axis(size, a_step, b_step, step))
        step *= size
    joined: list[_Axis] = []
    for one in axes:
        outer = joined.pop().size if joined and joined[-1].continues(one) else 1
        joined.append(_Axis(outer * one.size, one.a, one.b, one.y))
    return joined


def calls_of(
    a_shape: Sequence[int],
    a_steps: Sequence[int],
    b_shape: Sequence[int],
    b_steps: Sequence[int],
    *,
    epilogue: Epilogue = Epilogue.DEFAULT,
    accumulates: bool = False,
    row_step: int | None = None,
    largest_batch: int = _LARGEST_BATCH,
) -> tuple[Call, ...] | None:
    """The calls that compute ``Y = A @ B``.

    Args:
        a_shape: Shape of A; a vector is one row. Shapes must fit (`product_shape`) and no axis be empty.
        a_steps: Its strides, in elements.
        b_shape: Shape of B; a vector is one column.
        b_steps: Its strides, in elements.
        epilogue: What follows, in each call.
        accumulates: Whether something in the layout of Y is added.
        row_step: Elements from one row of Y to the next where Y is some columns of a larger matrix; otherwise Y is
            C-contiguous.
        largest_batch: Matrices of one call at most.

    Returns:
        One call where one can do it; None where an operand, or the result, has to be made contiguous first.
    """
    a, b = _promoted(a_shape, a_steps, left=True), _promoted(b_shape, b_steps, left=False)
    (m, k), n = a[0][-2:], b[0][-1]
    left, right = matrix_view(m, k, *a[1][-2:]), matrix_view(k, n, *b[1][-2:])
    if left is None or right is None:
        return None
    axes = _batch_axes(a, b, m * n)
    if row_step is not None and axes:
        return None  # columns of a matrix have no batch
    if axes and axes[-1].b == 0 and not left[0] and axes[-1].a == m * left[1] and m > 0:
        m *= axes.pop().size  # the same B: rows of one taller A
    elif axes and axes[-1].b == 0 and m == 1 and axes[-1].a >= k and a[1][-1] in (0, 1):
        rows = axes.pop()  # one row a matrix: the batch is the rows, at any distance
        m, left = rows.size, (False, rows.a)
    widest = max(range(len(axes)), key=lambda place: axes[place].size, default=None)
    batch = axes.pop(widest) if widest is not None else _Axis(1, 0, 0, 0)

    def problem(count: int) -> Problem:
        # One matrix has no next one: its stride is 0, so that equal problems are equal keys.
        strides = (batch.b, batch.a, batch.y) if count > 1 else (0, 0, 0)
        return Problem(
            Matrix(k, n, right[1], strides[0]) if right[0] else Matrix(n, k, right[1], strides[0]),
            Matrix(m, k, left[1], strides[1]) if left[0] else Matrix(k, m, left[1], strides[1]),
            Matrix(n, m, row_step or n, strides[2]),
            right[0],
            left[0],
            count,
            epilogue,
            accumulates,
        )

    calls: list[Call] = []
    for places in combinations(*(range(axis.size) for axis in axes)):
        at = [sum(p * getattr(axis, name) for p, axis in zip(places, axes, strict=True)) for name in "aby"]
        for first in range(0, batch.size, largest_batch):
            count = min(largest_batch, batch.size - first)
            starts = (at[0] + first * batch.a, at[1] + first * batch.b, at[2] + first * batch.y)
            calls.append(Call(problem(count), *starts))
    return tuple(calls)


def tn_refusal(problem: Problem, arithmetic: Arithmetic) -> str | None:
    """Explain why the library has no product of this form for one-byte types. None if it has one or the types are
    wider.

    It wants both operands contiguous along k ("TN": the first transposed, the second not), and lengths, leading
    dimensions and strides of whole units: 4 elements of int8, 16 of float8.
    """
    if not arithmetic.dots_columns:
        return None
    unit = 4 if arithmetic.operand.name == "R_8I" else 16
    if not problem.transpose_first or problem.transpose_second:
        return "operands of one byte must be contiguous along the axis that is summed over"
    sizes = (problem.depth, problem.result.rows, problem.first.ld, problem.second.ld, problem.result.ld)
    if any(size % unit for size in (*sizes, problem.first.stride, problem.second.stride)):
        return f"operands of one byte must have sizes and leading dimensions that are multiples of {unit}"
    return None
