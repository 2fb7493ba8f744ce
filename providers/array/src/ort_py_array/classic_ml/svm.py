"""SVMClassifier and SVMRegressor: support vector machines by matrix products, in blocks of rows.

Without support vectors both are linear models. With them, every row is compared with every vector (`svm_kernels`); the
regressor weighs the results, the classifier decides between each pair of classes, counts votes, and makes
probabilities of the decisions where the model has sigmoids for them (`svm_probabilities`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np  # labels are host values, and attributes become arrays on the host first

from ort_py.contracts.graph_view import Array, NodeSpec
from ort_py.contracts.kernel import KernelCallable, KernelContext, KernelDef
from ort_py.devices import HOST
from ort_py.errors import InvalidArgument, InvalidGraph
from ort_py_array.classic_ml.declarations import NUMBERS, class_labels, definition, feature_rows, on_host
from ort_py_array.classic_ml.post_transforms import check_post_transform, logistic, transformed
from ort_py_array.classic_ml.svm_kernels import kernel_function
from ort_py_array.classic_ml.svm_probabilities import coupled, pairwise_probabilities

__all__ = ["KERNELS", "svm_classifier", "svm_regressor"]

_ELEMENTS = 1 << 18
"""Row × vector pairs of a block: a mebibyte of float32, large enough for an efficient product."""


def _numbers(node: NodeSpec, name: str) -> Array:
    return np.array(node.attributes.get(name, ()), np.float32)


def _too_few(node: NodeSpec, name: str, have: int, need: int) -> InvalidGraph:
    return InvalidGraph(
        f"{name} has {have} entries; it needs {need}.",
        where=node.location,
        fix="The model's attributes do not fit each other: export the model again.",
    )


def _support_vectors(node: NodeSpec, count: int) -> Array:
    """``(count, features)``."""
    flat = _numbers(node, "support_vectors")
    if flat.size == 0 or flat.size % count:
        raise InvalidGraph(
            f"support_vectors has {flat.size} entries, which do not make {count} vectors.",
            where=node.location,
            fix="The model's attributes do not fit each other: export the model again.",
        )
    return flat.reshape(count, -1)


def _by_blocks(
    ctx: KernelContext, evaluate: Callable[[Array], Array], features: int, width: int, outputs: int
) -> Callable[[Array], Array]:
    """``f(x)`` → ``(n, outputs)``: `evaluate` on blocks of rows, on the pool where the provider is the host's."""
    xp, node = ctx.xp, ctx.node
    block = max(_ELEMENTS // max(width, 1), 1)

    def run(x: Array) -> Array:
        rows = feature_rows(x, node).astype(xp.float32, copy=False)
        count, columns = rows.shape
        if columns != features:
            raise InvalidArgument(
                f"The input has {columns} columns, and the model has {features} features.",
                where=node.location,
                fix=f"Feed rows of {features} features.",
            )
        if count <= block:
            return evaluate(rows)
        result = xp.empty((count, outputs), xp.float32)

        def part(start: int, stop: int) -> None:
            for first in range(start, stop, block):
                last = min(first + block, stop)
                result[first:last] = evaluate(rows[first:last])

        if ctx.device == HOST:
            ctx.parallel_for(count, block, part)
        else:
            part(0, count)
        return result

    return run


def svm_regressor(ctx: KernelContext) -> KernelCallable:
    """SVMRegressor 1: ``(n, features)`` → ``(n, 1)``, float32; 1 or -1 for a one-class machine.

    The score is transformed as the specification says; onnxruntime leaves it as it is.
    """
    xp, node = ctx.xp, ctx.node
    post = check_post_transform(node.attributes.get("post_transform", "NONE"), node.location)
    count = node.attributes.get("n_supports", 0)
    one_class = bool(node.attributes.get("one_class", 0))
    coefficients, rho = _numbers(node, "coefficients"), _numbers(node, "rho")
    if rho.size < 1:
        raise _too_few(node, "rho", 0, 1)
    if coefficients.size < max(count, 1):
        raise _too_few(node, "coefficients", coefficients.size, max(count, 1))
    shift = float(rho[0])
    if count > 0:
        vectors = _support_vectors(node, count)
        compare = kernel_function(xp, node, vectors)
        weights, features = xp.asarray(coefficients[:count].reshape(-1, 1)), vectors.shape[1]
    else:
        weights, features = xp.asarray(coefficients.reshape(-1, 1)), coefficients.size

        def compare(rows: Array) -> Array:
            return rows

    def evaluate(rows: Array) -> Array:
        return xp.matmul(compare(rows), weights) + xp.float32(shift)

    scores = _by_blocks(ctx, evaluate, features, count, 1)

    def run(x: Array) -> Array:
        y = scores(x)
        if one_class:
            return xp.where(y > 0, xp.float32(1), xp.float32(-1))
        return transformed(xp, y, post)

    return run


def svm_classifier(ctx: KernelContext) -> KernelCallable:
    """SVMClassifier 1: labels ``(n,)`` (int64 or strings) and scores, float32.

    Scores are ``(n, classes)`` probabilities where the model has sigmoids, ``(n, pairs)`` decisions where it has not,
    a pair for two classes (see `_pair`), and ``(n, classes)`` for a linear model. The label is the class with the
    most votes (the first of equals), of a linear model that with the greatest score.
    """
    node = ctx.node
    post = check_post_transform(node.attributes.get("post_transform", "NONE"), node.location)
    labels = class_labels(node, "classlabels_ints")
    if not labels.size:
        raise InvalidGraph(
            "The classifier has no labels.",
            where=node.location,
            fix="Give 'classlabels_ints' or 'classlabels_strings'.",
        )
    if not sum(node.attributes.get("vectors_per_class", ())):
        return _linear(ctx, labels, post)
    return _pairwise(ctx, labels, post)


def _linear(ctx: KernelContext, labels: Array, post: str) -> KernelCallable:
    """One linear function a class, all with the first `rho`.

    onnxruntime decides between two labels by thresholds and may name the class of the lesser score; the greater wins
    here, as for any other number of classes.
    """
    xp, node = ctx.xp, ctx.node
    coefficients, rho = _numbers(node, "coefficients"), _numbers(node, "rho")
    if rho.size < 1:
        raise _too_few(node, "rho", 0, 1)
    features = coefficients.size // labels.size
    if features < 1:
        raise _too_few(node, "coefficients", coefficients.size, labels.size)
    weights = xp.asarray(np.ascontiguousarray(coefficients[: features * labels.size].reshape(labels.size, -1).T))
    shift = float(rho[0])

    def evaluate(rows: Array) -> Array:
        return xp.matmul(rows, weights) + xp.float32(shift)

    scores_of = _by_blocks(ctx, evaluate, features, labels.size, labels.size)

    def run(x: Array) -> tuple[Array, Array]:
        scores = scores_of(x)
        return labels[on_host(xp.argmax(scores, axis=1))], transformed(xp, scores, post)

    return run


def _pairwise(ctx: KernelContext, labels: Array, post: str) -> KernelCallable:
    """One decision for each pair of classes, each by the support vectors of these two."""
    xp, node = ctx.xp, ctx.node
    counts = tuple(node.attributes["vectors_per_class"])
    classes, total = labels.size, sum(counts)
    if len(counts) != classes or min(counts) < 0 or classes < 2:
        raise InvalidGraph(
            f"vectors_per_class is {counts[:10]}, and there are {classes} class labels.",
            where=node.location,
            fix="Give one number of vectors for each of at least two classes.",
        )
    first, second = np.triu_indices(classes, 1)
    pairs = first.size
    given = {name: _numbers(node, name) for name in ("coefficients", "rho", "prob_a", "prob_b")}
    needed = {"coefficients": (classes - 1) * total, "rho": pairs}
    if given["prob_a"].size or given["prob_b"].size:
        needed |= {"prob_a": pairs, "prob_b": pairs}
    for name, need in needed.items():
        if given[name].size < need:
            raise _too_few(node, name, given[name].size, need)
    vectors = _support_vectors(node, total)
    compare = kernel_function(xp, node, vectors)
    coefficients = given["coefficients"][: (classes - 1) * total].reshape(classes - 1, total)
    stops = np.cumsum(counts).tolist()
    starts = [stop - count for stop, count in zip(stops, counts, strict=True)]
    parts = [
        (start, stop, xp.asarray(np.ascontiguousarray(coefficients[:, start:stop].T)))
        for start, stop in zip(starts, stops, strict=True)
    ]
    # The vectors of class i have a row of coefficients against each other class: row j - 1 for j > i, row j for j < i.
    mine = xp.asarray(first * (classes - 1) + second - 1)
    theirs = xp.asarray(second * (classes - 1) + first)
    rho = xp.asarray(given["rho"][:pairs])

    def evaluate(rows: Array) -> Array:
        likeness = compare(rows)
        against = [xp.matmul(likeness[:, start:stop], weights) for start, stop, weights in parts]
        sums = xp.concatenate(against, axis=1)
        return xp.take(sums, mine, axis=1) + xp.take(sums, theirs, axis=1) + rho

    decisions_of = _by_blocks(ctx, evaluate, vectors.shape[1], total, pairs)
    one, two = xp.asarray(first), xp.asarray(second)
    # +1 for the first class of a pair where it wins, +1 for the second where it does not: a product counts the votes.
    wins = np.zeros((pairs, classes), np.float32)
    wins[np.arange(pairs), first], wins[np.arange(pairs), second] = 1, -1
    ballots, floor = xp.asarray(wins), xp.asarray(np.bincount(second, minlength=classes).astype(np.float32))
    sigmoids = None
    if given["prob_a"].size:
        sigmoids = xp.asarray(given["prob_a"][:pairs]), xp.asarray(given["prob_b"][:pairs])

    def run(x: Array) -> tuple[Array, Array]:
        decisions = decisions_of(x)
        votes = xp.matmul((decisions > 0).astype(xp.float32), ballots) + floor
        chosen = labels[on_host(xp.argmax(votes, axis=1))]
        if sigmoids is not None:
            probabilities = coupled(xp, pairwise_probabilities(xp, decisions, *sigmoids), one, two, classes)
            return chosen, transformed(xp, probabilities, post)
        if classes == 2:
            return chosen, _pair(xp, decisions, post)
        return chosen, transformed(xp, decisions, post)

    return run


def _pair(xp: Any, scores: Array, post: str) -> Array:
    """Two columns of the one decision s between two classes, as onnxruntime makes them.

    ``(-s, s)``; LOGISTIC is of these, and the other transforms begin with ``(1 - s, s)``, which the SOFTMAX transforms
    leave alone. PROBIT is applied to both columns; onnxruntime leaves the second unwritten.
    """
    if post == "NONE":
        return xp.concatenate((-scores, scores), axis=1)
    if post == "LOGISTIC":
        return logistic(xp, xp.concatenate((-scores, scores), axis=1))
    pair = xp.concatenate((1 - scores, scores), axis=1)
    return transformed(xp, pair, post) if post == "PROBIT" else pair


KERNELS: list[KernelDef] = [
    definition("SVMRegressor", svm_regressor, types={"T": NUMBERS}),
    definition("SVMClassifier", svm_classifier, types={"T1": NUMBERS}, outputs=2, host_outputs=frozenset({0})),
]
