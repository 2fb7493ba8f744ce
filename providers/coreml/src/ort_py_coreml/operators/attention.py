"""Attention, by the products, sums and softmax functions that it consists of.

MIL has a function for it from macOS 15 on, which takes no scale. Core ML finds the parts that it computes together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ort_py.contracts import NodeSpec
from ort_py.dtypes import DataType
from ort_py_coreml.operators.operator import FLOATS, Constants, Operator, Var, attribute, kind_of, shape_of

if TYPE_CHECKING:
    from ort_py_coreml.lowering import Lowering

__all__ = ["OPERATORS", "joined", "split_heads", "weighed"]

_LOWEST = np.float32(-3e38)
"""Stands for the score of a place that is not looked at. It is finite: a row of such scores has a softmax function."""


def _has(node: NodeSpec, place: int) -> bool:
    return place < len(node.inputs) and node.inputs[place] is not None


def _heads(node: NodeSpec, place: int) -> int:
    """Return the number of heads of the query (0), the key (1) or the value (2)."""
    shape = shape_of(node, place)
    count = shape[1] if len(shape) == 4 else attribute(node, "kv_num_heads" if place else "q_num_heads", 0)
    return int(count) if isinstance(count, int) else 0


def _length(node: NodeSpec, place: int) -> Any:
    return shape_of(node, place)[-2]


def _check(node: NodeSpec, graph: Constants) -> str | None:
    if any(_has(node, place) for place in (4, 5, 6)) or any(value is not None for value in node.outputs[1:]):
        return "it has a cache, or gives its scores"
    if attribute(node, "softmax_precision", 0) not in (0, int(DataType.FLOAT)):
        return "its softmax function has another precision"
    for place in range(3):
        shape = shape_of(node, place)
        if not isinstance(shape[-1], int) or not _heads(node, place):
            return "the number of its heads, or their size, is not known"
    if attribute(node, "softcap", 0.0) and (_has(node, 3) or attribute(node, "is_causal", 0)):
        return "it limits scores and masks them"
    if attribute(node, "is_causal", 0) and not all(isinstance(_length(node, place), int) for place in (0, 1)):
        return "its causal mask depends on lengths that are not known"
    if _has(node, 3) and shape_of(node, 3)[-1:] != (_length(node, 1),):
        return "its mask has another length than the keys"
    return None


def _outer(shape: tuple[Any, ...]) -> tuple[int, int] | None:
    """Return the size of the batch and the length of a sequence, of which one is -1; None if neither is known."""
    if isinstance(shape[-2], int):
        return -1, shape[-2]
    return (shape[0], -1) if isinstance(shape[0], int) else None


def _cut(mb: Any, x: Var, sizes: list[int], axis: int) -> list[Var]:
    return [x] if len(sizes) == 1 else list(mb.split(x=x, split_sizes=sizes, axis=axis))


def _together(mb: Any, parts: list[Var], axis: int) -> Var:
    return parts[0] if len(parts) == 1 else mb.concat(values=parts, axis=axis)


def split_heads(mb: Any, x: Var, shape: tuple[Any, ...], heads: int) -> Var:
    """Return an operand of three axes with an axis of heads in front of its sequences.

    A new shape may have one size that follows from the others: if two are not known, heads are cut apart.
    """
    size, outer = shape[-1] // heads, _outer(shape)
    if outer is None:
        return _together(mb, [mb.expand_dims(x=part, axes=[1]) for part in _cut(mb, x, [size] * heads, 2)], 1)
    return mb.transpose(x=mb.reshape(x=x, shape=[*outer, heads, size]), perm=[0, 2, 1, 3])


def joined(mb: Any, x: Var, shape: tuple[Any, ...], heads: int, columns: int) -> Var:
    """Return a result without its axis of heads; `shape` is that of the queries."""
    outer = _outer(shape)
    if outer is None:
        return _together(mb, [mb.squeeze(x=part, axes=[1]) for part in _cut(mb, x, [1] * heads, 1)], 2)
    return mb.reshape(x=mb.transpose(x=x, perm=[0, 2, 1, 3]), shape=[*outer, columns])


def _repeated(mb: Any, x: Var, shape: tuple[Any, ...], heads: int, times: int) -> Var:
    """Return heads of keys or values, each as often as queries share it."""
    outer = _outer(shape)
    if outer is None:
        return _together(mb, [part for part in _cut(mb, x, [1] * heads, 1) for _ in range(times)], 1)
    size = shape[-1] if len(shape) == 4 else shape[-1] // heads
    more = mb.tile(x=mb.expand_dims(x=x, axes=[2]), reps=[1, 1, times, 1, 1])
    return mb.reshape(x=more, shape=[outer[0], heads * times, outer[1], size])


def weighed(mb: Any, query: Var, key: Var, value: Var, scale: float, masks: list[Var], limit: float = 0.0) -> Var:
    """Return values, weighed by the softmax function of the products of queries and keys."""
    scores = mb.matmul(x=mb.mul(x=query, y=np.float32(scale)), y=key, transpose_y=True)
    if limit:
        scores = mb.mul(x=mb.tanh(x=mb.mul(x=scores, y=np.float32(1 / limit))), y=np.float32(limit))
    weights = _masked(mb, scores, masks) if masks else mb.softmax(x=scores, axis=-1)
    return mb.matmul(x=weights, y=value)


def _apart(lowering: Lowering, node: NodeSpec, place: int) -> Var:
    """Return an operand with an axis of heads, as many as the query has."""
    mb, x, shape, heads = lowering.mb, lowering.read(node.inputs[place]), shape_of(node, place), _heads(node, place)
    if len(shape) == 3:
        x = split_heads(mb, x, shape, heads)
    times = _heads(node, 0) // heads
    return x if times == 1 else _repeated(mb, x, shape, heads, times)


def _attention(lowering: Lowering, node: NodeSpec) -> Var:
    mb = lowering.mb
    query, key, value = (_apart(lowering, node, place) for place in range(3))
    shape = shape_of(node)
    size = shape[-1] if len(shape) == 4 else shape[-1] // _heads(node, 0)
    scale, limit = attribute(node, "scale", None), float(attribute(node, "softcap", 0.0))
    scale = size**-0.5 if scale is None else scale
    result = weighed(mb, query, key, value, scale, _masks(lowering, node), limit)
    if len(shape) == 4:
        return result
    heads = _heads(node, 0)
    return joined(mb, result, shape, heads, shape_of(node, 2)[-1] // _heads(node, 2) * heads)


def _masks(lowering: Lowering, node: NodeSpec) -> list[Var]:
    """Return what is added to the scores: minus infinity for places that are not looked at."""
    found: list[Var] = []
    if attribute(node, "is_causal", 0):
        seen = np.tri(_length(node, 0), _length(node, 1), dtype=np.bool_)
        found.append(np.where(seen, np.float32(0), np.float32(-np.inf)))
    if _has(node, 3):
        mask, mb = lowering.read(node.inputs[3]), lowering.mb
        chooses = kind_of(node, 3) is DataType.BOOL
        found.append(mb.log(x=mb.cast(x=mask, dtype="fp32"), epsilon=np.float32(0)) if chooses else mask)
    return found


def _masked(mb: Any, scores: Var, masks: list[Var]) -> Var:
    """Return the weights of places that masks leave; those of a row that looks at nothing are zero."""
    for mask in masks:
        scores = mb.add(x=scores, y=mask)
    most = mb.reduce_max(x=scores, axes=[-1], keep_dims=True)
    looks = mb.cast(x=mb.not_equal(x=most, y=np.float32(-np.inf)), dtype="fp32")
    return mb.mul(x=mb.softmax(x=mb.maximum(x=scores, y=_LOWEST), axis=-1), y=looks)


OPERATORS = {"Attention": Operator(_attention, _check, heavy=True, since=23, kinds=FLOATS | {DataType.BOOL})}
