"""Attention of three kinds, by the products, sums and softmax functions that they consist of.

Keys and values of a cache come before those of the operands. How many of them count has to follow from their shapes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ort_py.contracts import NodeSpec
from ort_py.dtypes import DataType
from ort_py_coreml.operators.attention import behind, causal, joined, repeated, split_heads, weighed
from ort_py_coreml.operators.extents import counted_up
from ort_py_coreml.operators.operator import FLOATS, Constants, Operator, Var, attribute, constant, has, shape_of
from ort_py_coreml.operators.rotary import turned

if TYPE_CHECKING:
    from ort_py_coreml.lowering import Lowering

__all__ = ["OPERATORS"]

_SHARED = "it writes to a buffer of its cache, whose used length comes with each run"


def _check_sizes(shape: tuple[Any, ...]) -> str | None:
    return None if isinstance(shape[-1], int) else "the number of its heads, or their size, is not known"


def _check_mask(node: NodeSpec, place: int, batch: Any) -> str | None:
    """Return why a mask has a form that is not written, or None."""
    if not has(node, place):
        return None
    shape = shape_of(node, place)
    if len(shape) == 2 or (len(shape) == 1 and shape[0] == batch and batch is not None):
        return None
    return "its mask is neither a number for each key nor, for as many sequences as there are, the length of each"


def _sum(first: Any, second: Any) -> Any:
    return first + second if isinstance(first, int) and isinstance(second, int) else None


def _masks(lowering: Lowering, node: NodeSpec, keys: Any, key: Var, mask: int, bias: int) -> list[Var]:
    """Return what is added to the scores, apart from what keeps queries from later keys."""
    mb, found = lowering.mb, []
    if has(node, bias):
        found.append(lowering.read(node.inputs[bias]))
    if has(node, mask):
        given, hidden = lowering.read(node.inputs[mask]), np.float32(attribute(node, "mask_filter_value", -10000.0))
        if len(shape_of(node, mask)) == 1:
            seen = mb.greater(x=mb.expand_dims(x=given, axes=[1]), y=counted_up(mb, keys, key, 2))
        else:
            seen = mb.greater(x=given, y=np.int32(0))
        padding = mb.mul(x=mb.cast(x=mb.logical_not(x=seen), dtype="fp32"), y=hidden)
        found.append(mb.expand_dims(x=padding, axes=[1, 2]))
    return found


def _scale(node: NodeSpec, size: int) -> float:
    return float(attribute(node, "scale", 0.0) or size**-0.5)


def _parts(node: NodeSpec) -> list[int]:
    """Return the columns of queries, keys and values."""
    given = [int(size) for size in attribute(node, "qkv_hidden_sizes", ())]
    return given or [shape_of(node, 1)[1] // 3] * 3


def _check_self(node: NodeSpec, graph: Constants) -> str | None:
    if has(node, 6) or attribute(node, "past_present_share_buffer", 0):
        return _SHARED
    if attribute(node, "do_rotary", 0):
        return "it turns its heads"
    shape = shape_of(node)
    return (
        _check_sizes(shape)
        or _check_mask(node, 3, shape[0])
        or (None if len(_parts(node)) == 3 else "it does not have three parts")
        or (None if len(set(_parts(node)[1:])) == 1 or not has(node, 4) else "its keys and values have other sizes")
    )


def _self(lowering: Lowering, node: NodeSpec) -> list[Var]:
    """Write Attention, whose cache has keys and values as places of its first axis."""
    mb, shape = lowering.mb, shape_of(node)
    heads, sizes = int(attribute(node, "num_heads", 1)), _parts(node)
    x = mb.matmul(x=lowering.read(node.inputs[0]), y=lowering.read(node.inputs[1]))
    if has(node, 2):
        x = mb.add(x=x, y=lowering.read(node.inputs[2]))
    query, key, value = (
        split_heads(mb, part, (*shape[:2], size), heads)
        for part, size in zip(mb.split(x=x, split_sizes=sizes, axis=2), sizes, strict=True)
    )
    keys, past, before = shape[1], 0, None
    if has(node, 4):
        past = shape_of(node, 4)[3]
        keys = _sum(past, keys)
        pair = mb.split(x=lowering.read(node.inputs[4]), split_sizes=[1, 1], axis=0)
        before, values = (mb.squeeze(x=one, axes=[0]) for one in pair)
        key, value = (mb.concat(values=list(two), axis=2) for two in ((before, key), (values, value)))
    masks = _masks(lowering, node, keys, key, 3, 5)
    if attribute(node, "unidirectional", 0):
        masks.append(causal(mb, shape[1], keys, query, key, past, before))
    result = joined(mb, weighed(mb, query, key, value, _scale(node, sizes[0] // heads), masks), shape, sizes[2])
    if len(node.outputs) < 2 or node.outputs[1] is None:
        return [result]
    return [result, mb.stack(values=[key, value], axis=0)]


def _check_several(node: NodeSpec, graph: Constants) -> str | None:
    if has(node, 8) or has(node, 9):
        return _SHARED
    if len(node.outputs) > 3 and node.outputs[3] is not None:
        return "it gives its scores"
    if not has(node, 1) or not has(node, 2) or len(shape_of(node)) != 3:
        return "its queries, keys and values are packed"
    heads, shape, key = int(attribute(node, "num_heads", 1)), shape_of(node), shape_of(node, 1)
    for place in range(3):
        reason = _check_sizes(shape_of(node, place))
        if reason is not None:
            return reason
    if len(key) == 4 and key[1] != heads:
        return "the number of its heads, or their size, is not known"
    if has(node, 6) != has(node, 7):
        return "it has a cache of either keys or values"
    return _check_mask(node, 4, shape[0])


def _several_keys(node: NodeSpec) -> Any:
    new = shape_of(node, 1)[-2]
    return _sum(shape_of(node, 6)[2], new) if has(node, 6) else new


def _several(lowering: Lowering, node: NodeSpec) -> list[Var]:
    mb, shape, heads = lowering.mb, shape_of(node), int(attribute(node, "num_heads", 1))
    bias, done, parts = constant(node, lowering.graph, 3), 0, []
    for place in range(3):
        x, own = lowering.read(node.inputs[place]), shape_of(node, place)
        columns = own[-1] * (heads if len(own) == 4 else 1)
        if bias is not None and len(own) == 3:
            x = mb.add(x=x, y=np.ascontiguousarray(bias[done : done + columns], np.float32))
        done += columns
        parts.append(split_heads(mb, x, own, heads) if len(own) == 3 else x)
    query, key, value = parts[0], behind(lowering, node, 6, parts[1]), behind(lowering, node, 7, parts[2])
    keys = _several_keys(node)
    masks = _masks(lowering, node, keys, key, 4, 5)
    if attribute(node, "unidirectional", 0):
        past, before = (shape_of(node, 6)[2], lowering.read(node.inputs[6])) if has(node, 6) else (0, None)
        masks.append(causal(mb, shape[1], keys, query, key, past, before))
    result = weighed(mb, query, key, value, _scale(node, shape[2] // heads), masks)
    columns = shape_of(node, 2)[-1] * (heads if len(shape_of(node, 2)) == 4 else 1)
    return [joined(mb, result, shape, columns), key, value]


def _check_grouped(node: NodeSpec, graph: Constants) -> str | None:
    """Take the nodes whose lengths are constants, and say that all keys and values count."""
    lengths, total = constant(node, graph, 5), constant(node, graph, 6)
    if lengths is None or total is None:
        return "the lengths of its sequences come with each run, not with the model"
    if any(has(node, place) for place in (9, 11, 12, 13)):
        return "it has positions of its own, a sink, or a cache of fewer bits"
    if attribute(node, "local_window_size", -1) != -1 or attribute(node, "softcap", 0.0):
        return "it looks at a window of the keys, or limits its scores"
    if attribute(node, "smooth_softmax", 0) or (len(node.outputs) > 3 and node.outputs[3] is not None):
        return "its softmax function has another sum, or it gives its scores"
    shape, past = shape_of(node), shape_of(node, 3)[2] if has(node, 3) else 0
    if not all(isinstance(size, int) for size in (*shape[1:], past)) or len(shape) != 3:
        return "the lengths of its queries and its cache, or the size of its heads, are not known"
    keys = past + shape[1]
    if int(total.reshape(-1)[0]) != keys or np.any(lengths != keys - 1):
        return f"its sequences do not have all of the {keys} keys of its cache and its operands"
    if has(node, 3) != has(node, 4):
        return "it has a cache of either keys or values"
    if has(node, 10) and shape_of(node, 10)[-1] != keys:
        return "its mask has another length than the keys"
    return None


def _grouped(lowering: Lowering, node: NodeSpec) -> list[Var]:
    mb, shape = lowering.mb, shape_of(node)
    heads, groups = int(attribute(node, "num_heads", 1)), int(attribute(node, "kv_num_heads", 1))
    if has(node, 1):
        size = shape[2] // heads
        parts = [lowering.read(node.inputs[place]) for place in range(3)]
    else:
        size = shape[2] // (heads + 2 * groups)
        parts = mb.split(x=lowering.read(node.inputs[0]), split_sizes=[heads * size, *[groups * size] * 2], axis=2)
    query, key, value = (
        split_heads(mb, x, (*shape[:2], count * size), count)
        for x, count in zip(parts, (heads, groups, groups), strict=True)
    )
    past = shape_of(node, 3)[2] if has(node, 3) else 0
    keys = past + shape[1]
    if attribute(node, "do_rotary", 0):
        query, key = _turned(lowering, node, query, past, size), _turned(lowering, node, key, past, size)
    presents = behind(lowering, node, 3, key), behind(lowering, node, 4, value)
    key, value = (repeated(mb, x, (shape[0], keys, groups * size), keys, groups, heads // groups) for x in presents)
    masks = _masks(lowering, node, keys, key, len(node.inputs), 10)
    masks.append(causal(mb, shape[1], keys, query, key, past, None))
    result = weighed(mb, query, key, value, _scale(node, size), masks)
    return [joined(mb, result, shape, heads * size), *presents]


def _turned(lowering: Lowering, node: NodeSpec, x: Var, past: int, size: int) -> Var:
    """Turn heads by the angles of the places behind the cache."""
    mb, rows = lowering.mb, np.arange(past, past + shape_of(node)[1], dtype=np.int32)
    tables = [mb.gather(x=lowering.read(node.inputs[place]), indices=rows, axis=0) for place in (7, 8)]
    half = shape_of(node, 7)[-1]
    cosines, sines = (mb.expand_dims(x=table, axes=[0, 1]) for table in tables)
    return turned(mb, x, cosines, sines, half, size, interleaved=bool(attribute(node, "rotary_interleaved", 0)))


_KINDS = FLOATS | {DataType.INT32}
OPERATORS = {
    "Attention": Operator(_self, _check_self, heavy=True, kinds=_KINDS, few_axes=True),
    "GroupQueryAttention": Operator(_grouped, _check_grouped, heavy=True, kinds=_KINDS, few_axes=True),
    "MultiHeadAttention": Operator(_several, _check_several, frozenset({3}), heavy=True, kinds=_KINDS, few_axes=True),
}
