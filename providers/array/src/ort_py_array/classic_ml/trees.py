"""TreeEnsemble, TreeEnsembleRegressor and TreeEnsembleClassifier: decision trees, vectorised over rows and trees.

The trees are read, checked and laid out when the node is bound. A call cuts the rows into blocks of a bounded number of
walks, which go to the pool; each block finds its leaves (`tree_nodes`) and adds up their votes (`tree_votes`).

Values are compared in the thresholds' precision or in the input's, whichever is wider; integers as doubles. Sums are
float32, or float64 where the input or the weights are doubles; both are rounded once to the output's type.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np  # labels are host values, and attributes become arrays on the host first

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelCallable, KernelContext, KernelDef, tensors
from ort_py.devices import HOST
from ort_py.dtypes import DataType
from ort_py.errors import InvalidArgument, InvalidGraph
from ort_py_array.checks import LARGE
from ort_py_array.classic_ml.declarations import NUMBERS, class_labels, definition, feature_rows, on_host
from ort_py_array.classic_ml.post_transforms import POST_TRANSFORMS, check_post_transform, logistic, transformed
from ort_py_array.classic_ml.tree_attributes import base_values, indexed_trees, listed_trees
from ort_py_array.classic_ml.tree_nodes import TreeNodes, forest_of, leaves_of
from ort_py_array.classic_ml.tree_votes import AGGREGATES, Votes, collector

__all__ = ["KERNELS", "tree_ensemble", "tree_ensemble_classifier", "tree_ensemble_regressor"]

_WALKS = 1 << 15
"""Walks (rows × trees) of a block: their indices, values and results stay in the second-level cache."""

_LEAST_ROWS, _MOST_WALKS = 64, 1 << 20
"""A block has this many rows even in a large forest, so that inner loops are long; but never more walks than that."""

_SINGLES = frozenset({"tensor(float)", "tensor(float16)"})


def _scores(ctx: KernelContext, nodes: TreeNodes, votes: Votes, aggregate: str) -> Callable[[Array], Array]:
    """``f(x)`` → the forest's scores ``(n, targets)``, float32 or float64."""
    xp, node = ctx.xp, ctx.node
    bindings = node.type_bindings
    single = bindings.get("T", bindings.get("T1", "")) in _SINGLES
    narrow = single and nodes.thresholds.dtype != np.float64
    forest = forest_of(xp, nodes, np.float32 if narrow else np.float64, node.location)
    double = "tensor(double)" in bindings.values() or votes.weights.dtype == np.float64
    sums = np.dtype(np.float64 if double else np.float32)
    votes = replace(votes, weights=votes.weights.astype(sums))
    trees = nodes.roots.size
    collect, width = collector(xp, votes, aggregate, trees)
    may_wait = ctx.device == HOST

    walks = max(trees, 1) * max(width, 1)
    block = max(_WALKS // walks, min(_LEAST_ROWS, _MOST_WALKS // walks), 1)

    def scores(x: Array) -> Array:
        rows = xp.ascontiguousarray(feature_rows(x, node).astype(forest.uppers.dtype, copy=False))
        count, columns = rows.shape
        if columns < forest.width:
            raise InvalidArgument(
                f"The input has {columns} columns, and the trees look at column {forest.width - 1}.",
                where=node.location,
                fix=f"Feed rows of at least {forest.width} features.",
            )
        if count * votes.target_count > LARGE:
            ctx.check_allocation((count, votes.target_count), sums)
        if count <= block:
            return collect(leaves_of(xp, forest, rows, may_wait=may_wait))
        result = xp.empty((count, votes.target_count), sums)

        def part(start: int, stop: int) -> None:
            for first in range(start, stop, block):
                last = min(first + block, stop)
                result[first:last] = collect(leaves_of(xp, forest, rows[first:last], may_wait=may_wait))

        if may_wait:
            ctx.parallel_for(count, block, part)
        else:
            part(0, count)
        return result

    return scores


def _targets(ctx: KernelContext) -> int:
    targets: int = ctx.node.attributes.get("n_targets", 1)
    if targets < 1:
        raise InvalidGraph(f"n_targets is {targets}.", where=ctx.node.location, fix="It must be at least 1.")
    return targets


def tree_ensemble(ctx: KernelContext) -> KernelCallable:
    """TreeEnsemble 5: ``(n, features)`` → ``(n, n_targets)`` in the input's type."""
    node = ctx.node
    post, aggregate = (
        _by_number(ctx, "post_transform", POST_TRANSFORMS, 0),
        _by_number(ctx, "aggregate_function", AGGREGATES, 1),
    )
    nodes, votes = indexed_trees(node, _targets(ctx))
    scores = _scores(ctx, nodes, votes, aggregate)

    def run(x: Array) -> Array:
        return transformed(ctx.xp, scores(x), post).astype(x.dtype, copy=False)

    return run


def _by_number(ctx: KernelContext, name: str, choices: tuple[str, ...], default: int) -> str:
    number = ctx.node.attributes.get(name, default)
    if not 0 <= number < len(choices):
        listed = ", ".join(f"{index} ({choice})" for index, choice in enumerate(choices))
        raise InvalidArgument(f"{name} is {number}.", where=ctx.node.location, fix=f"Use {listed}.")
    return choices[number]


def tree_ensemble_regressor(ctx: KernelContext) -> KernelCallable:
    """TreeEnsembleRegressor 1, 3 and 5: ``(n, features)`` → ``(n, n_targets)``, float32.

    A single score is transformed as any other, as the specification says; onnxruntime does so for PROBIT only.
    """
    xp, node = ctx.xp, ctx.node
    post = check_post_transform(node.attributes.get("post_transform", "NONE"), node.location)
    aggregate = node.attributes.get("aggregate_function", "SUM")
    if aggregate not in AGGREGATES:
        raise InvalidArgument(
            f"aggregate_function is '{aggregate}'.", where=node.location, fix="Use AVERAGE, SUM, MIN or MAX."
        )
    targets = _targets(ctx)
    nodes, votes = listed_trees(node, "target", targets)
    base = base_values(node, targets)
    scores = _scores(ctx, nodes, votes, aggregate)
    bases = xp.asarray(base) if base.size else None

    def run(x: Array) -> Array:
        y = scores(x)
        if bases is not None:
            y = y + bases
        return transformed(xp, y, post).astype(xp.float32, copy=False)

    return run


def tree_ensemble_classifier(ctx: KernelContext) -> KernelCallable:
    """TreeEnsembleClassifier 1, 3 and 5: labels ``(n,)`` (int64 or strings) and scores ``(n, classes)``, float32.

    The label is that of the greatest sum of votes and base value. Where there are two labels and all votes go to one
    of them, the sum is a binary decision: see `_binary`. With a single integer label, the labels are 1 where the sum is
    positive and 0 elsewhere, as other runtimes have it.
    """
    xp, node = ctx.xp, ctx.node
    post = check_post_transform(node.attributes.get("post_transform", "NONE"), node.location)
    labels = class_labels(node, "classlabels_int64s")
    classes = labels.size
    if not classes:
        raise InvalidGraph(
            "The classifier has no labels.",
            where=node.location,
            fix="Give 'classlabels_int64s' or 'classlabels_strings'.",
        )
    nodes, votes = listed_trees(node, "class", classes)
    base = base_values(node, classes, allowed=(1,) if classes == 2 else ())
    named = np.unique(votes.targets)
    if classes == 2 and named.size == 1 and base.size < 2:
        first = int(named[0]) == 0
        positive = bool((votes.weights >= 0).all())
        single = replace(votes, targets=np.zeros_like(votes.targets), target_count=1)
        return _with_base(
            xp,
            _scores(ctx, nodes, single, "SUM"),
            base if first else base[:0],
            _binary(ctx, labels, post, first=first, positive=positive),
        )
    if base.size < classes and base.size:
        base = np.append(base, base.dtype.type(0))  # one value for two classes belongs to the first

    def decide(scores: Array) -> tuple[Array, Array]:
        if classes == 1 and labels.dtype == np.int64:
            chosen = on_host(scores[:, 0] > 0).astype(np.int64)
        else:
            chosen = labels[on_host(xp.argmax(scores, axis=1))]
        return chosen, transformed(xp, scores, post).astype(xp.float32, copy=False)

    return _with_base(xp, _scores(ctx, nodes, votes, "SUM"), base, decide)


def _with_base(
    xp: Any, scores: Callable[[Array], Array], base: Array, decide: Callable[[Array], tuple[Array, Array]]
) -> KernelCallable:
    bases = xp.asarray(base) if base.size else None

    def run(x: Array) -> tuple[Array, Array]:
        y = scores(x)
        return decide(y if bases is None else y + bases)

    return run


def _binary(
    ctx: KernelContext, labels: Array, post: str, *, first: bool, positive: bool
) -> Callable[[Array], tuple[Array, Array]]:
    """The two scores that onnxruntime derives from one sum s for two labels; the specification is silent.

    The second label wins above 0.5 where no weight is negative, else above 0. The scores are a pair: votes for the
    first label (so converters write it) give ``(1 - s, s)``, or ``(-s, s)`` where weights are negative; LOGISTIC
    makes the logistic function of ``(-s, s)``, and `SOFTMAX` and `SOFTMAX_ZERO` leave the pair alone: one score is
    nothing to normalise. Votes for the second label give ``(0, s)``, transformed as any other scores; a single base
    value is left out then. PROBIT is applied to both; onnxruntime leaves the second place unwritten.
    """
    xp = ctx.xp
    limit = 0.5 if positive else 0.0

    def decide(scores: Array) -> tuple[Array, Array]:
        chosen = labels[on_host(scores[:, 0] > limit).astype(np.intp)]
        if not first:
            pair = transformed(xp, xp.concatenate((xp.zeros_like(scores), scores), axis=1), post)
        elif post == "LOGISTIC":
            pair = logistic(xp, xp.concatenate((-scores, scores), axis=1))
        else:
            pair = xp.concatenate((1 - scores if positive else -scores, scores), axis=1)
            if post == "PROBIT":
                pair = transformed(xp, pair, post)
        return chosen, pair.astype(xp.float32, copy=False)

    return decide


_FLOATS = tensors(DataType.FLOAT, DataType.DOUBLE, DataType.FLOAT16)

KERNELS: list[KernelDef] = [
    definition("TreeEnsemble", tree_ensemble, since=5, types={"T": _FLOATS}, strided=True),
    definition("TreeEnsembleRegressor", tree_ensemble_regressor, until=5, types={"T": NUMBERS}, strided=True),
    definition(
        "TreeEnsembleClassifier",
        tree_ensemble_classifier,
        until=5,
        types={"T1": NUMBERS},
        outputs=2,
        host_outputs=frozenset({0}),
        strided=True,
    ),
]
