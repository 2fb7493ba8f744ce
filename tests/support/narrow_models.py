"""Float32 models converted to a narrower floating type: constants, inputs, outputs, and what nodes say of types."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

__all__ = ["narrowed"]

_LARGEST = 65504.0

_TYPES = frozenset({"dtype", "to"})
"""Attributes that name an element type."""


def narrowed(model: onnx.ModelProto, data_type: int = TensorProto.FLOAT16) -> onnx.ModelProto:
    """A copy of a model in which every float32 is of another type; numbers beyond float16's become the greatest."""
    copy = onnx.ModelProto.FromString(model.SerializeToString())
    pending = [copy.graph]
    while pending:
        graph = pending.pop()
        for tensor in graph.initializer:
            _narrow(tensor, data_type)
        for value in (*graph.input, *graph.output, *graph.value_info):
            if value.type.tensor_type.elem_type == TensorProto.FLOAT:
                value.type.tensor_type.elem_type = data_type
        for attribute in [one for node in graph.node for one in node.attribute]:
            if attribute.name in _TYPES and attribute.i == TensorProto.FLOAT:
                attribute.i = data_type
            _narrow(attribute.t, data_type)
            pending += [attribute.g] if attribute.HasField("g") else []
    return copy


def _narrow(tensor: onnx.TensorProto, data_type: int) -> None:
    if tensor.data_type != TensorProto.FLOAT:
        return
    dtype: Any = helper.tensor_dtype_to_np_dtype(data_type)
    array = np.clip(numpy_helper.to_array(tensor), -_LARGEST, _LARGEST).astype(dtype)
    tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
