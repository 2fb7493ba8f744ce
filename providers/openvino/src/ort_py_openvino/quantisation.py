"""Conversion of a region's quantisation to OpenVINO's operations, and the conditions for computing in integers.

OpenVINO's reader makes a FakeQuantize of a QuantizeLinear. It adds the zero point before it rounds, so numbers half way
between two integers go to the wrong one where the zero point is odd. The operations that ONNX describes are put in its
place: a division, the rounding, the zero point, the limits of the type.

Of a DequantizeLinear it makes a product and a sum, in which the product of zero point and scale is rounded on its own,
so that no result is exactly 0. The difference from the zero point is therefore computed in integers.

A FakeQuantize also starts OpenVINO's low-precision transformation, which computes convolutions in 8 bits and is several
times as fast. Of graphs in general its results are wrong: where a convolution has several readers, where two
quantisations meet in a Concat, and in AveragePool, which it rounds to integers. So a region keeps its FakeQuantize only
where every node stands in one of the places of residual networks, which were compared with the NumPy provider. It is
independent of devices.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ort_py.contracts import GraphView, NodeSpec
from ort_py.dtypes import DataType
from ort_py_openvino.elements import module_once

__all__ = ["computes_in_integers", "has_exact_integers", "write_quantisation"]

_LIMITS = {DataType.INT8: (-128, 127), DataType.UINT8: (0, 255)}

_FAR = 1024.0
"""Quotients beyond it are limits of the 8-bit types, whatever their last digits are."""

_CONVOLUTIONS = frozenset({"Conv", "FusedConv"})
_SUMS = frozenset({"Add", "Relu"}) | _CONVOLUTIONS
_MAKERS = {
    "Add": frozenset({"Conv", "DequantizeLinear"}),
    "Conv": frozenset({"DequantizeLinear"}),
    "FusedConv": frozenset({"DequantizeLinear"}),
    "GlobalAveragePool": frozenset({"DequantizeLinear"}),
    "MaxPool": frozenset({"DequantizeLinear"}),
    "QuantizeLinear": frozenset({"", "GlobalAveragePool"}) | _SUMS,
    "Relu": frozenset({"Add", "Conv"}),
}
"""Whose results an operator may read; ``""`` is an input of the region."""


def computes_in_integers(region: GraphView) -> bool:
    """Return whether OpenVINO's low-precision transformation gives right results for a region.

    Args:
        region: The region.
    """
    outputs = {value.name for value in region.outputs}
    if not has_exact_integers():
        return False
    if not any(node.op_type in _CONVOLUTIONS for node in region.nodes):
        return False
    return all(_is_safe(node, region, outputs) for node in region.nodes)


@cache
def has_exact_integers() -> bool:
    """Return whether Linux says that the processor has VNNI; without it, sums of two products are cut to 16 bits."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return not {"avx512_vnni", "avx_vnni"}.isdisjoint(text.split())


def _is_safe(node: NodeSpec, region: GraphView, outputs: set[str]) -> bool:
    result = node.outputs[0]
    own = (
        node.op_type == "FusedConv" and node.attributes.get("activation") in {"Relu", b"Relu"} and len(node.inputs) < 4
    )
    if (node.domain and not own) or (node.body is not None and not own) or result is None:
        return False
    readers = [region.nodes[index].op_type for index in region.consumers(result.name)]
    if node.op_type == "DequantizeLinear":
        given = result.name in outputs and bool(_zero(node, region).any())
        return not given and _is_plain(node, region) and "QuantizeLinear" not in readers
    makers = _MAKERS.get(node.op_type)
    if makers is None:
        return False
    data = [value for value in node.inputs[: 2 if node.op_type == "Add" else 1] if value is not None]
    if not all(_maker(value.name, region) in makers for value in data):
        return False
    match node.op_type:
        case "QuantizeLinear":
            return result.name not in outputs and _is_plain(node, region) and set(readers) == {"DequantizeLinear"}
        case "Conv" | "FusedConv":
            weights, bias = node.inputs[1], node.inputs[2] if len(node.inputs) > 2 else None
            known = bias is None or region.constant(bias.name) is not None
            if not known or weights is None or _maker(weights.name, region) != "DequantizeLinear":
                return False
    if result.name in outputs and node.op_type not in _CONVOLUTIONS:
        return False  # the product of zero point and scale is rounded on its own, and no result is exactly zero then
    return len(readers) + (result.name in outputs) == 1


def _is_plain(node: NodeSpec, region: GraphView) -> bool:
    """Return whether a quantisation has a constant scale for a whole tensor, or is that of constant weights."""
    constants = [None if value is None else region.constant(value.name) for value in node.inputs]
    if node.op_type == "DequantizeLinear" and constants[0] is not None:
        symmetric = len(constants) < 3 or (constants[2] is not None and not np.asarray(constants[2]).any())
        blocks = bool(node.attributes.get("block_size", 0))
        return constants[0].dtype == np.int8 and constants[1] is not None and symmetric and not blocks
    data = node.inputs[0] if node.op_type == "DequantizeLinear" else node.outputs[0]
    if data is None or data.data_type not in _LIMITS:
        return False
    return all(constant is not None and constant.size == 1 for constant in constants[1:])


def _maker(name: str, region: GraphView) -> str | None:
    if region.constant(name) is not None:
        return None
    index = region.producer(name)
    return "" if index is None else region.nodes[index].op_type


def write_quantisation(model: Any, region: GraphView) -> None:
    """Put the operations of ONNX's QuantizeLinear in the place of FakeQuantize, and of its DequantizeLinear.

    Where the region may be computed in integers, those stay that round a sum to a type in which its zero point does not
    change which of two integers is even.

    Args:
        model: OpenVINO's model of the region, with its weights; changed.
        region: The region.
    """
    kinds = ("QuantizeLinear", "DequantizeLinear")
    nodes = {node.outputs[0].name: node for node in region.nodes if node.op_type in kinds and node.outputs[0]}
    if not nodes:
        return
    integers = computes_in_integers(region)
    for operation in model.get_ordered_ops():
        if operation.get_type_name() == "Subtract" and not integers and _moves_by_zero_point(operation, nodes, region):
            _subtract_integers(operation)
        if operation.get_type_name() != "FakeQuantize":
            continue
        for reader in list(operation.output(0).get_target_inputs()):
            found = [nodes[name] for name in reader.get_node().output(0).get_names() if name in nodes]
            if found and not (integers and _rounds_a_sum(found[0], region)):
                _write(operation, reader, found[0], region)


def _moves_by_zero_point(operation: Any, nodes: Mapping[str, NodeSpec], region: GraphView) -> bool:
    """Return whether it is a difference of a DequantizeLinear whose data are no weights."""
    reader = operation
    for _ in range(3):  # a product, and the original shape where there are blocks
        targets = list(reader.output(0).get_target_inputs())
        if len(targets) != 1:
            return False
        reader = targets[0].get_node()
        node = next((nodes[name] for name in reader.output(0).get_names() if name in nodes), None)
        if node is not None:
            data = node.inputs[0]
            return node.op_type == "DequantizeLinear" and data is not None and region.constant(data.name) is None
    return False


def _subtract_integers(operation: Any) -> None:
    operations = module_once().opset13
    data, zero = (operations.convert(operation.input_value(place), "i32") for place in (0, 1))
    difference = operations.convert(operations.subtract(data, zero), operation.get_output_element_type(0))
    for reader in list(operation.output(0).get_target_inputs()):
        reader.replace_source_output(difference.output(0))


def _rounds_a_sum(node: NodeSpec, region: GraphView) -> bool:
    data, result = node.inputs[0], node.outputs[0]
    if data is None or result is None or _maker(data.name, region) not in _SUMS:
        return False
    outputs = {value.name for value in region.outputs}
    for index in region.consumers(result.name):
        given = region.nodes[index].outputs[0]
        if given is not None and given.name in outputs:
            return False
    return bool(_zero(node, region).item() % 2 == 0)


def _zero(node: NodeSpec, region: GraphView) -> np.ndarray[Any, Any]:
    value = node.inputs[2] if len(node.inputs) > 2 else None
    constant = None if value is None else region.constant(value.name)
    return np.zeros(1, np.float32) if constant is None else np.asarray(constant, np.float32)


def _write(operation: Any, reader: Any, node: NodeSpec, region: GraphView) -> None:
    """The operations of one node, between what its FakeQuantize reads and the conversion to its type."""
    data, scales, result = node.inputs[0], node.inputs[1], node.outputs[0]
    scale = None if scales is None else region.constant(scales.name)
    limits = None if result is None or result.data_type is None else _LIMITS.get(result.data_type)
    if limits is None or scale is None or data is None or data.data_type is not DataType.FLOAT:
        return
    shape = tuple(operation.input(1).get_shape())  # of the least number, which is laid along the node's axis
    operations = module_once().opset13

    def constant(array: np.ndarray[Any, Any]) -> Any:
        laid = np.broadcast_to(array.reshape(shape if array.size > 1 else ()), shape)
        return operations.constant(np.ascontiguousarray(laid))

    quotient = _quotient(operations, operation.input_value(0), np.asarray(scale, np.float32), constant)
    zero = constant(_zero(node, region))
    moved = operations.add(operations.round(quotient, "half_to_even"), zero)
    limited = operations.clamp(moved, float(limits[0]), float(limits[1]))
    limited.set_friendly_name(operation.get_friendly_name())
    reader.replace_source_output(limited.output(0))


def _quotient(operations: Any, data: Any, scale: np.ndarray[Any, Any], constant: Any) -> Any:
    """`data` divided by `scale`, rounded as a division is where that decides between two integers.

    OpenVINO multiplies with the reciprocal where it should divide, and numbers half way between two integers become
    others. So the distance from the nearest half of an integer is computed without an error, with the scale in two
    parts of 12 bits, and added to that half.
    """
    high = (scale.view(np.uint32) & np.uint32(0xFFFFF000)).view(np.float32)
    with np.errstate(divide="ignore"):
        reciprocal = constant(np.float32(1) / scale)
    near = operations.clamp(operations.multiply(data, reciprocal), -_FAR, _FAR)
    half = operations.multiply(
        operations.round(operations.multiply(near, operations.constant(np.float32(2))), "half_to_even"),
        operations.constant(np.float32(0.5)),
    )
    rest = operations.subtract(data, operations.multiply(half, constant(high)))
    rest = operations.subtract(rest, operations.multiply(half, constant(scale - high)))
    return operations.add(half, operations.multiply(rest, reciprocal))
