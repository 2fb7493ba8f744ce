"""Classic machine learning, the domain ai.onnx.ml: linear models, scaling, imputing, normalising, and label maps.

Strings and maps exist on the host only: kernels that make them declare host outputs. Trees and SVMs are not here.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelContext, kernel
from ort_py.errors import InvalidArgument
from ort_py_array.label_maps import KERNELS

__all__ = [
    "KERNELS",
    "array_feature_extractor",
    "binarizer",
    "imputer",
    "linear_classifier",
    "linear_regressor",
    "normalizer",
    "scaler",
]

ML = "ai.onnx.ml"

_logger = logging.getLogger(__name__)
_SURPLUS_REPORTED: set[str] = set()


def _rows(ctx: KernelContext, x: Array) -> Array:
    """The input as ``(n, features)`` in float32; one row where it has rank 1."""
    if x.ndim not in (1, 2):
        raise InvalidArgument(f"The input has shape {list(x.shape)}; it needs rank 1 or 2.", where=ctx.node.location)
    return x.reshape(-1, x.shape[-1]).astype(ctx.xp.float32, copy=False)


def _scores(ctx: KernelContext, x: Array, coefficients: Sequence[float], intercepts: Sequence[float], n: int) -> Array:
    """``x @ coefficients' + intercepts`` with `n` rows of coefficients.

    Coefficients beyond ``n * features`` are left out, with one warning a node: onnxruntime does the same, and the
    sample model it ships (``logreg_iris``) has twice as many as its declared input can use.
    """
    xp = ctx.xp
    needed = n * x.shape[1]
    if n < 1 or len(coefficients) < needed or len(intercepts) not in (0, n):
        raise InvalidArgument(
            f"{len(coefficients)} coefficients and {len(intercepts)} intercepts do not make {n} linear functions of "
            f"{x.shape[1]} features.",
            where=ctx.node.location,
        )
    if len(coefficients) > needed and ctx.node.name not in _SURPLUS_REPORTED:
        _SURPLUS_REPORTED.add(ctx.node.name)
        _logger.warning("%s: %d of %d coefficients are used", ctx.node.location, needed, len(coefficients))
    y = xp.matmul(x, xp.asarray(coefficients[:needed], dtype=xp.float32).reshape(n, -1).T)
    if intercepts:
        y += xp.asarray(intercepts, dtype=xp.float32)
    return y


def _transformed(ctx: KernelContext, scores: Array, post_transform: str) -> Array:
    """A post transform of the specification, applied to rows of scores."""
    xp = ctx.xp
    if post_transform == "NONE":
        return scores
    if post_transform == "LOGISTIC":
        return 1 / (1 + xp.exp(-scores))
    if post_transform == "SOFTMAX":
        e = xp.exp(scores - xp.max(scores, axis=1, keepdims=True))
        return e / xp.sum(e, axis=1, keepdims=True)
    if post_transform == "SOFTMAX_ZERO":
        zero = scores == 0
        e = xp.where(zero, xp.float32(0), xp.exp(scores - xp.max(scores, axis=1, keepdims=True)))
        total = xp.sum(e, axis=1, keepdims=True)
        return xp.where(zero, scores, e / xp.where(total == 0, xp.float32(1), total))
    if post_transform == "PROBIT":
        return _probit(xp, scores)
    raise InvalidArgument(
        f"post_transform is '{post_transform}'.",
        where=ctx.node.location,
        fix="Use NONE, SOFTMAX, LOGISTIC, SOFTMAX_ZERO or PROBIT.",
    )


def _probit(xp: Any, scores: Array) -> Array:
    """Inverse of the normal distribution, by the approximation of the inverse error function that runtimes use."""
    x = 2 * scores - 1
    log = xp.log((1 - x) * (1 + x))
    v = xp.float32(2 / (3.14159 * 0.147)) + xp.float32(0.5) * log
    return xp.sqrt(xp.float32(2)) * xp.sign(x) * xp.sqrt(xp.sqrt(v * v - log / xp.float32(0.147)) - v)


@kernel("LinearClassifier", domain=ML, since=1, outputs=2, host_outputs=frozenset((0,)))
def linear_classifier(
    ctx: KernelContext,
    x: Array,
    *,
    coefficients: Sequence[float],
    intercepts: Sequence[float] = (),
    classlabels_ints: Sequence[int] = (),
    classlabels_strings: Sequence[str] = (),
    post_transform: str = "NONE",
    multi_class: int = 0,
) -> tuple[Array, Array]:
    """Labels ``(n,)`` (int64 or strings) of the greatest score, and the transformed scores ``(n, classes)``.

    One row of coefficients for two labels is a binary decision: positive scores are the second label. `multi_class`
    changes nothing, as in other runtimes.
    """
    import numpy as np  # labels are host values: strings exist nowhere else

    xp = ctx.xp
    rows = _rows(ctx, x)
    labels: Sequence[Any] = classlabels_strings or classlabels_ints
    functions = len(intercepts) or (len(coefficients) // rows.shape[1] if rows.shape[1] else 0)
    scores = _scores(ctx, rows, coefficients, intercepts, functions)
    binary = functions == 1 and len(labels) in (0, 2)
    if binary:
        transformed, positive = _binary(ctx, scores, post_transform)
        names: Sequence[Any] = labels or (0, 1)
        chosen = positive[:, 0].astype(xp.int64)
    else:
        transformed, names = _transformed(ctx, scores, post_transform), labels or range(functions)
        chosen = xp.argmax(scores, axis=1)
    if not binary and len(names) != functions:
        raise InvalidArgument(f"There are {len(names)} class labels for {functions} scores.", where=ctx.node.location)
    table = np.array(list(names), dtype=object if classlabels_strings else np.int64)
    return table[_on_host(chosen)], transformed


def _binary(ctx: KernelContext, scores: Array, post_transform: str) -> tuple[Array, Array]:
    """Two columns of scores out of one, and which rows are positive."""
    # Softmax of a single score means nothing: as in other runtimes, the score stands for itself then.
    second = _transformed(ctx, scores, post_transform) if post_transform in ("LOGISTIC", "PROBIT") else scores
    return ctx.xp.concatenate((1 - second, second), axis=1), scores > 0


def _on_host(x: Array) -> Array:
    """A device array as NumPy; CuPy's have `get`, by its documented interface."""
    return x.get() if hasattr(x, "get") else x


@kernel("LinearRegressor", domain=ML, since=1)
def linear_regressor(
    ctx: KernelContext,
    x: Array,
    *,
    coefficients: Sequence[float] = (),
    intercepts: Sequence[float] = (),
    targets: int = 1,
    post_transform: str = "NONE",
) -> Array:
    """Scores ``(n, targets)``, float32."""
    rows = _rows(ctx, x)
    return _transformed(ctx, _scores(ctx, rows, coefficients, intercepts, targets), post_transform)


@kernel("Normalizer", domain=ML, since=1)
def normalizer(ctx: KernelContext, x: Array, *, norm: str = "MAX") -> Array:
    """Rows divided by their maximum, sum of absolute values (L1) or length (L2); float32. Rows of norm 0 stay."""
    xp = ctx.xp
    rows = _rows(ctx, x)
    if norm == "MAX":
        size = xp.max(rows, axis=1, keepdims=True)
    elif norm == "L1":
        size = xp.sum(xp.abs(rows), axis=1, keepdims=True)
    elif norm == "L2":
        size = xp.sqrt(xp.sum(rows * rows, axis=1, keepdims=True))
    else:
        raise InvalidArgument(f"norm is '{norm}'.", where=ctx.node.location, fix="Use MAX, L1 or L2.")
    return (rows / xp.where(size == 0, xp.float32(1), size)).reshape(x.shape)


@kernel("Scaler", domain=ML, since=1)
def scaler(ctx: KernelContext, x: Array, *, offset: Sequence[float] = (), scale: Sequence[float] = ()) -> Array:
    """``(x - offset) · scale`` by feature; float32."""
    xp = ctx.xp
    features = x.shape[-1] if x.ndim else 1
    for name, values in (("offset", offset), ("scale", scale)):
        if len(values) not in (1, features):
            raise InvalidArgument(
                f"{name} has {len(values)} entries; it needs 1 or {features}.", where=ctx.node.location
            )
    shifted = x.astype(xp.float32) - xp.asarray(offset, dtype=xp.float32)
    return shifted * xp.asarray(scale, dtype=xp.float32)


@kernel("Binarizer", domain=ML, since=1)
def binarizer(ctx: KernelContext, x: Array, *, threshold: float = 0.0) -> Array:
    """1 where the input is greater than the threshold, else 0, in the input's type."""
    return (x > x.dtype.type(threshold)).astype(x.dtype)


@kernel("Imputer", domain=ML, since=1)
def imputer(
    ctx: KernelContext,
    x: Array,
    *,
    imputed_value_floats: Sequence[float] = (),
    imputed_value_int64s: Sequence[int] = (),
    replaced_value_float: float = 0.0,
    replaced_value_int64: int = 0,
) -> Array:
    """The replaced value (NaN too) substituted by one value, or by one a feature."""
    xp = ctx.xp
    floating = x.dtype.kind == "f"
    values = imputed_value_floats if floating else imputed_value_int64s
    features = x.shape[-1] if x.ndim else 1
    if len(values) not in (1, features):
        raise InvalidArgument(
            f"There are {len(values)} imputed values for {features} features.", where=ctx.node.location
        )
    old = replaced_value_float if floating else replaced_value_int64
    missing = xp.isnan(x) if math.isnan(old) else x == x.dtype.type(old)
    return xp.where(missing, xp.asarray(values, dtype=x.dtype), x)


@kernel("ArrayFeatureExtractor", domain=ML, since=1, host_inputs=frozenset((1,)))
def array_feature_extractor(ctx: KernelContext, x: Array, indices: Any) -> Array:
    """The columns `indices` (on the host) of the last axis; a single row stays a row."""
    rows = x.reshape(1, -1) if x.ndim == 1 else x
    columns = indices.reshape(-1)
    if columns.size and (columns.min() < 0 or columns.max() >= rows.shape[-1]):
        raise InvalidArgument(
            f"Indices from {columns.min()} to {columns.max()} do not fit {rows.shape[-1]} features.",
            where=ctx.node.location,
        )
    return ctx.xp.take(rows, ctx.xp.asarray(columns), -1)
