"""Schemas of the 8-bit products, pools and embeddings, and of QuantizeLinear and DequantizeLinear.

Those of element-wise operators are in `quantized_elementwise`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ort_py.contracts import NodeSpec, OperatorSchema
from ort_py.dtypes import DataType, Dim, Shape, TensorType, ValueType
from ort_py.errors import InvalidArgument
from ort_py_array.contrib.schemas.notation import ShapesFunction, dims, operator, same_shape
from ort_py_array.windows import Window

__all__ = ["SCHEMAS"]

_EIGHT = "int8 uint8"
_WINDOW = {"auto_pad": "NOTSET", "pads": tuple | None, "strides": tuple | None}


def _product(node: NodeSpec) -> Sequence[Shape | None]:
    """``A @ B`` where both have at least two axes and leading ones need no broadcasting."""
    a, b = dims(node, 0), dims(node, 1)
    if a is None or b is None or len(a) < 2 or len(b) < 2:
        return [None]
    lead = a[:-2] if len(b) == 2 or a[:-2] == b[:-2] else b[:-2] if len(a) == 2 else None
    return [None if lead is None else (*lead, a[-2], b[-1])]


def _qgemm(node: NodeSpec) -> Sequence[Shape | None]:
    a, b = dims(node, 0), dims(node, 3)
    if a is None or b is None or len(a) != 2 or len(b) != 2:
        return [None]
    return [(a[1 if node.attributes.get("transA", 0) else 0], b[0 if node.attributes.get("transB", 0) else 1])]


def _windowed(node: NodeSpec, channels_last: bool, weights: int | None) -> Sequence[Shape | None]:
    """Batch, channels (those of the weights, where there are any) and the sizes that are known."""
    x = dims(node, 0)
    w = None if weights is None else dims(node, weights)
    if x is None or len(x) < 3 or (weights is not None and (w is None or len(w) != len(x))):
        return [None]
    size = x[1:-1] if channels_last else x[2:]
    channels: Dim = w[0] if w is not None else x[-1] if channels_last else x[1]
    out = _placed(node, size, w[2:] if w is not None else ())
    return [(x[0], *out, channels) if channels_last else (x[0], channels, *out)]


def _placed(node: NodeSpec, size: Shape, kernel: Shape) -> Shape:
    unknown: Shape = (None,) * len(size)
    fixed = [dim for dim in (*size, *kernel) if isinstance(dim, int)]
    if len(fixed) < len(size) + len(kernel):
        return unknown
    attributes = node.attributes
    try:
        window = Window(
            where=node.location,
            kernel=tuple(attributes.get("kernel_shape", ())),
            strides=tuple(attributes.get("strides", ())),
            dilations=tuple(attributes.get("dilations", ())),
            pads=tuple(attributes.get("pads", ())),
            auto_pad=attributes.get("auto_pad", "NOTSET"),
            ceil_mode=bool(attributes.get("ceil_mode", 0)),
        )
        return window.placed(fixed[: len(size)], fixed[len(size) :]).out
    except InvalidArgument:  # the kernel says what is wrong when it meets real shapes
        return unknown


def _convolution(node: NodeSpec) -> Sequence[Shape | None]:
    return _windowed(node, bool(node.attributes.get("channels_last", 0)), 3)


def _average_pool(node: NodeSpec) -> Sequence[Shape | None]:
    return _windowed(node, bool(node.attributes.get("channels_last", 0)), None)


def _max_pool(node: NodeSpec) -> Sequence[Shape | None]:
    return _windowed(node, True, None)


def _global_pool(node: NodeSpec) -> Sequence[Shape | None]:
    x = dims(node, 0)
    if x is None or len(x) < 3:
        return [None]
    ones = (1,) * (len(x) - 2)
    return [(x[0], *ones, x[-1]) if node.attributes.get("channels_last", 0) else (*x[:2], *ones)]


def _embedding(node: NodeSpec) -> Sequence[Shape | None]:
    ids, table = dims(node, 0), dims(node, 2)
    if ids is None or table is None or len(ids) != 2 or len(table) != 2:
        return [None]
    return (*ids, table[1]), ids[:1]


def _like_zero_point(schema: OperatorSchema, index: int, absent: DataType, shapes: ShapesFunction) -> OperatorSchema:
    """The schema with an output of the element type of input `index`, or `absent` where that is not given."""

    def infer(node: NodeSpec) -> Sequence[ValueType | None]:
        given = node.inputs[index] if index < len(node.inputs) else None
        if given is None:
            return [TensorType(absent, shapes(node)[0])]
        return [TensorType(given.type.data_type, shapes(node)[0]) if isinstance(given.type, TensorType) else None]

    return replace(schema, infer=infer)


_QUANTIZE_LINEAR = operator(
    "QuantizeLinear",
    "x: T1, y_scale: T1, y_zero_point: T2?",
    "y: T2",
    attributes={"axis": int | None},
    T1="float16 float",
    T2="int8 uint8 int16 uint16 int4 uint4",
)

_QGEMM = operator(
    "QGemm",
    "A: TA, a_scale: T, a_zero_point: TA, B: TB, b_scale: T, b_zero_point: TB, C: TC?, y_scale: T?, y_zero_point: TYZ?",
    "Y: TY",
    attributes={"alpha": 1.0, "transA": 0, "transB": 0},
    T="float",
    TA=_EIGHT,
    TB=_EIGHT,
    TC="int32",
    TYZ=_EIGHT,
    TY="float int8 uint8",
)

SCHEMAS = [
    _like_zero_point(_QUANTIZE_LINEAR, 2, DataType.UINT8, same_shape(0)),
    _like_zero_point(_QGEMM, 8, DataType.FLOAT, _qgemm),
    operator(
        "DequantizeLinear",
        "x: T1, x_scale: T2, x_zero_point: T1?",
        "y: T2",
        attributes={"axis": int | None},
        shapes=same_shape(0),
        T1="int8 uint8 int16 uint16 int32 int4 uint4",
        T2="float16 float",
    ),
    operator(
        "DynamicQuantizeMatMul",
        "A: T1, B: T2, b_scale: T1, b_zero_point: T2?, bias: T1?",
        "Y: T1",
        shapes=_product,
        T1="float",
        T2=_EIGHT,
    ),
    operator(
        "MatMulIntegerToFloat",
        "A: T1, B: T2, a_scale: T3, b_scale: T3, a_zero_point: T1?, b_zero_point: T2?, bias: T3?",
        "Y: T3",
        shapes=_product,
        T1=_EIGHT,
        T2=_EIGHT,
        T3="float float16",
    ),
    operator(
        "QLinearConv",
        "x: T1, x_scale: tensor(float), x_zero_point: T1, w: T2, w_scale: tensor(float), w_zero_point: T2, "
        "y_scale: tensor(float), y_zero_point: T3, B: T4?",
        "y: T3",
        attributes={**_WINDOW, "kernel_shape": tuple | None, "dilations": tuple | None, "group": 1, "channels_last": 0},
        shapes=_convolution,
        T1=_EIGHT,
        T2=_EIGHT,
        T3=_EIGHT,
        T4="int32",
    ),
    operator(
        "QLinearAveragePool",
        "X: T, x_scale: tensor(float), x_zero_point: T?, y_scale: tensor(float), y_zero_point: T?",
        "Y: T",
        attributes={**_WINDOW, "kernel_shape": tuple, "ceil_mode": 0, "channels_last": 0, "count_include_pad": 0},
        shapes=_average_pool,
        T=_EIGHT,
    ),
    operator(
        "QLinearGlobalAveragePool",
        "X: T, x_scale: tensor(float), x_zero_point: T, y_scale: tensor(float), y_zero_point: T",
        "Y: T",
        attributes={"channels_last": 0},
        shapes=_global_pool,
        T=_EIGHT,
    ),
    operator(
        "NhwcMaxPool",
        "x: T",
        "y: T",
        attributes={**_WINDOW, "kernel_shape": tuple, "dilations": tuple | None, "ceil_mode": 0},
        shapes=_max_pool,
        T=_EIGHT,
    ),
    operator(
        "QEmbedLayerNormalization",
        "input_ids: T1, segment_ids: T1?, word_embedding_quant: T2, position_embedding_quant: T2, "
        "segment_embedding: T2?, gamma_quant: T2, beta_quant: T2, mask: T1?, word_embedding_scale: T, "
        "position_embedding_scale: T, segment_embedding_scale: T?, gamma_scale: T, beta_scale: T, "
        "word_embedding_zero_point: T2, position_embedding_zero_point: T2, segment_embedding_zero_point: T2?, "
        "gamma_zero_point: T2, beta_zero_point: T2",
        "layernorm_out: T, mask_index_out: T1",
        attributes={"epsilon": 1e-12},
        shapes=_embedding,
        T1="int32",
        T2=_EIGHT,
        T="float",
    ),
]
