"""Schemas of products with what follows them: FusedMatMul, FusedGemm, FusedConv."""

from __future__ import annotations

from collections.abc import Sequence

from ort_py.contracts import NodeSpec
from ort_py.dtypes import Dim, Shape
from ort_py_array.contrib.schemas.notation import dims, operator, spread

__all__ = ["SCHEMAS"]


def _gemm_shape(node: NodeSpec) -> Sequence[Shape | None]:
    a, b = dims(node, 0), dims(node, 1)
    if a is None or b is None or len(a) != 2 or len(b) != 2:
        return [None]
    return [(a[1] if node.attributes.get("transA") else a[0], b[0] if node.attributes.get("transB") else b[1])]


def _matmul_shape(node: NodeSpec) -> Sequence[Shape | None]:
    """Shape of a product of matrices, or of batches of them."""
    a, b = dims(node, 0), dims(node, 1)
    if a is None or b is None or min(len(a), len(b)) < 2:
        return [None]
    if node.attributes.get("transBatchA") or node.attributes.get("transBatchB"):
        return [None]
    swapped = node.attributes.get("transA"), node.attributes.get("transB")
    return [(*spread(a[:-2], b[:-2]), a[-1] if swapped[0] else a[-2], b[-2] if swapped[1] else b[-1])]


def _conv_shape(node: NodeSpec) -> Sequence[Shape | None]:
    """The rank is the weight's, whatever is known of the input; spatial sizes where padding is given in numbers."""
    x, w = dims(node, 0), dims(node, 1)
    if w is None or len(w) < 3 or (x is not None and len(x) != len(w)):
        return [None]
    if x is None:
        return [(None, w[0], *(None,) * (len(w) - 2))]
    return [(x[0], w[0], *(_conv_size(node, place, x[place + 2], w[place + 2]) for place in range(len(w) - 2)))]


def _conv_size(node: NodeSpec, place: int, size: Dim, window: Dim) -> Dim:
    attributes = node.attributes
    if not isinstance(size, int) or not isinstance(window, int) or attributes.get("auto_pad", "NOTSET") != "NOTSET":
        return None
    pads = attributes.get("pads") or ()
    padding = pads[place] + pads[place + len(pads) // 2] if pads else 0
    stride, dilation = ((attributes.get(name) or (1,) * (place + 1))[place] for name in ("strides", "dilations"))
    return max(0, (size + padding - dilation * (window - 1) - 1) // stride + 1)


SCHEMAS = [
    operator(
        "FusedMatMul",
        "A: T, B: T",
        "Y: T",
        attributes={"alpha": 1.0, "transA": 0, "transB": 0, "transBatchA": 0, "transBatchB": 0},
        shapes=_matmul_shape,
        T="float16 float double bfloat16",
    ),
    operator(
        "FusedGemm",
        "A: T, B: T, C: T?",
        "Y: T",
        attributes={
            "activation": str | None,
            "activation_alpha": float | None,
            "activation_beta": float | None,
            "activation_gamma": float | None,
            "alpha": 1.0,
            "beta": 1.0,
            "transA": 0,
            "transB": 0,
        },
        shapes=_gemm_shape,
        T="float16 float double uint32 uint64 int32 int64",
    ),
    operator(
        "FusedConv",
        "X: T, W: T, B: T?, Z: T?",
        "Y: T",
        attributes={
            "activation": str | None,
            "activation_params": tuple | None,
            "auto_pad": "NOTSET",
            "dilations": tuple | None,
            "group": 1,
            "kernel_shape": tuple | None,
            "pads": tuple | None,
            "strides": tuple | None,
        },
        shapes=_conv_shape,
        T="float16 float double",
    ),
]
