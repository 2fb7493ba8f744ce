"""Operators whose results have the shape of an input, or that of all inputs broadcast to each other."""

from __future__ import annotations

from ort_py.dtypes import DataType, TensorType
from ort_py.graph.typing.rules.question import Answer, Question, Rule, Uncovered, axis_of, broadcast


def like_first(question: Question) -> Answer:
    return [question.tensor(0)]


def _over_axis(question: Question) -> Answer:
    """Softmax and its like: the axis must exist."""
    found = question.tensor(0)
    if found.shape is not None:
        axis_of(question.integer("axis", -1 if question.version >= 13 else 1), len(found.shape))
    return [found]


def _test(question: Question) -> Answer:
    return [TensorType(DataType.BOOL, question.shape(0))]


def _dropout(question: Question) -> Answer:
    found = question.tensor(0)
    for place in (1, 2):
        if question.is_given(place) and question.shape(place) != ():
            raise Uncovered
    return [found, TensorType(DataType.BOOL, found.shape)]


def _cast(question: Question) -> Answer:
    data_type = question.integer("to", 0)
    if data_type not in _CAST or (data_type == DataType.BFLOAT16 and question.version < 13):
        raise Uncovered
    return [TensorType(DataType(data_type), question.shape(0))]


_CAST = frozenset(
    {*range(DataType.FLOAT, DataType.STRING), *range(DataType.BOOL, DataType.COMPLEX64), DataType.BFLOAT16}
)
"""Types that each version of Cast makes, bfloat16 excepted."""


def _cast_like(question: Question) -> Answer:
    return [TensorType(question.tensor(1).data_type, question.shape(0))]


def _broadcast(question: Question, data_type: DataType) -> Answer:
    shapes = [question.shape(place) for place in range(len(question.types))]
    known = [shape for shape in shapes if shape is not None]
    return [TensorType(data_type, broadcast(known) if len(known) == len(shapes) else None)]


def _binary(question: Question) -> Answer:
    first, second = question.tensor(0), question.types[1]
    if first == second and first.shape is not None and None not in first.shape:
        return [first]
    return _broadcast(question, first.data_type)


def _comparison(question: Question) -> Answer:
    return _broadcast(question, DataType.BOOL)


def _where(question: Question) -> Answer:
    return _broadcast(question, question.tensor(1).data_type)


def _several(question: Question) -> Answer:
    return _broadcast(question, question.tensor(0).data_type)


_LIKE_FIRST = (
    "Acos Acosh Asin Asinh Atan Atanh BitwiseNot Cos Cosh Erf Identity Not Round Sign Sin Sinh Softplus Softsign Tan"
    " ThresholdedRelu"
)
_LIKE_FIRST_SINCE_6 = "Abs Ceil Clip Elu Exp Floor HardSigmoid LeakyRelu Log Neg Reciprocal Relu Selu Sigmoid Sqrt Tanh"

RULES: dict[str, tuple[int, Rule]] = {
    **dict.fromkeys(_LIKE_FIRST.split(), (1, like_first)),
    **dict.fromkeys(_LIKE_FIRST_SINCE_6.split(), (6, like_first)),
    "HardSwish": (14, like_first),
    "Dropout": (12, _dropout),
    **dict.fromkeys(("Hardmax", "LogSoftmax", "Softmax"), (1, _over_axis)),
    **dict.fromkeys(("IsInf", "IsNaN"), (9, _test)),
    "Cast": (6, _cast),
    "CastLike": (15, _cast_like),
    **dict.fromkeys(("Add", "Sub", "Mul", "Div", "And", "Or", "Xor"), (7, _binary)),
    "Pow": (7, _several),
    "Mod": (10, _binary),
    **dict.fromkeys(("Equal", "Greater", "Less"), (7, _comparison)),
    **dict.fromkeys(("GreaterOrEqual", "LessOrEqual"), (12, _comparison)),
    "Where": (9, _where),
    **dict.fromkeys(("Max", "Mean", "Min", "Sum"), (8, _several)),
}
"""The rule of each operator, and the version of its schema from which on it holds."""
