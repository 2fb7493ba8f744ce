"""The post transforms of ai.onnx.ml: what becomes of rows of scores before they are returned.

Used by linear models, trees and support vector machines. It is independent of operators; the pairs of scores that a
binary decision makes of a single one are the classifiers' own business.
"""

from __future__ import annotations

from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.errors import InvalidArgument, Location

__all__ = ["POST_TRANSFORMS", "check_post_transform", "logistic", "probit", "transformed"]

POST_TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
"""In the order of the numbers that TreeEnsemble 5 gives them."""

_TINY = 1e-7  # SOFTMAX_ZERO takes scores up to this size for zeros, as runtimes do


def check_post_transform(name: str, where: Location) -> str:
    """`name` itself.

    Raises:
        InvalidArgument: There is no such transform.
    """
    if name not in POST_TRANSFORMS:
        raise InvalidArgument(
            f"post_transform is '{name}'.", where=where, fix="Use NONE, SOFTMAX, LOGISTIC, SOFTMAX_ZERO or PROBIT."
        )
    return name


def transformed(xp: Any, scores: Array, post_transform: str) -> Array:
    """Rows of scores, transformed; float32 or float64 of the same shape. NONE returns `scores` itself."""
    if post_transform == "LOGISTIC":
        return logistic(xp, scores)
    if post_transform == "SOFTMAX":
        return _softmax(xp, scores)
    if post_transform == "SOFTMAX_ZERO":
        return _softmax_zero(xp, scores)
    if post_transform == "PROBIT":
        return probit(xp, scores)
    return scores


def logistic(xp: Any, x: Array) -> Array:
    """1 / (1 + exp(-x)), of an exponential that never overflows."""
    e = xp.exp(-xp.abs(x))
    return xp.where(x < 0, e, 1) / (1 + e)


def probit(xp: Any, x: Array) -> Array:
    """Inverse of the normal distribution, by the approximation of the inverse error function that runtimes use."""
    x = 2 * x - 1
    log = xp.log((1 - x) * (1 + x))
    v = 2 / (3.14159 * 0.147) + 0.5 * log
    return 1.41421356 * xp.sign(x) * xp.sqrt(xp.sqrt(v * v - log / 0.147) - v)


def _softmax(xp: Any, scores: Array) -> Array:
    if scores.size == 0:
        return scores
    e = xp.exp(scores - xp.max(scores, axis=1, keepdims=True))
    return e / xp.sum(e, axis=1, keepdims=True)


def _softmax_zero(xp: Any, scores: Array) -> Array:
    """Softmax of what is not zero; zeros stay, and a row of zeros too (runtimes make NaN or halves of it)."""
    if scores.size == 0:
        return scores
    zero = xp.abs(scores) <= _TINY
    e = xp.where(zero, 0, xp.exp(scores - xp.max(scores, axis=1, keepdims=True)))
    total = xp.sum(e, axis=1, keepdims=True)
    return (e / xp.where(total == 0, 1, total)).astype(scores.dtype, copy=False)
