"""Schemas of element-wise operators on 8-bit tensors, and of QLinearConcat and QLinearSoftmax."""

from __future__ import annotations

from collections.abc import Sequence

from ort_py.contracts import NodeSpec
from ort_py.dtypes import Dim, Shape
from ort_py_array.contrib.schemas.notation import broadcast, dims, operator, same_shape

__all__ = ["SCHEMAS"]

_EIGHT = "uint8 int8"
_UNARY = "X: T, X_scale: tensor(float), X_zero_point: T?, Y_scale: tensor(float), Y_zero_point: T?"
_BINARY = (
    "A: T, A_scale: tensor(float), A_zero_point: T?, B: T, B_scale: tensor(float), B_zero_point: T?, "
    "C_scale: tensor(float), C_zero_point: T?"
)


def _concat(node: NodeSpec) -> Sequence[Shape | None]:
    """The first tensor's shape, with the sum of all along the axis."""
    known = [dims(node, index) for index in range(2, len(node.inputs), 3)]
    shapes = [shape for shape in known if shape is not None]
    axis = node.attributes.get("axis", 0)
    if not shapes or len(shapes) < len(known) or not all(-len(shape) <= axis < len(shape) for shape in shapes):
        return [None]
    sizes = [shape[axis] for shape in shapes]
    fixed = [size for size in sizes if isinstance(size, int)]
    total: Dim = sum(fixed) if len(fixed) == len(sizes) else None
    place = axis % len(shapes[0])
    return [(*shapes[0][:place], total, *shapes[0][place + 1 :])]


SCHEMAS = [
    operator("QLinearAdd", _BINARY, "C: T", shapes=broadcast(0, 3), T=_EIGHT),
    operator("QLinearMul", _BINARY, "C: T", shapes=broadcast(0, 3), T=_EIGHT),
    operator("QLinearSigmoid", _UNARY, "Y: T", shapes=same_shape(0), T=_EIGHT),
    operator("QLinearLeakyRelu", _UNARY, "Y: T", attributes={"alpha": 0.01}, shapes=same_shape(0), T=_EIGHT),
    operator(
        "QLinearWhere",
        "condition: B, X: T, x_scale: TF, x_zero_point: T, Y: T, y_scale: TF, y_zero_point: T, z_scale: TF, "
        "z_zero_point: T",
        "Z: T",
        shapes=broadcast(0, 1, 4),
        B="bool",
        TF="float",
        T=_EIGHT,
    ),
    operator(
        "QLinearConcat",
        "Y_scale: TF, Y_zero_point: T8, inputs: TV**",
        "Y: T8",
        attributes={"axis": int},
        shapes=_concat,
        T8=_EIGHT,
        TF="float",
        TV="uint8 int8 float",
    ),
    operator(
        "QLinearSoftmax",
        "X: T, X_scale: tensor(float), x_zero_point: T?, y_scale: tensor(float), y_zero_point: T",
        "Y: T",
        attributes={"axis": -1, "opset": int},
        shapes=same_shape(0),
        T=_EIGHT,
    ),
]
