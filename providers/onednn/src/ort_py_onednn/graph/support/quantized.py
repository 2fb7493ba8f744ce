"""Conversions between integers and the numbers they stand for, and products of integers."""

from __future__ import annotations

import math

import numpy as np

from ort_py.contracts import GraphView, NodeSpec, ValueSpec
from ort_py.dtypes import DataType
from ort_py_onednn.binding.features import NO_EXACT_INTEGERS, has_exact_integers
from ort_py_onednn.binding.few_bits import has_few_bits
from ort_py_onednn.binding.library import open_library
from ort_py_onednn.graph.block_weights import unpacked
from ort_py_onednn.graph.integers import BYTES, Numbers, numbers_of, signed
from ort_py_onednn.graph.support.rule import Rule, Rules, TypeRule, shape_of, value_name

__all__ = ["RULES"]

_LEAST = 2.0**-126
"""The smallest normal number of float32; the reciprocals of smaller ones may be too large for it."""

_MS = "com.microsoft"
_PRODUCTS = frozenset({"Conv", "ConvTranspose", "FusedConv", "FusedGemm", "FusedMatMul", "Gemm", "MatMul"})


def _kind(value: ValueSpec) -> str:
    return "unknown" if value.data_type is None else value.data_type.onnx_name


def _types_of_reading(value: ValueSpec, place: int, is_input: bool) -> str | None:
    if is_input and place == 0:
        known = value.data_type in BYTES or value.data_type is DataType.INT32
        return None if known else f"'{value.name}' is {_kind(value)}; uint8, int8 and int32 are read"
    return None if value.data_type is DataType.FLOAT else f"'{value.name}' is {_kind(value)}; only float32 is computed"


def _types_of_writing(value: ValueSpec, place: int, is_input: bool) -> str | None:
    if is_input:
        return None if value.data_type is DataType.FLOAT else f"'{value.name}' is {_kind(value)}; only float32 is read"
    return None if value.data_type in BYTES else f"'{value.name}' is {_kind(value)}; uint8 and int8 are written"


def _types_of_products(value: ValueSpec, place: int, is_input: bool) -> str | None:
    if is_input:
        return None if value.data_type in BYTES else f"'{value.name}' is {_kind(value)}; uint8 and int8 are multiplied"
    return None if value.data_type is DataType.INT32 else f"'{value.name}' is {_kind(value)}, not int32"


def _dequantize(node: NodeSpec, graph: GraphView) -> str | None:
    numbers = numbers_of(node, graph.constant)
    if numbers is None:
        return "scale or zero point is not a float32 number or vector, or blocks have their own"
    value = node.inputs[0]
    if value is None or value.constant:
        made = "" if node.outputs[0] is None else node.outputs[0].name
        readers = [graph.nodes[index] for index in graph.consumers(made)]
        lost = any(value.name == made for value in graph.outputs) or (
            readers and not any(one.op_type in _PRODUCTS for one in readers)
        )
        return "it is a constant that no product reads" if lost else None
    if value.data_type not in BYTES:
        return "its integers of 32 bits are not constant"
    return None if numbers.is_single else "it has scales along an axis of a computed tensor"


def _quantize(node: NodeSpec, graph: GraphView) -> str | None:
    numbers = numbers_of(node, graph.constant)
    if numbers is None or not numbers.is_single:
        return "its scale and zero point are not one constant for all elements"
    scale = float(numbers.scale.reshape(-1)[0])
    return None if _LEAST <= scale < math.inf else "its scale is not positive, or less than a normal number"


def _whole_product(node: NodeSpec, graph: GraphView) -> str | None:
    return _integers(node, graph, (0, 1, 2, 3))


def _integers(node: NodeSpec, graph: GraphView, places: tuple[int, int, int, int]) -> str | None:
    """Refusal of a product of integers; `places` are those of its factors and their zero points, -1 for none."""
    a, b, a_zero, b_zero = places
    weights = graph.constant(value_name(node, b))
    if weights is None:
        return "the second factor is not a constant"
    from ort_py_onednn.graph.window_weights import fit  # most graphs have no products of integers

    columns = 0 if node.op_type == "ConvInteger" else 1
    exact = has_exact_integers()
    group = node.attributes.get("group", 1)
    if not exact and not fit(weights.shape, columns, shape_of(node, a), group=group, given=True):
        return NO_EXACT_INTEGERS
    if node.op_type == "ConvInteger":
        if not 1 <= weights.ndim - 2 <= 3:
            return f"it is a convolution over {weights.ndim - 2} dimensions; 1 to 3 are supported"
    elif weights.ndim != 2 or not shape_of(node, a):
        return "the second factor does not have two dimensions, or the first is a scalar"
    zero = node.inputs[a_zero] if 0 <= a_zero < len(node.inputs) else None
    if zero is not None and (zero.shape is None or any(dim != 1 for dim in zero.shape)):
        return "it has zero points for rows"
    zeros = np.zeros(1, np.int64)
    if value_name(node, b_zero):
        given = graph.constant(value_name(node, b_zero))
        if given is None or given.ndim > 1:
            return "the zero point of the second factor is not a constant"
        zeros = given.astype(np.int64)
    found = signed(weights, Numbers(np.ones(1, np.float32), zeros, 0 if node.op_type == "ConvInteger" else 1))
    if found is None or (found[1] and (node.op_type == "ConvInteger" or not exact)):
        return "its second factor minus its zero points needs more than 8 bits"
    return None


def _types_of_dynamic(value: ValueSpec, place: int, is_input: bool) -> str | None:
    wanted = DataType.UINT8 if not is_input and place != 1 else DataType.FLOAT
    return None if value.data_type is wanted else f"'{value.name}' is {_kind(value)}, not {wanted.onnx_name}"


def _types_to_float(integers: frozenset[int]) -> TypeRule:
    def rule(value: ValueSpec, place: int, is_input: bool) -> str | None:
        whole = is_input and place in integers
        known = value.data_type in BYTES if whole else value.data_type is DataType.FLOAT
        return None if known else f"'{value.name}' is {_kind(value)}"

    return rule


def _to_float(node: NodeSpec, graph: GraphView) -> str | None:
    scale = node.inputs[2]
    if scale is None or scale.shape is None or any(dim != 1 for dim in scale.shape):
        return "scales of rows"
    return _scales(node, graph, 3) or _integers(node, graph, (0, 1, 4, 5))


def _dynamic_product(node: NodeSpec, graph: GraphView) -> str | None:
    return _scales(node, graph, 2) or _integers(node, graph, (0, 1, -1, 3))


def _block_product(node: NodeSpec, graph: GraphView) -> str | None:
    if not has_exact_integers() and not has_few_bits(open_library(), 4, int(node.attributes["block_size"])):
        return NO_EXACT_INTEGERS  # and no code of our own
    if value_name(node, 4):
        return "its rows are reordered"
    if node.attributes.get("weight_prepacked", 0):
        return "its weights are packed for another runtime"
    found = unpacked([value_name(node, place) for place in range(6)], node.attributes, graph.constant)
    return found if isinstance(found, str) else None


def _types_of_blocks(value: ValueSpec, place: int, is_input: bool) -> str | None:
    return None if value.data_type is DataType.FLOAT else f"'{value.name}' is {_kind(value)}; only float32 is computed"


def _scales(node: NodeSpec, graph: GraphView, place: int) -> str | None:
    scale = graph.constant(value_name(node, place))
    return "the scales of the second factor are not a number or vector" if scale is None or scale.ndim > 1 else None


RULES: Rules = {
    ("", "@Bias"): Rule(looked_at=frozenset({0, 1, 2})),
    ("", "ConvInteger"): Rule(_whole_product, types=_types_of_products, heavy=True),
    ("", "DequantizeLinear"): Rule(_dequantize, frozenset({1, 2}), types=_types_of_reading),
    ("", "DynamicQuantizeLinear"): Rule(types=_types_of_dynamic),
    ("", "MatMulInteger"): Rule(_whole_product, types=_types_of_products, heavy=True),
    ("", "QuantizeLinear"): Rule(_quantize, frozenset({1, 2}), types=_types_of_writing),
    (_MS, "DynamicQuantizeMatMul"): Rule(_dynamic_product, types=_types_to_float(frozenset({1, 3})), heavy=True),
    (_MS, "MatMulNBits"): Rule(_block_product, frozenset({1, 2, 3}), types=_types_of_blocks, heavy=True),
    (_MS, "MatMulIntegerToFloat"): Rule(_to_float, types=_types_to_float(frozenset({0, 1, 4, 5})), heavy=True),
}
