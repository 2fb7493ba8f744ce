"""Attention and MultiHeadAttention, by the products, sums and softmax functions that they consist of.

GroupQueryAttention is not among them: how long its results are is said by numbers of a run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ort_py.contracts import NodeSpec
from ort_py.dtypes import DataType
from ort_py_coreml.operators.attention import joined, split_heads, weighed
from ort_py_coreml.operators.operator import FLOATS, Constants, Operator, Var, attribute, constant, shape_of

if TYPE_CHECKING:
    from ort_py_coreml.lowering import Lowering

__all__ = ["OPERATORS"]


def _has(node: NodeSpec, place: int) -> bool:
    return place < len(node.inputs) and node.inputs[place] is not None


def _check_sizes(shape: tuple[Any, ...]) -> str | None:
    return None if isinstance(shape[-1], int) else "the number of its heads, or their size, is not known"


def _check_mask(node: NodeSpec, place: int, batch: Any, keys: Any) -> str | None:
    """Return why a mask has a form that is not written, or None."""
    if not _has(node, place):
        return None
    shape = shape_of(node, place)
    if len(shape) == 1 and shape[0] == batch and shape[0] is not None:
        return None if isinstance(keys, int) else "its mask has lengths, and the number of keys is not known"
    return None if len(shape) == 2 else "its mask is not one number for each key"


def _check_causal(node: NodeSpec, rows: Any, keys: Any) -> str | None:
    if attribute(node, "unidirectional", 0) and not (isinstance(rows, int) and isinstance(keys, int)):
        return "its causal mask depends on lengths that are not known"
    return None


def _masks(lowering: Lowering, node: NodeSpec, rows: Any, keys: Any, mask: int, bias: int) -> list[Var]:
    """Return what is added to the scores."""
    mb, found = lowering.mb, []
    if _has(node, bias):
        found.append(lowering.read(node.inputs[bias]))
    if _has(node, mask):
        given, hidden = lowering.read(node.inputs[mask]), np.float32(attribute(node, "mask_filter_value", -10000.0))
        if len(shape_of(node, mask)) == 1:
            seen = mb.greater(x=mb.expand_dims(x=given, axes=[1]), y=np.arange(keys, dtype=np.int32)[None])
        else:
            seen = mb.greater(x=given, y=np.int32(0))
        padding = mb.mul(x=mb.cast(x=mb.logical_not(x=seen), dtype="fp32"), y=hidden)
        found.append(mb.expand_dims(x=padding, axes=[1, 2]))
    if attribute(node, "unidirectional", 0):
        found.append(np.where(np.tri(rows, keys, dtype=np.bool_), np.float32(0), np.float32(-np.inf)))
    return found


def _scale(node: NodeSpec, size: int) -> float:
    return float(attribute(node, "scale", 0.0) or size**-0.5)


def _parts(node: NodeSpec) -> list[int]:
    """Return the columns of queries, keys and values."""
    given = [int(size) for size in attribute(node, "qkv_hidden_sizes", ())]
    return given or [shape_of(node, 1)[1] // 3] * 3


def _check_self(node: NodeSpec, graph: Constants) -> str | None:
    if _has(node, 4) or _has(node, 6) or any(value is not None for value in node.outputs[1:]):
        return "it has a cache"
    if attribute(node, "do_rotary", 0):
        return "it turns its heads"
    shape = shape_of(node)
    return (
        _check_sizes(shape)
        or _check_mask(node, 3, shape[0], shape[1])
        or _check_causal(node, shape[1], shape[1])
        or (None if len(_parts(node)) == 3 else "it does not have three parts")
    )


def _self(lowering: Lowering, node: NodeSpec) -> Var:
    mb, shape = lowering.mb, shape_of(node)
    heads, sizes = int(attribute(node, "num_heads", 1)), _parts(node)
    x = mb.matmul(x=lowering.read(node.inputs[0]), y=lowering.read(node.inputs[1]))
    if _has(node, 2):
        x = mb.add(x=x, y=lowering.read(node.inputs[2]))
    query, key, value = (
        split_heads(mb, part, (*shape[:2], size), heads)
        for part, size in zip(mb.split(x=x, split_sizes=sizes, axis=2), sizes, strict=True)
    )
    masks = _masks(lowering, node, shape[1], shape[1], 3, 5)
    result = weighed(mb, query, key, value, _scale(node, sizes[0] // heads), masks)
    return joined(mb, result, shape, heads, sizes[2])


def _check_several(node: NodeSpec, graph: Constants) -> str | None:
    if any(_has(node, place) for place in (6, 7, 8, 9)) or any(value is not None for value in node.outputs[1:]):
        return "it has a cache, or gives its scores"
    if not _has(node, 1) or not _has(node, 2) or len(shape_of(node)) != 3:
        return "its queries, keys and values are packed"
    heads, shape, key = int(attribute(node, "num_heads", 1)), shape_of(node), shape_of(node, 1)
    for place in range(3):
        reason = _check_sizes(shape_of(node, place))
        if reason is not None:
            return reason
    if len(key) == 4 and key[1] != heads:
        return "the number of its heads, or their size, is not known"
    return _check_mask(node, 4, shape[0], key[-2]) or _check_causal(node, shape[1], key[-2])


def _several(lowering: Lowering, node: NodeSpec) -> Var:
    mb, shape, heads = lowering.mb, shape_of(node), int(attribute(node, "num_heads", 1))
    bias, done, parts = constant(node, lowering.graph, 3), 0, []
    for place in range(3):
        x, own = lowering.read(node.inputs[place]), shape_of(node, place)
        columns = own[-1] * (heads if len(own) == 4 else 1)
        if bias is not None and len(own) == 3:
            x = mb.add(x=x, y=np.ascontiguousarray(bias[done : done + columns], np.float32))
        done += columns
        parts.append(split_heads(mb, x, own, heads) if len(own) == 3 else x)
    rows, keys = shape[1], shape_of(node, 1)[-2]
    masks = _masks(lowering, node, rows, keys, 4, 5)
    result = weighed(mb, parts[0], parts[1], parts[2], _scale(node, shape[2] // heads), masks)
    value = shape_of(node, 2)
    return joined(mb, result, shape, heads, value[-1] * (heads if len(value) == 4 else 1))


_KINDS = FLOATS | {DataType.INT32}
OPERATORS = {
    "Attention": Operator(_self, _check_self, heavy=True, kinds=_KINDS),
    "MultiHeadAttention": Operator(_several, _check_several, frozenset({3}), heavy=True, kinds=_KINDS),
}
