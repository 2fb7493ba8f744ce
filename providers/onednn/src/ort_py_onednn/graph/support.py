"""Which nodes can be run: a reason against each that cannot. Attributes and types are looked at, shapes where known."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from ort_py.contracts import GraphView, NodeSpec, ValueSpec
from ort_py.dtypes import DataType, Shape
from ort_py_onednn.graph.expansion import expand
from ort_py_onednn.graph.functions import UNARY
from ort_py_onednn.graph.fusion import BINARY

__all__ = ["HEAVY", "refusal"]

Check = Callable[[NodeSpec, GraphView], str | None]

HEAVY = frozenset(
    {"Conv", "ConvTranspose", "FusedConv", "FusedGemm", "FusedMatMul", "Gemm", "MatMul", "MultiHeadAttention"}
)
"""Operators whose work pays for a region by itself."""

_DOMAINS = {"MultiHeadAttention": "com.microsoft"}
"""Operators that are not ``ai.onnx``'s."""

_MOST_DIMENSIONS = 6
_NOTHING: frozenset[int] = frozenset()
_LOOKED_AT: Mapping[str, frozenset[int]] = {
    "ConstantOfShape": frozenset({0}),
    "Reshape": frozenset({1}),
    "Squeeze": frozenset({1}),
    "Unsqueeze": frozenset({1}),
    "Clip": frozenset({1, 2}),
    "Pow": frozenset({1}),
    "ReduceMean": frozenset({1}),
    "ReduceSum": frozenset({1}),
    "Slice": frozenset({1, 2, 3, 4}),
    "Split": frozenset({1}),
    "Pad": frozenset({1, 2, 3}),
    "Resize": frozenset({1, 2, 3}),
    "Upsample": frozenset({1}),
    "BatchNormalization": frozenset({1, 2, 3, 4}),
}
"""Inputs that must be constants, because they are looked at while planning."""


def refusal(node: NodeSpec, graph: GraphView) -> str | None:
    """Why a node cannot be run here, None where it can."""
    steps = expand(node)
    if steps is None:
        return "an attribute or output of it has no counterpart in oneDNN"
    for step in steps:
        reason = _refusal(step, graph)
        if reason is not None:
            return reason
    return None


def _refusal(node: NodeSpec, graph: GraphView) -> str | None:
    check = _CHECKS.get(node.op_type)
    if check is None or node.domain != _DOMAINS.get(node.op_type, ""):
        return "oneDNN's provider does not have this operator"
    looked_at = _LOOKED_AT.get(node.op_type, _NOTHING)
    for place, value in enumerate(node.inputs):
        if value is None:
            continue
        if place in looked_at:
            if graph.constant(value.name) is None:
                return f"input {place} is no constant"
            continue
        reason = _tensor(value)
        if reason is not None:
            return reason
    for value in node.outputs:
        reason = None if value is None else _tensor(value)
        if reason is not None:
            return reason
    return check(node, graph)


def _tensor(value: ValueSpec) -> str | None:
    if value.data_type is not DataType.FLOAT:
        kind = "unknown" if value.data_type is None else value.data_type.onnx_name
        return f"'{value.name}' is {kind}; only float32 is computed"
    if value.shape is None:
        return f"the rank of '{value.name}' is unknown"
    if len(value.shape) > _MOST_DIMENSIONS:
        return f"'{value.name}' has {len(value.shape)} dimensions; {_MOST_DIMENSIONS} are the most"
    if 0 in value.shape:
        return f"'{value.name}' is empty"
    return None


def _always(node: NodeSpec, graph: GraphView) -> str | None:
    return None


def _shape(node: NodeSpec, place: int) -> Shape:
    value = node.inputs[place] if place < len(node.inputs) else None
    return () if value is None or value.shape is None else value.shape


def _convolution(node: NodeSpec, graph: GraphView) -> str | None:
    rank = len(_shape(node, 0)) - 2
    if not 1 <= rank <= 3:
        return f"a convolution over {rank} dimensions; 1 to 3 are supported"
    if not all(isinstance(dim, int) for dim in _shape(node, 1)):
        return "the weight's shape is not known"
    return None


def _transposed(node: NodeSpec, graph: GraphView) -> str | None:
    if node.attributes.get("output_shape"):
        return "output_shape is given"
    return _convolution(node, graph)


def _pool(node: NodeSpec, graph: GraphView) -> str | None:
    rank = len(_shape(node, 0)) - 2
    if not 1 <= rank <= 3:
        return f"pooling over {rank} dimensions; 1 to 3 are supported"
    if len([value for value in node.outputs if value is not None]) > 1:
        return "indices of the maxima are wanted"
    attributes = node.attributes
    if any(dilation != 1 for dilation in attributes.get("dilations") or ()):
        return "dilated windows"
    if attributes.get("storage_order", 0):
        return "column-major storage order"
    if node.op_type == "AveragePool" and attributes.get("ceil_mode", 0):
        return "averages with ceil_mode"
    pads = attributes.get("pads") or ()
    kernel = attributes["kernel_shape"]
    if any(width >= kernel[place % rank] for place, width in enumerate(pads)):
        return "padding as wide as the window"
    return None


def _global_pool(node: NodeSpec, graph: GraphView) -> str | None:
    rank = len(_shape(node, 0)) - 2
    return None if 1 <= rank <= 3 else f"pooling over {rank} dimensions; 1 to 3 are supported"


def _gemm(node: NodeSpec, graph: GraphView) -> str | None:
    if len(node.inputs) > 2 and node.inputs[2] is not None and node.attributes.get("beta", 1.0) != 1.0:
        return "beta is not 1"
    return None


def _matmul(node: NodeSpec, graph: GraphView) -> str | None:
    return "a product of scalars" if not _shape(node, 0) or not _shape(node, 1) else None


def _pow(node: NodeSpec, graph: GraphView) -> str | None:
    exponent = graph.constant(_name(node, 1))
    if exponent is None or exponent.size != 1 or exponent.ndim > 1:
        return "the exponent is no single constant"
    return None if float(exponent.reshape(())) in {0.5, 2.0, 3.0, -1.0, -0.5, 1.0} else "an unusual exponent"


def _clip(node: NodeSpec, graph: GraphView) -> str | None:
    for place in (1, 2):
        bound = graph.constant(_name(node, place)) if _name(node, place) else None
        if bound is not None and bound.size != 1:
            return "a bound is no single number"
    return None


def _name(node: NodeSpec, place: int) -> str:
    value = node.inputs[place] if place < len(node.inputs) else None
    return "" if value is None else value.name


def _batch_normalization(node: NodeSpec, graph: GraphView) -> str | None:
    if node.attributes.get("training_mode", 0) or len(node.outputs) > 1:
        return "training"
    return "no channels" if len(_shape(node, 0)) < 2 else None


def _layer_normalization(node: NodeSpec, graph: GraphView) -> str | None:
    if len([value for value in node.outputs if value is not None]) > 1:
        return "statistics are wanted"
    if node.attributes.get("stash_type", 1) != 1:
        return "statistics in another type"
    rank = len(_shape(node, 0))
    axis = node.attributes.get("axis", -1) % max(rank, 1)
    inner = _shape(node, 0)[axis:]
    for place in (1, 2):
        shape = _shape(node, place)
        if _name(node, place) and tuple(shape) != tuple(inner):
            return "scale or bias broadcasts"
    return None


def _reduction(node: NodeSpec, graph: GraphView) -> str | None:
    return "a scalar" if not _shape(node, 0) else None


def _extreme(node: NodeSpec, graph: GraphView) -> str | None:
    return "oneDNN's reductions begin with the largest finite number: of infinities it would find a wrong extreme"


def _concat(node: NodeSpec, graph: GraphView) -> str | None:
    return "sequence of scalars" if not _shape(node, 0) else None


def _slice(node: NodeSpec, graph: GraphView) -> str | None:
    if _name(node, 4):
        steps = graph.constant(_name(node, 4))
        if steps is None or any(int(step) != 1 for step in steps.reshape(-1)):
            return "steps other than 1"
    return None


def _split(node: NodeSpec, graph: GraphView) -> str | None:
    return None if all(value is not None for value in node.outputs) else "an output is left out"


def _pad(node: NodeSpec, graph: GraphView) -> str | None:
    if node.attributes.get("mode", "constant") != "constant":
        return f"mode {node.attributes['mode']}"
    value = graph.constant(_name(node, 2)) if _name(node, 2) else node.attributes.get("value", 0.0)
    return None if value is None or float(value) == 0.0 else "padding with a number other than 0"


def _resize(node: NodeSpec, graph: GraphView) -> str | None:
    attributes = node.attributes
    shape, rank = _shape(node, 0), len(_shape(node, 0))
    if not 3 <= rank <= 5:
        return f"{rank} dimensions; 3 to 5 are supported"
    mode = attributes.get("mode", "nearest")
    if attributes.get("antialias", 0) or attributes.get("axes") or attributes.get("exclude_outside", 0):
        return "antialias, axes or exclude_outside"
    if attributes.get("keep_aspect_ratio_policy", "stretch") != "stretch":
        return "a policy of aspect ratios"
    scales = _factors(node, graph)
    if scales is None:
        return "neither scales nor sizes can be compared with the input's shape"
    if any(scale != 1 for scale in scales[:2]):
        return "more than spatial sizes change"
    old = node.op_type == "Upsample" or node.since_version < 11
    way = "asymmetric" if old else attributes.get("coordinate_transformation_mode", "half_pixel")
    if mode == "nearest":
        rounding = attributes.get("nearest_mode", "round_prefer_floor")
        if any(scale != int(scale) for scale in scales):
            return "factors are no whole numbers"
        if way == "asymmetric" and (old or rounding == "floor"):
            return None
        return (
            None
            if way in {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel"} and rounding.startswith("round")
            else (f"coordinates {way} with {rounding}")
        )
    if mode == "linear":
        if way not in {"half_pixel", "half_pixel_symmetric"}:
            return f"coordinates {way}"
        if any(scale != int(scale) for scale in scales) and not all(isinstance(dim, int) for dim in shape):
            return "factors are no whole numbers and sizes are not known"
        if any(
            isinstance(dim, int) and dim * scale != int(dim * scale) for dim, scale in zip(shape, scales, strict=True)
        ):
            return "sizes are rounded"
        return None
    return f"mode {mode}"


def _factors(node: NodeSpec, graph: GraphView) -> list[float] | None:
    """Scale of each dimension."""
    found: Any = None
    if node.op_type == "Upsample":
        found = graph.constant(_name(node, 1)) if node.since_version >= 9 else node.attributes.get("scales")
    else:
        place = 1 if node.since_version < 11 else 2
        found = graph.constant(_name(node, place)) if _name(node, place) else None
        if (found is None or not len(found)) and _name(node, 3):
            sizes = graph.constant(_name(node, 3))
            shape = _shape(node, 0)
            if sizes is None or not all(isinstance(dim, int) and dim for dim in shape):
                return None
            return [int(size) / int(dim) for size, dim in zip(sizes, shape, strict=True)]  # type: ignore[arg-type]  # all are int
    return None if found is None or not len(found) else [float(scale) for scale in found]


def _filled(node: NodeSpec, graph: GraphView) -> str | None:
    output = node.outputs[0]
    if output is None or any(value.name == output.name for value in graph.outputs):
        return "a graph output that is a constant"
    return None


def _prelu(node: NodeSpec, graph: GraphView) -> str | None:
    return None if len(_shape(node, 1)) <= len(_shape(node, 0)) else "slopes of a higher rank"


def _attention(node: NodeSpec, graph: GraphView) -> str | None:
    if any(_name(node, place) for place in (3, 4, 6, 7, 8, 9)) or len([one for one in node.outputs if one]) > 1:
        return "a bias of projections, a mask of keys, a past or a present"
    if node.attributes.get("unidirectional", 0):
        return "causal attention"
    heads = node.attributes["num_heads"]
    for place in range(3):
        shape = _shape(node, place)
        if len(shape) != 3:
            return "queries, keys or values that are not of three dimensions"
        if not isinstance(shape[2], int) or shape[2] % heads:
            return "a size of heads that is not known"
    return None


def _lrn(node: NodeSpec, graph: GraphView) -> str | None:
    return None if node.attributes["size"] % 2 else "an even size"


def _softmax(node: NodeSpec, graph: GraphView) -> str | None:
    return None if _shape(node, 0) else "a scalar"


def _function(node: NodeSpec, graph: GraphView) -> str | None:
    if any(not math.isfinite(value) for value in node.attributes.values() if isinstance(value, float)):
        return "an attribute is no finite number"
    return None


_CHECKS: Mapping[str, Check] = {
    **dict.fromkeys(UNARY, _function),
    **dict.fromkeys(BINARY, _always),
    "AveragePool": _pool,
    "BatchNormalization": _batch_normalization,
    "Clip": _clip,
    "Concat": _concat,
    "ConstantOfShape": _filled,
    "Conv": _convolution,
    "ConvTranspose": _transposed,
    "Flatten": _always,
    "Gemm": _gemm,
    "GlobalAveragePool": _global_pool,
    "GlobalMaxPool": _global_pool,
    "LRN": _lrn,
    "LayerNormalization": _layer_normalization,
    "LogSoftmax": _softmax,
    "MatMul": _matmul,
    "MaxPool": _pool,
    "MultiHeadAttention": _attention,
    "PRelu": _prelu,
    "Pad": _pad,
    "Pow": _pow,
    "ReduceMax": _extreme,
    "ReduceMean": _reduction,
    "ReduceMin": _extreme,
    "ReduceSum": _reduction,
    "Reshape": _always,
    "Resize": _resize,
    "Slice": _slice,
    "Softmax": _softmax,
    "Split": _split,
    "Squeeze": _always,
    "Sum": _always,
    "Transpose": _always,
    "Unsqueeze": _always,
    "Upsample": _resize,
}
