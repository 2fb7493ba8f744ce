"""LinearClassifier and LinearRegressor: one matrix product, a post transform, and labels for the classifier.

The coefficients are attributes, so they are made arrays once. Comes after `post_transforms`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np  # labels are host values: strings exist nowhere else

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelCallable, KernelContext, KernelDef
from ort_py.errors import InvalidArgument
from ort_py_array.classic_ml.declarations import NUMBERS, class_labels, definition, feature_rows, on_host
from ort_py_array.classic_ml.post_transforms import check_post_transform, transformed

__all__ = ["KERNELS", "linear_classifier", "linear_regressor"]

_logger = logging.getLogger(__name__)


def _functions(ctx: KernelContext, wanted: int) -> Callable[[Array], Array]:
    """``f(x)`` → ``x @ coefficients' + intercepts`` in float32, of `wanted` linear functions (0: as many as fit).

    Coefficients beyond ``functions * features`` are left out, with one warning a node: onnxruntime does the same, and
    the sample model it ships (``logreg_iris``) has twice as many as its declared input can use.
    """
    xp, node = ctx.xp, ctx.node
    coefficients = np.array(node.attributes.get("coefficients", ()), np.float32)
    given: Sequence[float] = node.attributes.get("intercepts", ())
    intercepts = xp.asarray(np.array(given, np.float32)) if given else None
    weights: dict[int, Array] = {}  # by number of features: in practice there is one

    def matrix(features: int) -> Array:
        count = wanted or (coefficients.size // features if features else 0)
        needed = count * features
        if count < 1 or coefficients.size < needed or len(given) not in (0, count):
            raise InvalidArgument(
                f"{coefficients.size} coefficients and {len(given)} intercepts do not make {count} linear functions of "
                f"{features} features.",
                where=node.location,
                fix="Check the number of columns that were fed, and the attributes 'coefficients' and 'intercepts'.",
            )
        if coefficients.size > needed:
            _logger.warning("%s: %d of %d coefficients are used", node.location, needed, coefficients.size)
        return xp.asarray(np.ascontiguousarray(coefficients[:needed].reshape(count, features).T))

    def scores(x: Array) -> Array:
        rows = feature_rows(x, node).astype(xp.float32, copy=False)
        weight = weights.get(rows.shape[1])
        if weight is None:
            weight = matrix(rows.shape[1])
            weights.clear()  # the number of features does not vary from call to call; what did must not pile up
            weights[rows.shape[1]] = weight
        y = xp.matmul(rows, weight)
        if intercepts is not None:
            y += intercepts
        return y

    return scores


def linear_classifier(ctx: KernelContext) -> KernelCallable:
    """LinearClassifier 1: labels ``(n,)`` (int64 or strings) of the greatest score, and scores ``(n, classes)``.

    One row of coefficients for two labels is a binary decision: positive scores are the second label, and the scores
    are a pair. `multi_class` changes nothing, as in other runtimes.
    """
    xp, node = ctx.xp, ctx.node
    post = check_post_transform(node.attributes.get("post_transform", "NONE"), node.location)
    labels = class_labels(node, "classlabels_ints")
    scores_of = _functions(ctx, len(node.attributes.get("intercepts", ())))

    def run(x: Array) -> tuple[Array, Array]:
        scores = scores_of(x)
        functions = scores.shape[1]
        if functions == 1 and labels.size in (0, 2):
            chosen = (scores[:, 0] > 0).astype(xp.int64)
            names = labels if labels.size else np.arange(2)
            return names[on_host(chosen)], _pair(xp, scores, post)
        names = labels if labels.size else np.arange(functions)
        if names.size != functions:
            raise InvalidArgument(
                f"There are {names.size} class labels for {functions} scores.",
                where=node.location,
                fix="Give one class label for each row of coefficients.",
            )
        return names[on_host(xp.argmax(scores, axis=1))], transformed(xp, scores, post)

    return run


def _pair(xp: Any, scores: Array, post: str) -> Array:
    """Two columns of scores out of one."""
    # Softmax of a single score means nothing: as in other runtimes, the score stands for itself then.
    second = transformed(xp, scores, post) if post in ("LOGISTIC", "PROBIT") else scores
    return xp.concatenate((1 - second, second), axis=1)


def linear_regressor(ctx: KernelContext) -> KernelCallable:
    """LinearRegressor 1: scores ``(n, targets)``, float32."""
    xp, node = ctx.xp, ctx.node
    post = check_post_transform(node.attributes.get("post_transform", "NONE"), node.location)
    targets = node.attributes.get("targets", 1)
    if targets < 1:
        raise InvalidArgument(f"targets is {targets}.", where=node.location, fix="It must be at least 1.")
    scores_of = _functions(ctx, targets)

    def run(x: Array) -> Array:
        return transformed(xp, scores_of(x), post)

    return run


KERNELS: list[KernelDef] = [
    definition("LinearClassifier", linear_classifier, types={"T1": NUMBERS}, outputs=2, host_outputs=frozenset({0})),
    definition("LinearRegressor", linear_regressor, types={"T": NUMBERS}),
]
