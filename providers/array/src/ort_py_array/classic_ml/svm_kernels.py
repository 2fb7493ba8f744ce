"""The kernels of support vector machines: how alike rows and support vectors are, as one matrix product a block.

Comes before `svm`; knows neither classes nor coefficients.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ort_py.contracts.graph_view import Array, NodeSpec
from ort_py.errors import InvalidArgument

__all__ = ["kernel_function"]


def kernel_function(xp: Any, node: NodeSpec, vectors: Array) -> Callable[[Array], Array]:
    """``f(rows)`` → ``(rows, vectors)`` in float32, for the node's `kernel_type` and `kernel_params`.

    Args:
        xp: Array module.
        node: An SVMClassifier or SVMRegressor.
        vectors: Support vectors ``(vectors, features)``, float32, on the host.

    Raises:
        InvalidArgument: There is no such kernel, or its parameters are not three.
    """
    kind = node.attributes.get("kernel_type", "LINEAR")
    params = tuple(node.attributes.get("kernel_params", ())) or (0.0, 0.0, 0.0)
    if len(params) != 3:
        raise InvalidArgument(
            f"kernel_params has {len(params)} entries.", where=node.location, fix="Give gamma, coef0 and degree."
        )
    gamma, coef0, degree = params
    if kind == "RBF":
        return _radial(xp, vectors, gamma)
    transposed = xp.asarray(np.ascontiguousarray(vectors.T))

    def linear(rows: Array) -> Array:
        return xp.matmul(rows, transposed)

    def polynomial(rows: Array) -> Array:
        return _power(xp, _affine(linear(rows)), degree)

    def sigmoid(rows: Array) -> Array:
        return xp.tanh(_affine(linear(rows)))

    def _affine(y: Array) -> Array:
        y *= gamma
        y += coef0
        return y

    functions = {"LINEAR": linear, "POLY": polynomial, "SIGMOID": sigmoid}
    if kind not in functions:
        raise InvalidArgument(f"kernel_type is '{kind}'.", where=node.location, fix="Use LINEAR, POLY, RBF or SIGMOID.")
    return functions[kind]


def _power(xp: Any, y: Array, degree: float) -> Array:
    if degree == 2:
        return y * y
    if degree == 3:
        return y * y * y
    return xp.power(y, xp.float32(degree))


def _radial(xp: Any, vectors: Array, gamma: float) -> Callable[[Array], Array]:
    """exp(-gamma · distance²), the distance by one product: |x|² + |v|² - 2x·v.

    In float64 and from the middle of the support vectors, because near vectors are what counts and the difference of
    two large squares is what they would be made of; the exponential is float32.
    """
    middle = vectors.astype(np.float64).mean(axis=0) if vectors.size else np.zeros(vectors.shape[1])
    centred = vectors.astype(np.float64) - middle
    lengths = xp.asarray((centred * centred).sum(axis=1))
    doubled = xp.asarray(np.ascontiguousarray(-2 * centred.T))
    origin = xp.asarray(middle)

    def radial(rows: Array) -> Array:
        x = rows - origin
        distances = xp.matmul(x, doubled)
        distances += lengths
        distances += xp.sum(x * x, axis=1, keepdims=True)
        narrow = xp.maximum(distances, 0).astype(xp.float32)
        narrow *= -gamma
        return xp.exp(narrow)

    return radial
