"""Schemas of the operators that ONNX has under the same or nearly the same name, and of a few of no family."""

from __future__ import annotations

from collections.abc import Sequence

from ort_py.contracts import NodeSpec
from ort_py.dtypes import Shape
from ort_py_array.contrib.schemas.notation import dims, operator, same_shape

__all__ = ["SCHEMAS"]

_INTEGERS = "uint8 uint16 uint32 uint64 int8 int16 int32 int64"
_ALL = f"{_INTEGERS} float16 float double string bool complex64 complex128"


def _cdist_shape(node: NodeSpec) -> Sequence[Shape | None]:
    a, b = dims(node, 0), dims(node, 1)
    return [(a[0], b[0]) if a and b else None]


def _unique_shapes(node: NodeSpec) -> Sequence[Shape | None]:
    return (None,), dims(node, 0), (None,)


def _grid_sample_shape(node: NodeSpec) -> Sequence[Shape | None]:
    x, grid = dims(node, 0), dims(node, 1)
    return [(*x[:2], *grid[1:-1]) if x and grid and len(x) == len(grid) == 4 else None]


SCHEMAS = [
    operator("Inverse", "X: T", "Y: T", shapes=same_shape(0), T="float16 float double"),
    operator(
        "Trilu",
        "X: T, k: tensor(int64)?",
        "Y: T",
        attributes={"upper": 1},
        shapes=same_shape(0),
        T=f"float16 float double bfloat16 {_INTEGERS} bool",
    ),
    operator(
        "Pad",
        "data: T, pads: tensor(int64), value: T?",
        "output: T",
        attributes={"mode": "constant"},
        T="float16 float double",
    ),
    operator("Unique", "x: T", "y: T, idx: tensor(int64), counts: tensor(int64)", shapes=_unique_shapes, T=_ALL),
    operator("Range", "start: T, limit: T, delta: T?", "Y: T", T="float double int16 int32 int64"),
    operator("GatherND", "data: T, indices: Tind", "output: T", T=_ALL, Tind="int32 int64"),
    operator(
        "CDist",
        "A: T, B: T",
        "C: T",
        attributes={"metric": "sqeuclidean"},
        shapes=_cdist_shape,
        T="float double",
    ),
    operator(
        "ConvTransposeWithDynamicPads",
        "X: T, W: T, Pads: tensor(int64)?, B: T?",
        "Y: T",
        attributes={
            "auto_pad": "NOTSET",
            "dilations": tuple | None,
            "group": 1,
            "kernel_shape": tuple | None,
            "output_padding": tuple | None,
            "strides": tuple | None,
        },
        T="float16 float double",
    ),
    operator(
        "NGramRepeatBlock",
        "input_ids: Tid, scores: T",
        "scores_out: T",
        attributes={"ngram_size": int},
        shapes=same_shape(1),
        Tid="int64",
        T="float",
    ),
    operator(
        "GridSample",
        "X: T1, Grid: T1",
        "Y: T2",
        attributes={"align_corners": 0, "mode": "bilinear", "padding_mode": "zeros"},
        shapes=_grid_sample_shape,
        T1=_ALL,
        T2="float16 float double",
    ),
]
