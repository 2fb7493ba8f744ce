"""Normalisations, and the softmax functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ort_py.contracts import NodeSpec
from ort_py_coreml.operators.extents import SizeOf, reshaped, size_at
from ort_py_coreml.operators.operator import (
    Constants,
    Lower,
    Operator,
    Var,
    attribute,
    constant,
    shape_of,
    sizes,
)

if TYPE_CHECKING:
    from ort_py_coreml.lowering import Lowering

__all__ = ["OPERATORS"]


def _axis(node: NodeSpec, default: int = -1) -> int:
    return int(attribute(node, "axis", default)) % len(shape_of(node))


def _check_softmax(node: NodeSpec, graph: Constants) -> str | None:
    return None if shape_of(node) else "its data has no axes"


def _of_rows(function: Callable[[Any, Var, int], Var]) -> Lower:
    """Return the lowering of a softmax function. Before version 13, all axes from one on are one axis."""

    def lower(lowering: Lowering, node: NodeSpec) -> Var:
        mb, x, shape = lowering.mb, lowering.read(node.inputs[0]), shape_of(node)
        if node.since_version >= 13:
            return function(mb, x, _axis(node))
        axis = _axis(node, 1)
        if axis == len(shape) - 1:
            return function(mb, x, axis)
        before, behind = (
            math.prod(part) if all(isinstance(size, int) for size in part) else SizeOf(tuple(range(first, behind)))
            for part, first, behind in ((shape[:axis], 0, axis), (shape[axis:], axis, len(shape)))
        )
        found = function(mb, reshaped(mb, x, [before, behind]), 1)
        return mb.reshape(x=found, shape=shape if sizes(node) is not None else mb.shape(x=x))

    return lower


def _softmax(mb: Any, x: Var, axis: int) -> Var:
    return mb.softmax(x=x, axis=axis)


def _log_softmax(mb: Any, x: Var, axis: int) -> Var:
    """Subtract the largest element first: what is left of infinity is NaN then, in the sum too."""
    axes = [axis]
    below = mb.sub(x=x, y=mb.reduce_max(x=x, axes=axes, keep_dims=True))
    return mb.sub(x=below, y=mb.reduce_log_sum_exp(x=below, axes=axes, keep_dims=True))


def _numbers(node: NodeSpec, lowering: Lowering, place: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    found = constant(node, lowering.graph, place)
    assert found is not None, "the table says which inputs are constants"
    return np.ascontiguousarray(found, np.float32)


def _check_batch(node: NodeSpec, graph: Constants) -> str | None:
    if attribute(node, "training_mode", 0):
        return "it is in training mode"
    if any(value is not None for value in node.outputs[1:]):
        return "it has more than one output"
    if not 3 <= len(shape_of(node)) <= 5:
        return "its data has no axis behind the channels"
    return None


def _batch(lowering: Lowering, node: NodeSpec) -> Var:
    scale, bias, mean, variance = (_numbers(node, lowering, place) for place in range(1, 5))
    return lowering.mb.batch_norm(
        x=lowering.read(node.inputs[0]),
        mean=mean,
        variance=variance,
        gamma=scale,
        beta=bias,
        epsilon=np.float32(attribute(node, "epsilon", 1e-5)),
    )


def _check_group(node: NodeSpec, graph: Constants) -> str | None:
    known = isinstance((*shape_of(node), None, None)[1], int)
    return None if known else "it has no channels, or their number is not known"


def _group(lowering: Lowering, node: NodeSpec) -> Var:
    """Normalise each group as one axis. Before version 21, there is one scale for each group."""
    mb, x, shape = lowering.mb, lowering.read(node.inputs[0]), shape_of(node)
    groups = int(attribute(node, "num_groups", 1))
    behind = shape[2:]
    count = shape[1] // groups
    each = count * math.prod(behind) if all(isinstance(size, int) for size in behind) else -1
    first: list[int | SizeOf] = [size_at(shape, 0, 0), groups, each]
    found = mb.layer_norm(x=reshaped(mb, x, first), axes=[2], epsilon=np.float32(attribute(node, "epsilon", 1e-5)))
    if all(isinstance(size, int) for size in shape[1:]):
        found = mb.reshape(x=found, shape=[-1, *shape[1:]])
    else:
        found = mb.reshape(x=found, shape=mb.shape(x=x))
    scale, bias = (_numbers(node, lowering, place) for place in (1, 2))
    if node.since_version < 21:
        scale, bias = np.repeat(scale, count), np.repeat(bias, count)
    wide = (-1, *(1,) * len(behind))
    return mb.add(x=mb.mul(x=found, y=scale.reshape(wide)), y=bias.reshape(wide))


def _check_instance(node: NodeSpec, graph: Constants) -> str | None:
    return None if 3 <= len(shape_of(node)) <= 4 else "its data has neither one nor two axes behind the channels"


def _instance(lowering: Lowering, node: NodeSpec) -> Var:
    return lowering.mb.instance_norm(
        x=lowering.read(node.inputs[0]),
        gamma=_numbers(node, lowering, 1),
        beta=_numbers(node, lowering, 2),
        epsilon=np.float32(attribute(node, "epsilon", 1e-5)),
    )


def _check_layer(node: NodeSpec, graph: Constants) -> str | None:
    if any(value is not None for value in node.outputs[1:]):
        return "it has more than one output"
    last = shape_of(node)[_axis(node) :]
    for place in range(1, len(node.inputs)):
        found = constant(node, graph, place)
        if found is not None and found.shape != last:
            return f"input {place} does not have the sizes of the axes that are normalised"
    return None


def _layer(lowering: Lowering, node: NodeSpec) -> Var:
    axes = list(range(_axis(node), len(shape_of(node))))
    given = {"gamma": _numbers(node, lowering, 1)}
    if len(node.inputs) > 2 and node.inputs[2] is not None:
        given["beta"] = _numbers(node, lowering, 2)
    else:
        given["beta"] = np.zeros_like(given["gamma"])
    epsilon = np.float32(attribute(node, "epsilon", 1e-5))
    return lowering.mb.layer_norm(x=lowering.read(node.inputs[0]), axes=axes, epsilon=epsilon, **given)


def _rms(lowering: Lowering, node: NodeSpec) -> Var:
    mb, x = lowering.mb, lowering.read(node.inputs[0])
    axes = list(range(_axis(node), len(shape_of(node))))
    mean = mb.reduce_mean(x=mb.mul(x=x, y=x), axes=axes, keep_dims=True)
    root = mb.rsqrt(x=mean, epsilon=np.float32(attribute(node, "epsilon", 1e-5)))
    return mb.mul(x=mb.mul(x=x, y=root), y=lowering.read(node.inputs[1]))


def _check_simplified(node: NodeSpec, graph: Constants) -> str | None:
    return "it has more than one output" if any(value is not None for value in node.outputs[1:]) else None


def _check_response(node: NodeSpec, graph: Constants) -> str | None:
    if int(attribute(node, "size", 1)) % 2 == 0:
        return "its size is even"
    return None if len(shape_of(node)) >= 3 else "its data has no axis behind the channels"


def _response(lowering: Lowering, node: NodeSpec) -> Var:
    return lowering.mb.local_response_norm(
        x=lowering.read(node.inputs[0]),
        size=int(attribute(node, "size", 1)),
        alpha=np.float32(attribute(node, "alpha", 1e-4)),
        beta=np.float32(attribute(node, "beta", 0.75)),
        k=np.float32(attribute(node, "bias", 1.0)),
    )


OPERATORS = {
    "BatchNormalization": Operator(_batch, _check_batch, frozenset({1, 2, 3, 4}), since=9),
    "GroupNormalization": Operator(_group, _check_group, frozenset({1, 2}), since=18),
    "InstanceNormalization": Operator(_instance, _check_instance, frozenset({1, 2})),
    "LRN": Operator(_response, _check_response),
    "LayerNormalization": Operator(_layer, _check_layer, frozenset({1, 2})),
    "LogSoftmax": Operator(_of_rows(_log_softmax), _check_softmax),
    "RMSNormalization": Operator(_rms),
    "SimplifiedLayerNormalization": Operator(_rms, _check_simplified),
    "Softmax": Operator(_of_rows(_softmax), _check_softmax),
}
