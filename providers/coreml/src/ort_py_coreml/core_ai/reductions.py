"""Functions that look at all elements of an axis: reductions, normalisations, sorting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import coreai.authoring as ai
import numpy as np

from ort_py_coreml.core_ai.movement import slice_by_size
from ort_py_coreml.core_ai.values import Var, is_float, known, numbers, shape_of, without_axes

__all__ = ["FUNCTIONS"]

_ZERO = np.float32(0)


def _square(x: Var) -> Var:
    return ai.broadcasting_mul(x, x)


def _sum(x: Var, axes: Var) -> Var:
    return ai.reduce_sum(x, axes)


def _log_sum_exp(x: Var, axes: Var) -> Var:
    """Take the largest element out of the sum first, unless it is infinite."""
    most = ai.reduce_max(x, axes)
    most = ai.broadcasting_where(ai.broadcasting_equal(ai.abs_(most), np.float32(np.inf)), _ZERO, most)
    return ai.broadcasting_add(most, ai.log(ai.reduce_sum(ai.exp(ai.broadcasting_sub(x, most)), axes)))


def _reduction(function: Callable[[Var, Var], Var]) -> Callable[..., Var]:
    """Return the form of MIL of a reduction that keeps its axes."""

    def reduce(x: Var, axes: Sequence[int], keep_dims: bool) -> Var:
        places = sorted(axis % len(shape_of(x)) for axis in axes)
        found = function(x, numbers(*places))
        return found if keep_dims else without_axes(found, places)

    return reduce


def _index(x: Var, axis: int, keep_dims: bool) -> Var:
    found = ai.cast(ai.argmax(x, np.int32(axis)), np.int32)
    return found if keep_dims else without_axes(found, [axis])


def _argmin(x: Var, axis: int, keep_dims: bool) -> Var:
    """Find the largest element of the opposite ones; the smallest integer has no negative."""
    turned = ai.broadcasting_mul(x, np.float32(-1)) if is_float(x) else ai.broadcasting_bitwise_xor(x, np.int32(-1))
    return _index(turned, axis, keep_dims)


def _topk(x: Var, k: int, axis: int, ascending: bool) -> list[Var]:
    order = ai.argsort(x, np.int32(axis), np.bool_(not ascending), np.bool_(True))
    rank = len(shape_of(x))
    first = slice_by_size(order, [0] * rank, [k if place == axis else -1 for place in range(rank)])
    found = ai.cast(first, np.int32)
    return [ai.gather_along_axis(x, found, np.int32(axis)), found]


def _softmax(x: Var, axis: int) -> Var:
    return ai.softmax(x, np.int32(axis % len(shape_of(x))))


def _scaled(x: Var, scale: Any, bias: Any, axis: int) -> Var:
    """Multiply each place of an axis by its scale, and add its bias."""
    shape = [-1 if place == axis else 1 for place in range(len(shape_of(x)))]
    return ai.broadcasting_add(ai.broadcasting_mul(x, scale.reshape(shape)), bias.reshape(shape))


def _batch_norm(x: Var, mean: Any, variance: Any, gamma: Any, beta: Any, epsilon: Any) -> Var:
    scale = gamma / np.sqrt(variance + epsilon)
    return _scaled(x, scale, beta - mean * scale, 1)


def _normalized(x: Var, axes: list[int], epsilon: Any) -> Var:
    away = ai.broadcasting_sub(x, ai.reduce_mean(x, numbers(*axes)))
    variance = ai.reduce_mean(_square(away), numbers(*axes))
    return ai.broadcasting_divide(away, ai.sqrt(ai.broadcasting_add(variance, epsilon)))


def _instance_norm(x: Var, gamma: Any, beta: Any, epsilon: Any) -> Var:
    return _scaled(_normalized(x, list(range(2, len(shape_of(x)))), epsilon), gamma, beta, 1)


def _layer_norm(x: Var, axes: list[int], epsilon: Any, gamma: Any = None, beta: Any = None) -> Var:
    found = _normalized(x, axes, epsilon)
    return found if gamma is None else ai.broadcasting_add(ai.broadcasting_mul(found, gamma), beta)


def _local_response_norm(x: Var, size: int, alpha: Any, beta: Any, k: Any) -> Var:
    """Add the squares of the neighbours along the channels."""
    (channels,), rank = known(shape_of(x)[1:2]), len(shape_of(x))
    padded = ai.pad(_square(x), np.array([0, 0, size // 2, size // 2] + [0] * 2 * (rank - 2), np.uint32), _ZERO)
    whole = [-1] * (rank - 2)
    parts = [slice_by_size(padded, [0, first] + [0] * (rank - 2), [-1, channels, *whole]) for first in range(size)]
    total = parts[0]
    for part in parts[1:]:
        total = ai.broadcasting_add(total, part)
    base = ai.broadcasting_add(ai.broadcasting_mul(total, np.float32(alpha / size)), k)
    return ai.broadcasting_divide(x, ai.broadcasting_pow(base, beta))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "batch_norm": _batch_norm,
    "instance_norm": _instance_norm,
    "layer_norm": _layer_norm,
    "local_response_norm": _local_response_norm,
    "reduce_argmax": _index,
    "reduce_argmin": _argmin,
    "reduce_l1_norm": _reduction(lambda x, axes: _sum(ai.abs_(x), axes)),
    "reduce_l2_norm": _reduction(lambda x, axes: ai.sqrt(_sum(_square(x), axes))),
    "reduce_log_sum": _reduction(lambda x, axes: ai.log(_sum(x, axes))),
    "reduce_log_sum_exp": _reduction(_log_sum_exp),
    "reduce_max": _reduction(ai.reduce_max),
    "reduce_mean": _reduction(ai.reduce_mean),
    "reduce_min": _reduction(ai.reduce_min),
    "reduce_prod": _reduction(ai.reduce_product),
    "reduce_sum": _reduction(_sum),
    "reduce_sum_square": _reduction(lambda x, axes: _sum(_square(x), axes)),
    "softmax": _softmax,
    "topk": _topk,
}
"""Functions of MIL by name."""
