"""Attention, by the products, sums and softmax functions that it consists of.

MIL has a function for it from macOS 15 on, which takes no scale. Core ML finds the parts that it computes together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ort_py.contracts import NodeSpec
from ort_py.dtypes import DataType
from ort_py_coreml.operators.extents import counted_up, length_of, reshaped, size_at
from ort_py_coreml.operators.operator import FLOATS, Constants, Operator, Var, attribute, has, kind_of, shape_of

if TYPE_CHECKING:
    from ort_py_coreml.lowering import Lowering

__all__ = ["OPERATORS", "behind", "causal", "joined", "repeated", "split_heads", "weighed"]

_MASK, _PAST_KEY, _PAST_VALUE, _LENGTHS = 3, 4, 5, 6


def _heads(node: NodeSpec, place: int) -> int:
    """Return the number of heads of the query (0), the key (1) or the value (2)."""
    shape = shape_of(node, place)
    count = shape[1] if len(shape) == 4 else attribute(node, "kv_num_heads" if place else "q_num_heads", 0)
    return int(count) if isinstance(count, int) else 0


def _length(node: NodeSpec, place: int) -> Any:
    return shape_of(node, place)[-2]


def _keys(node: NodeSpec) -> Any:
    """Return the number of keys, those of a cache among them; None if it is not known."""
    new = _length(node, 1)
    if not has(node, _PAST_KEY):
        return new
    past = shape_of(node, _PAST_KEY)[2]
    return past + new if isinstance(past, int) and isinstance(new, int) else None


def _check(node: NodeSpec, graph: Constants) -> str | None:
    if has(node, _LENGTHS):
        return "it counts the keys of each sequence, of which there are others in each run"
    if len(node.outputs) > 3 and node.outputs[3] is not None:
        return "it gives its scores"
    if has(node, _PAST_KEY) != has(node, _PAST_VALUE):
        return "it has a cache of either keys or values"
    if any(attribute(node, name, -1) >= 0 for name in ("left_window_size", "right_window_size")):
        return "it looks at a window of the keys"
    if attribute(node, "softmax_precision", 0) not in (0, int(DataType.FLOAT)):
        return "its softmax function has another precision"
    for place in range(3):
        shape = shape_of(node, place)
        if not isinstance(shape[-1], int) or not _heads(node, place):
            return "the number of its heads, or their size, is not known"
    if attribute(node, "softcap", 0.0) and (has(node, _MASK) or attribute(node, "is_causal", 0)):
        return "it limits scores and masks them, in an order that versions of ONNX have changed"
    return _check_mask(node) if has(node, _MASK) else None


def _check_mask(node: NodeSpec) -> str | None:
    keys, width = _keys(node), shape_of(node, _MASK)[-1]
    if width is not None and width == keys:
        return None
    if isinstance(keys, int) and isinstance(width, int):
        return "its mask has another length than the keys"
    return "its mask may be shorter than the keys, which version 24 allows" if node.since_version > 23 else None


def split_heads(mb: Any, x: Var, shape: tuple[Any, ...], heads: int) -> Var:
    """Return an operand of three axes with an axis of heads in front of its sequences."""
    target = [size_at(shape, 0, 0), size_at(shape, 1, 1), heads, shape[-1] // heads]
    return mb.transpose(x=reshaped(mb, x, target), perm=[0, 2, 1, 3])


def joined(mb: Any, x: Var, shape: tuple[Any, ...], columns: int) -> Var:
    """Return a result without its axis of heads; `shape` is that of the queries."""
    x = mb.transpose(x=x, perm=[0, 2, 1, 3])
    return reshaped(mb, x, [size_at(shape, 0, 0), size_at(shape, 1, 1), columns])


def repeated(mb: Any, x: Var, shape: tuple[Any, ...], length: Any, heads: int, times: int) -> Var:
    """Return heads of keys or values, each as often as queries share it.

    Args:
        mb: Has the functions of MIL as members.
        x: The heads, behind those of a cache.
        shape: The shape of the node's operand.
        length: The number of keys; no integer if it is not known.
        heads: The number of heads.
        times: The number of queries that share one.
    """
    if times == 1:
        return x
    size = shape[-1] if len(shape) == 4 else shape[-1] // heads
    more = mb.tile(x=mb.expand_dims(x=x, axes=[2]), reps=[1, 1, times, 1, 1])
    return reshaped(mb, more, [size_at(shape, 0, 0), heads * times, size_at((length,), 0, 3), size])


def weighed(mb: Any, query: Var, key: Var, value: Var, scale: float, masks: list[Var], limit: float = 0.0) -> Var:
    """Return values, weighed by the softmax function of the products of queries and keys."""
    scores = mb.matmul(x=mb.mul(x=query, y=np.float32(scale)), y=key, transpose_y=True)
    if limit:
        scores = mb.mul(x=mb.tanh(x=mb.mul(x=scores, y=np.float32(1 / limit))), y=np.float32(limit))
    weights = _masked(mb, scores, masks) if masks else mb.softmax(x=scores, axis=-1)
    return mb.matmul(x=weights, y=value)


def behind(lowering: Lowering, node: NodeSpec, place: int, x: Var) -> Var:
    """Return keys or values with those of a cache before them, if there is one."""
    if not has(node, place):
        return x
    return lowering.mb.concat(values=[lowering.read(node.inputs[place]), x], axis=2)


def causal(mb: Any, rows: Any, keys: Any, query: Var, key: Var, past: Any, before: Var | None) -> Var:
    """Return what keeps queries from keys that come after them: minus infinity, and zero elsewhere.

    Args:
        mb: Has the functions of MIL as members.
        rows: Length of the queries; no integer if it is not known.
        keys: The same of the keys.
        query: The queries, with an axis of heads.
        key: The keys.
        past: The number of keys that come before the first query, likewise.
        before: Those keys; None if there are none.
    """
    if all(isinstance(count, int) for count in (rows, keys, past)):
        return np.where(np.tri(rows, keys, past, dtype=np.bool_), np.float32(0), np.float32(-np.inf))
    places, others = counted_up(mb, rows, query, 2), counted_up(mb, keys, key, 2)
    if before is not None:
        places = mb.add(x=places, y=np.int32(past) if isinstance(past, int) else length_of(mb, before, 2))
    seen = mb.less_equal(x=mb.expand_dims(x=others, axes=[0]), y=mb.expand_dims(x=places, axes=[1]))
    return mb.log(x=mb.cast(x=seen, dtype="fp32"), epsilon=np.float32(0))


def _apart(lowering: Lowering, node: NodeSpec, place: int) -> Var:
    """Return an operand with an axis of heads."""
    mb, x, shape = lowering.mb, lowering.read(node.inputs[place]), shape_of(node, place)
    return split_heads(mb, x, shape, _heads(node, place)) if len(shape) == 3 else x


def _attention(lowering: Lowering, node: NodeSpec) -> list[Var]:
    mb, heads, shape = lowering.mb, _heads(node, 0), shape_of(node)
    query = _apart(lowering, node, 0)
    presents = [
        behind(lowering, node, past, _apart(lowering, node, place))
        for place, past in ((1, _PAST_KEY), (2, _PAST_VALUE))
    ]
    size = shape[-1] if len(shape) == 4 else shape[-1] // heads
    scale, limit = attribute(node, "scale", None), float(attribute(node, "softcap", 0.0))
    key, value = (
        repeated(mb, x, shape_of(node, place), _keys(node), _heads(node, place), heads // _heads(node, place))
        for place, x in enumerate(presents, 1)
    )
    masks = _masks(lowering, node, query, key)
    result = weighed(mb, query, key, value, size**-0.5 if scale is None else scale, masks, limit)
    if len(shape) == 3:
        own = shape_of(node, 2)
        columns = own[-1] * heads if len(own) == 4 else own[-1] // _heads(node, 2) * heads
        result = joined(mb, result, shape, columns)
    return [result, *presents]


def _masks(lowering: Lowering, node: NodeSpec, query: Var, key: Var) -> list[Var]:
    """Return what is added to the scores: minus infinity for places that are not looked at."""
    mb, found = lowering.mb, []
    if attribute(node, "is_causal", 0):
        past = shape_of(node, _PAST_KEY)[2] if has(node, _PAST_KEY) else 0
        before = lowering.read(node.inputs[_PAST_KEY]) if has(node, _PAST_KEY) else None
        found.append(causal(mb, _length(node, 0), _keys(node), query, key, past, before))
    if has(node, _MASK):
        mask = lowering.read(node.inputs[_MASK])
        chooses = kind_of(node, _MASK) is DataType.BOOL
        found.append(mb.log(x=mb.cast(x=mask, dtype="fp32"), epsilon=np.float32(0)) if chooses else mask)
    return found


def _masked(mb: Any, scores: Var, masks: list[Var]) -> Var:
    """Return the weights of places that masks leave; those of a row that looks at nothing are zero.

    The scores of such a row, which are minus infinity, become zero before: its softmax function would be NaN.
    """
    for mask in masks:
        scores = mb.add(x=scores, y=mask)
    most = mb.reduce_max(x=scores, axes=[-1], keep_dims=True)
    looks = mb.cast(x=mb.not_equal(x=most, y=np.float32(-np.inf)), dtype="fp32")
    least = mb.log(x=mb.sub(x=np.float32(1), y=looks), epsilon=np.float32(0))
    return mb.mul(x=mb.softmax(x=mb.maximum(x=scores, y=least), axis=-1), y=looks)


OPERATORS = {
    "Attention": Operator(_attention, _check, heavy=True, since=23, kinds=FLOATS | {DataType.BOOL}, few_axes=True)
}
