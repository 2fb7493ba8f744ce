"""Quantised operators as the operators on real numbers they stand for, between conversions.

For providers that draw the conversions back into the operations, so that QLinearConv and a convolution between
DequantizeLinear and QuantizeLinear become the same thing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ort_py.contracts.graph_view import ValueSpec
from ort_py.contracts.steps import Steps
from ort_py.dtypes import DataType, TensorType

__all__ = ["QUANTIZED_RULES"]

_MS = "com.microsoft"


def _float(steps: Steps, like: ValueSpec | None) -> ValueSpec:
    """A new real value with the shape of another."""
    shape = None if like is None else like.shape
    return ValueSpec(f"{steps.node.name}:real{len(steps.made)}", TensorType(DataType.FLOAT, shape))


def _read(steps: Steps, value: int, scale: int, zero: int, axis: int = 1) -> ValueSpec:
    source = steps.input(value)
    inputs = (source, steps.input(scale), steps.input(zero))
    return steps.add("DequantizeLinear", inputs, _float(steps, source), {"axis": axis})


def _write(steps: Steps, value: ValueSpec, scale: int, zero: int) -> bool:
    output = steps.output(0)
    kind = None if output is None else output.data_type
    attributes = {} if kind is None else {"output_dtype": int(kind)}
    steps.add("QuantizeLinear", (value, steps.input(scale), steps.input(zero)), output, attributes)
    return True


def _bias(steps: Steps, value: int, scales: tuple[int, int]) -> ValueSpec | None:
    bias = steps.input(value)
    if bias is None:
        return None
    return steps.add("@Bias", (bias, *(steps.input(one) for one in scales)), _float(steps, bias))


def _convolution(steps: Steps) -> bool:
    x, w = _read(steps, 0, 1, 2), _read(steps, 3, 4, 5, axis=0)
    made = steps.add("Conv", (x, w, _bias(steps, 8, (1, 4))), _float(steps, steps.output(0)), steps.node.attributes, 11)
    return _write(steps, made, 6, 7)


def _matmul(steps: Steps) -> bool:
    b = steps.input(3)
    axis = -1 if b is None or b.shape is None or len(b.shape) > 1 else 0
    a = _read(steps, 0, 1, 2, -2)  # a scale for each row
    made = steps.add("MatMul", (a, _read(steps, 3, 4, 5, axis)), _float(steps, steps.output(0)))
    return _write(steps, made, 6, 7)


def _gemm(steps: Steps) -> bool:
    attributes = dict(steps.node.attributes)
    if attributes.get("alpha", 1.0) != 1.0:
        return False
    a = _read(steps, 0, 1, 2)
    b = _read(steps, 3, 4, 5, 0 if attributes.get("transB", 0) else 1)
    inputs = (a, b, _bias(steps, 6, (1, 4)))
    if steps.input(7) is None:
        steps.add("Gemm", inputs, steps.output(0), attributes)
        return True
    return _write(steps, steps.add("Gemm", inputs, _float(steps, steps.output(0)), attributes), 7, 8)


def _binary(op_type: str) -> Callable[[Steps], bool]:
    def rule(steps: Steps) -> bool:
        made = steps.add(op_type, (_read(steps, 0, 1, 2), _read(steps, 3, 4, 5)), _float(steps, steps.output(0)))
        return _write(steps, made, 6, 7)

    return rule


def _unary(op_type: str, since: int) -> Callable[[Steps], bool]:
    def rule(steps: Steps) -> bool:
        attributes = dict(steps.node.attributes)
        if attributes.pop("channels_last", 0):
            return False
        version = min(since, attributes.pop("opset", since))
        made = steps.add(op_type, (_read(steps, 0, 1, 2),), _float(steps, steps.output(0)), attributes, version)
        return _write(steps, made, 3, 4)

    return rule


def _concat(steps: Steps) -> bool:
    parts = [_read(steps, place, place + 1, place + 2) for place in range(2, len(steps.node.inputs), 3)]
    made = steps.add("Concat", parts, _float(steps, steps.output(0)), steps.node.attributes)
    return _write(steps, made, 0, 1)


QUANTIZED_RULES: Mapping[tuple[str, str], Callable[[Steps], bool]] = {
    ("", "QLinearConv"): _convolution,
    ("", "QLinearMatMul"): _matmul,
    (_MS, "QGemm"): _gemm,
    (_MS, "QLinearAdd"): _binary("Add"),
    (_MS, "QLinearAveragePool"): _unary("AveragePool", 11),
    (_MS, "QLinearConcat"): _concat,
    (_MS, "QLinearGlobalAveragePool"): _unary("GlobalAveragePool", 1),
    (_MS, "QLinearLeakyRelu"): _unary("LeakyRelu", 16),
    (_MS, "QLinearMul"): _binary("Mul"),
    (_MS, "QLinearReduceMean"): _unary("ReduceMean", 13),
    (_MS, "QLinearSigmoid"): _unary("Sigmoid", 13),
    (_MS, "QLinearSoftmax"): _unary("Softmax", 13),
}
"""By domain and operator: false where an attribute has no counterpart. `@Bias` is no operator: integers that are added
to sums of products, and the two scales whose product one of them stands for."""
