"""Schemas of operators on weights that are quantised block by block."""

from __future__ import annotations

from collections.abc import Sequence

from ort_py.contracts import NodeSpec
from ort_py.dtypes import Shape
from ort_py_array.contrib.schemas.notation import dims, operator

__all__ = ["SCHEMAS"]


def _product_shape(node: NodeSpec) -> Sequence[Shape | None]:
    """The last axis becomes N, or K where the weights are not transposed."""
    a = dims(node, 0)
    last = node.attributes.get("N" if node.attributes.get("transB", 1) else "K")
    return [None if a is None else (*a[:-1], last)]


def _gather_shape(node: NodeSpec) -> Sequence[Shape | None]:
    data, indices = dims(node, 0), dims(node, 1)
    value = node.inputs[0]
    if not data or indices is None or value is None:
        return [None]
    last = data[-1]
    if str(value.type) == "tensor(uint8)":
        last = last * (8 // node.attributes.get("bits", 4)) if isinstance(last, int) else None
    logical = (*data[:-1], last)
    axis = node.attributes.get("gather_axis", 0) % len(logical)
    return [(*logical[:axis], *indices, *logical[axis + 1 :])]


SCHEMAS = [
    operator(
        "MatMulNBits",
        "A: T1, B: T2, scales: T1, zero_points: T3?, g_idx: T4?, bias: T1?",
        "Y: T1",
        attributes={"K": int, "N": int, "accuracy_level": 0, "bits": 4, "block_size": int, "weight_prepacked": 0},
        shapes=_product_shape,
        T1="float float16 bfloat16",
        T2="uint8",
        T3="uint8 float16 float bfloat16",
        T4="int32",
    ),
    operator(
        "MatMulBnb4",
        "A: T1, B: T2, absmax: T1",
        "Y: T1",
        attributes={"K": int, "N": int, "block_size": int, "quant_type": int, "training_mode": 0, "transB": 1},
        shapes=_product_shape,
        T1="float float16 bfloat16",
        T2="uint8",
    ),
    operator(
        "GatherBlockQuantized",
        "data: T1, indices: Tind, scales: T2, zero_points: T1?",
        "output: T2",
        attributes={"bits": 4, "block_size": 128, "gather_axis": 0, "quantize_axis": 1},
        shapes=_gather_shape,
        T1="int4 uint4 uint8 float8e4m3fn float8e4m3fnuz float8e5m2 float8e5m2fnuz float4e2m1",
        T2="float float16 bfloat16",
        Tind="int32 int64",
    ),
]
