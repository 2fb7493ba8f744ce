"""Values of the leaves of a forest: votes with a target and a weight, added up (or the least, or the greatest).

Three forms, by how dense the votes are: one vote a leaf for one target is a gather and a sum; a table leaf × target
serves where leaves vote for many targets; else votes are listed by leaf and collected by their target.

Comes after `tree_nodes`, whose leaves it is given. It does not depend on rows or post transforms.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from ort_py.contracts.graph_view import Array
from ort_py.lazy_dataclass import dataclass

__all__ = ["AGGREGATES", "Collect", "Votes", "collector"]

AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
"""In the order of the numbers that TreeEnsemble 5 gives them."""

Collect: TypeAlias = Callable[[Array], Array]
"""``f(leaves)``: ``(trees, rows)`` → ``(rows, targets)``; a target without votes gets 0."""

_SMALL_TABLE = 1 << 16  # entries of a table that is made however empty it is


@dataclass(frozen=True, slots=True)
class Votes:
    """The votes of all leaves, on the host, in any order.

    Attributes:
        leaves, targets: Which leaf votes for what.
        weights: How much; float32 or float64, the type of the sums.
        leaf_count, target_count: Numbers of leaves and targets.
    """

    leaves: Array
    targets: Array
    weights: Array
    leaf_count: int
    target_count: int


def collector(xp: Any, votes: Votes, aggregate: str, trees: int) -> tuple[Collect, int]:
    """The function that turns leaves into scores, and how many elements it makes of each leaf it is given."""
    times = np.bincount(votes.leaves, minlength=votes.leaf_count)
    single = votes.leaf_count > 0 and bool((times == 1).all())
    order = np.argsort(votes.leaves, kind="stable")
    weights = xp.asarray(votes.weights[order])
    if single and votes.target_count == 1 and trees:
        reduce = {"MIN": xp.min, "MAX": xp.max, "SUM": xp.sum, "AVERAGE": xp.mean}[aggregate]
        return _one_target(weights, reduce), 1
    if aggregate in ("MIN", "MAX"):
        collect = _extreme(xp, votes, order, times, least=aggregate == "MIN")
        return collect, int(times.max(initial=1))
    if votes.leaf_count * votes.target_count <= 8 * votes.leaves.size + _SMALL_TABLE:
        collect, width = _table(xp, votes), votes.target_count
    else:
        collect, width = _sparse_sum(xp, votes, order, times), int(times.max(initial=1))
    if aggregate == "AVERAGE":
        total, size = collect, max(trees, 1)
        return lambda leaves: total(leaves) / size, width
    return collect, width


def _one_target(weights: Array, reduce: Callable[..., Array]) -> Collect:
    def collect(leaves: Array) -> Array:
        return reduce(weights.take(leaves), axis=0).reshape((leaves.shape[1], 1))

    return collect


def _table(xp: Any, votes: Votes) -> Collect:
    host = np.zeros((votes.leaf_count, votes.target_count), votes.weights.dtype)
    np.add.at(host, (votes.leaves, votes.targets), votes.weights)
    table = xp.asarray(host)

    def collect(leaves: Array) -> Array:
        return xp.sum(table.take(leaves, axis=0), axis=0)

    return collect


def _listed(xp: Any, votes: Votes, order: Array, times: Array) -> Callable[[Array], tuple[Array, Array, Array]]:
    """A function from leaves to the rows, targets and weights of their votes."""
    targets, weights = xp.asarray(votes.targets[order]), xp.asarray(votes.weights[order])
    first, counts = xp.asarray(np.cumsum(times) - times), xp.asarray(times)

    def listed(leaves: Array) -> tuple[Array, Array, Array]:
        flat = leaves.reshape(-1)
        many = counts.take(flat)
        ends = xp.cumsum(many)
        total = int(ends[-1].item()) if flat.size else 0
        row = xp.broadcast_to(xp.arange(leaves.shape[1]), leaves.shape).reshape(-1)
        # Which of the leaves each vote belongs to: how many leaves' votes end before it.
        leaf = xp.searchsorted(ends, xp.arange(total), side="right")
        vote = (first.take(flat) + many - ends).take(leaf) + xp.arange(total)
        return row.take(leaf), targets.take(vote), weights.take(vote)

    return listed


def _sparse_sum(xp: Any, votes: Votes, order: Array, times: Array) -> Collect:
    listed = _listed(xp, votes, order, times)
    targets = votes.target_count

    def collect(leaves: Array) -> Array:
        rows = leaves.shape[1]
        row, target, weight = listed(leaves)
        sums = xp.bincount(row * targets + target, weights=weight, minlength=rows * targets)
        return sums.reshape((rows, targets)).astype(votes.weights.dtype)

    return collect


def _extreme(xp: Any, votes: Votes, order: Array, times: Array, *, least: bool) -> Collect:
    listed = _listed(xp, votes, order, times)
    targets = votes.target_count
    reduce, start = (xp.minimum, np.inf) if least else (xp.maximum, -np.inf)

    def collect(leaves: Array) -> Array:
        rows = leaves.shape[1]
        row, target, weight = listed(leaves)
        place = row * targets + target
        scores = xp.full(rows * targets, start, votes.weights.dtype)
        reduce.at(scores, place, weight)
        voted = xp.zeros(rows * targets, bool)
        voted[place] = True
        return xp.where(voted, scores, 0).astype(votes.weights.dtype).reshape((rows, targets))

    return collect
