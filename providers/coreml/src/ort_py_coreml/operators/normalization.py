"""Normalisations, and the softmax functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ort_py.contracts import NodeSpec
from ort_py_coreml.operators.operator import Constants, Operator, Var, attribute, constant, shape_of

if TYPE_CHECKING:
    from ort_py_coreml.lowering import Lowering

__all__ = ["OPERATORS"]


def _axis(node: NodeSpec) -> int:
    return int(attribute(node, "axis", -1)) % len(shape_of(node))


def _softmax(lowering: Lowering, node: NodeSpec) -> Var:
    return lowering.mb.softmax(x=lowering.read(node.inputs[0]), axis=_axis(node))


def _log_softmax(lowering: Lowering, node: NodeSpec) -> Var:
    """Subtract the largest element first: what is left of infinity is NaN then, in the sum too."""
    mb, x, axes = lowering.mb, lowering.read(node.inputs[0]), [_axis(node)]
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
    "InstanceNormalization": Operator(_instance, _check_instance, frozenset({1, 2})),
    "LRN": Operator(_response, _check_response),
    "LayerNormalization": Operator(_layer, _check_layer, frozenset({1, 2})),
    "LogSoftmax": Operator(_log_softmax, since=13),
    "RMSNormalization": Operator(_rms),
    "SimplifiedLayerNormalization": Operator(_rms, _check_simplified),
    "Softmax": Operator(_softmax, since=13),
}
