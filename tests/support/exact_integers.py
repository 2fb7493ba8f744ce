"""The same quantised model with weights that onnxruntime multiplies exactly on every processor.

With AVX2 only, onnxruntime adds pairs of products of uint8 and int8 in 16 bits, where they saturate. Products of uint8
and uint8 are always added in 32 bits. Weights and zero points that are both moved by 128 stand for the same numbers.
Imports neither runtime, so that programs under either name can use it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

__all__ = ["with_unsigned_weights"]

_PRODUCTS: Mapping[str, Sequence[tuple[int, int]]] = {
    "MatMulInteger": ((1, 3),),
    "DynamicQuantizeLSTM": ((1, 9), (2, 11)),
}
"""Inputs of constant weights and of their zero points, of the operators that the trained models have."""


def with_unsigned_weights(path: Path) -> bytes | None:
    """A model whose int8 weights became uint8, moved by 128 together with their zero points; None where it has none.

    Args:
        path: The model, with its weights inside.
    """
    model = onnx.load(path)
    constants = {constant.name: constant for constant in model.graph.initializer}
    moved: dict[str, str] = {}

    def move(name: str) -> str:
        if name not in moved:
            array = numpy_helper.to_array(constants[name])
            moved[name] = f"{name}:unsigned"
            unsigned = (array.astype(np.int16) + 128).astype(np.uint8)
            model.graph.initializer.append(numpy_helper.from_array(unsigned, moved[name]))
        return moved[name]

    for node in model.graph.node:
        for places in _PRODUCTS.get(node.op_type, ()):
            names = [node.input[place] if place < len(node.input) else "" for place in places]
            if all(name in constants and constants[name].data_type == onnx.TensorProto.INT8 for name in names):
                for place, name in zip(places, names, strict=True):
                    node.input[place] = move(name)
    return model.SerializeToString() if moved else None
