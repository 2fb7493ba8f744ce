"""Products of matrices."""

from __future__ import annotations

from ort_py.dtypes import DataType, Dim, Shape, TensorType
from ort_py.graph.typing.rules.question import Answer, Question, Rule, Uncovered, broadcast


def _matmul(question: Question) -> Answer:
    data_type = DataType.INT32 if question.op_type == "MatMulInteger" else question.tensor(0).data_type
    left, right = question.shape(0), question.shape(1)
    return [TensorType(data_type, None if left is None or right is None else _product(left, right))]


def _product(left: Shape, right: Shape) -> Shape:
    if not left or not right:
        raise Uncovered
    rows, columns = (1, *left)[-2:], (*right, 1)[-2:] if len(right) == 1 else right[-2:]
    inner, other = rows[1], columns[0]
    if isinstance(inner, int) and isinstance(other, int) and inner != other:
        raise Uncovered
    shape = broadcast([left[:-2], right[:-2]])
    if len(left) > 1:
        shape += rows[:1]
    return shape + columns[1:] if len(right) > 1 else shape


_FIRST_WITH_PARTS = 13
"""Version of Gemm from which on ONNX's inference says what follows from one shape alone."""


def _gemm(question: Question) -> Answer:
    data_type = question.tensor(0).data_type
    left, right = question.shape(0), question.shape(1)
    if (left is None or right is None) and question.version < _FIRST_WITH_PARTS:
        raise Uncovered
    left, right = (None, None) if left is None else left, (None, None) if right is None else right
    if len(left) != 2 or len(right) != 2:
        raise Uncovered
    turned, other_turned = question.flag("transA", default=False), question.flag("transB", default=False)
    inner, other = left[0 if turned else 1], right[1 if other_turned else 0]
    if isinstance(inner, int) and isinstance(other, int) and inner != other:
        raise Uncovered
    shape: tuple[Dim, Dim] = (left[1 if turned else 0], right[0 if other_turned else 1])
    if question.is_given(2):
        added = question.shape(2)
        sizes = zip((added or ())[::-1], shape[::-1], strict=False)
        if len(added or ()) > 2 or any(isinstance(one, int) and one not in (1, size) for one, size in sizes):
            raise Uncovered
    return [TensorType(data_type, shape)]


RULES: dict[str, tuple[int, Rule]] = {
    "MatMul": (1, _matmul),
    "MatMulInteger": (10, _matmul),
    "Gemm": (7, _gemm),
}
"""The rule of each operator, and the version of its schema from which on it holds."""
