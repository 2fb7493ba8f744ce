"""Work of a model on any device: floating-point operations of its products, and the least bytes that it must read and
write.

From the file alone. Over measured ceilings this gives the *roofline*: the time below which no runtime can come that
computes every product and reads every weight once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
from onnx import helper

__all__ = ["Work", "roofline", "work_of"]


@dataclass(frozen=True, slots=True)
class Work:
    """Work of one run.

    Attributes:
        operations: Multiplications and additions of convolutions and matrix products.
        transferred: Bytes of weights, inputs and outputs; what lies between may stay in caches.
    """

    operations: float
    transferred: float


def work_of(model: Path | onnx.ModelProto) -> Work:
    """Count a model of fixed shapes.

    Raises:
        ValueError: The shape of a product, an input or an output is not known.
    """
    loaded = model if isinstance(model, onnx.ModelProto) else onnx.load(model, load_external_data=False)
    graph = onnx.shape_inference.infer_shapes(loaded, data_prop=True).graph
    shapes: dict[str, tuple[int, ...]] = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    for value in (*graph.input, *graph.value_info, *graph.output):
        kind = value.type.tensor_type
        if kind.HasField("shape") and all(dim.HasField("dim_value") for dim in kind.shape.dim):
            shapes[value.name] = tuple(dim.dim_value for dim in kind.shape.dim)
    ends = sum(
        math.prod(_shape(value.name, shapes, "an end of the graph")) * _bytes(value.type.tensor_type.elem_type)
        for value in (*graph.input, *graph.output)
    )
    weights = sum(math.prod(tensor.dims) * _bytes(tensor.data_type) for tensor in graph.initializer)
    return Work(float(sum(_operations(node, shapes) for node in graph.node)), float(ends + weights))


def roofline(work: Work, operations_a_second: float, bytes_a_second: float) -> float:
    """Seconds: whichever takes longer."""
    return max(work.operations / operations_a_second, work.transferred / bytes_a_second)


def _operations(node: onnx.NodeProto, shapes: Mapping[str, tuple[int, ...]]) -> int:
    if node.op_type not in {"Conv", "ConvTranspose", "MatMul", "Gemm"}:
        return 0
    names = (*node.input[:2], node.output[0])
    left, right, result = (_shape(name, shapes, f"{node.op_type} {node.name!r}") for name in names)
    settings: dict[str, Any] = {one.name: helper.get_attribute_value(one) for one in node.attribute}
    if node.op_type == "Conv":
        return 2 * math.prod(result) * math.prod(right[1:])
    if node.op_type == "ConvTranspose":
        return 2 * math.prod(left) * math.prod(right[1:])
    return 2 * math.prod(result) * (left[0] if settings.get("transA") else left[-1])


def _shape(name: str, shapes: Mapping[str, tuple[int, ...]], where: str) -> tuple[int, ...]:
    if name not in shapes:
        raise ValueError(f"the shape of {name!r} at {where} is not known; make the model with fixed shapes")
    return shapes[name]


def _bytes(element_type: int) -> float:
    if element_type in {onnx.TensorProto.INT4, onnx.TensorProto.UINT4}:
        return 0.5
    return float(helper.tensor_dtype_to_np_dtype(element_type).itemsize)
