"""Reductions, normalisations, recurrent layers, and numbers in few bits."""

from __future__ import annotations

from ort_py.dtypes import DataType, Dim, Shape, TensorType
from ort_py.graph.typing.rules.elementwise import like_first
from ort_py.graph.typing.rules.question import Answer, Question, Rule, Uncovered, axes_of, axis_of

_AXES_AS_INPUT = 18
"""Version from which on reductions get their axes as an input; ReduceSum gets them from 13 on."""


def _reduction(question: Question) -> Answer:
    source = question.tensor(0)
    first = 13 if question.op_type == "ReduceSum" else _AXES_AS_INPUT
    axes: list[int] | None
    if question.version < first:
        axes = question.integers("axes") or []
    else:
        axes = question.numbers(1) if question.is_given(1) else []
    if source.shape is None:
        return [TensorType(source.data_type)]
    if axes is None:
        raise Uncovered
    if not axes and question.flag("noop_with_empty_axes", default=False):
        return [source]
    return [TensorType(source.data_type, _reduced(question, source.shape, axes))]


def _reduced(question: Question, shape: Shape, axes: list[int]) -> Shape:
    gone = set(axes_of(axes, len(shape))) if axes else set(range(len(shape)))
    if question.flag("keepdims", default=True):
        return tuple([1 if axis in gone else size for axis, size in enumerate(shape)])
    return tuple([size for axis, size in enumerate(shape) if axis not in gone])


def _position(question: Question) -> Answer:
    """ArgMax and ArgMin."""
    shape = question.shape(0)
    if shape is None:
        return [TensorType(DataType.INT64)]
    if not shape:
        raise Uncovered
    return [TensorType(DataType.INT64, _reduced(question, shape, [question.integer("axis", 0)]))]


_FIRST_WITH_CHECKS = 14
"""Version of BatchNormalization from which on ONNX's inference compares the sizes of its inputs."""


def _batch_normalization(question: Question) -> Answer:
    source = question.tensor(0)
    shape = source.shape
    if question.count > 1 or question.flag("training_mode", default=False):
        raise Uncovered
    if shape is None and question.version < _FIRST_WITH_CHECKS:
        return [source]
    if shape is None or len(shape) < 2:
        raise Uncovered
    parameters = [question.shape(place) for place in range(1, len(question.types))]
    if any(one is None or len(one) != 1 for one in parameters):
        raise Uncovered
    channels = {shape[1], *[one[0] for one in parameters if one is not None]}
    if len([size for size in channels if isinstance(size, int)]) > 1:
        raise Uncovered
    return [source]


def _layer_normalization(question: Question) -> Answer:
    source = question.tensor(0)
    if question.count > 1 or source.shape is None:
        raise Uncovered
    axis_of(question.integer("axis", -1), len(source.shape))
    return [source]


def _recurrent(question: Question) -> Answer:
    source = question.tensor(0)
    if source.shape is not None and len(source.shape) != 3:
        raise Uncovered
    directions = {"forward": 1, "reverse": 1, "bidirectional": 2}.get(question.attributes.get("direction", "forward"))
    hidden: Dim = question.attributes.get("hidden_size")
    if directions is None or not isinstance(hidden, int) or hidden < 1 or question.flag("layout", default=False):
        raise Uncovered
    length, batch, _ = source.shape or (None,) * 3
    state = TensorType(source.data_type, (directions, batch, hidden))
    return [TensorType(source.data_type, (length, directions, batch, hidden)), state, state][
        : 3 if question.op_type == "LSTM" else 2
    ]


def _quantized(question: Question) -> Answer:
    if "output_dtype" in question.attributes:
        raise Uncovered
    data_type = question.tensor(2).data_type if question.is_given(2) else DataType.UINT8
    return [TensorType(data_type, question.shape(0))]


def _dequantized(question: Question) -> Answer:
    if "output_dtype" in question.attributes:
        raise Uncovered
    data_type = question.tensor(1).data_type if question.version >= 19 else DataType.FLOAT
    return [TensorType(data_type, question.shape(0))]


def _dynamically_quantized(question: Question) -> Answer:
    return [
        TensorType(DataType.UINT8, question.shape(0)),
        TensorType(DataType.FLOAT, ()),
        TensorType(DataType.UINT8, ()),
    ]


_REDUCTIONS = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")

RULES: dict[str, tuple[int, Rule]] = {
    **{f"Reduce{name}": (1, _reduction) for name in _REDUCTIONS},
    **dict.fromkeys(("ArgMax", "ArgMin"), (1, _position)),
    "BatchNormalization": (9, _batch_normalization),
    "LayerNormalization": (17, _layer_normalization),
    "RMSNormalization": (23, _layer_normalization),
    "InstanceNormalization": (6, like_first),
    **dict.fromkeys(("GRU", "LSTM", "RNN"), (7, _recurrent)),
    "QuantizeLinear": (10, _quantized),
    "DequantizeLinear": (10, _dequantized),
    "DynamicQuantizeLinear": (11, _dynamically_quantized),
}
"""The rule of each operator, and the version of its schema from which on it holds."""
