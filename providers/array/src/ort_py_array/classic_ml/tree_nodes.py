"""Forests as flat arrays, and the walk that finds the leaf of every row in every tree, level by level.

All comparisons become one: a node's value is in ``[lower, upper]``. ``<`` moves the bound to the next smaller number,
``>`` and ``>=`` swap the children, ``==`` closes the interval from both sides; set membership has its own tables.
A walk keeps one matrix of node indices, trees × rows: each step gathers features, bounds and children for all of it.
Trees come first, so that the nodes one stretch of the matrix visits lie close together. Leaves are their own children;
walks whose leaves come early are dropped now and then.

Comes after `tree_attributes`, which says what the nodes are; knows nothing of what a leaf is worth. The array form of
the trees is checked here: whoever walks never leaves it, and the number of steps is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ort_py.contracts.graph_view import Array
from ort_py.errors import InvalidGraph, Location
from ort_py.lazy_dataclass import dataclass

__all__ = ["MODES", "Forest", "TreeNodes", "forest_of", "leaves_of"]

MODES = (
    *("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT"),
    *("BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER"),
)
"""Comparisons, in the order of the numbers that TreeEnsemble 5 gives them."""

_LEQ, _LT, _GTE, _GT, _EQ, _NEQ, _MEMBER = range(len(MODES))

_FIRST_LOOK, _LOOK_EVERY = 8, 4
"""After how many levels a walk first asks how many are still on their way, and how often then."""


@dataclass(frozen=True, slots=True)
class TreeNodes:
    """The interior nodes of all trees, on the host, as the attributes give them.

    Attributes:
        features: Column that a node looks at.
        thresholds: What it compares with; floating.
        modes: Index into `MODES`.
        children: ``(n, 2)``: where to go if false and if true; from n on, leaf ``index - n``.
        missing_true: Whether NaN takes the true branch.
        members: For each node of mode BRANCH_MEMBER, in their order, the values of its set.
        roots: One node a tree, or from n on, a leaf.
        leaves: Number of leaves.
    """

    features: Array
    thresholds: Array
    modes: Array
    children: Array
    missing_true: Array
    members: Sequence[Array]
    roots: Array
    leaves: int


@dataclass(frozen=True, slots=True)
class Forest:
    """Trees ready to be walked: arrays over interior nodes and then leaves, of the provider's array module.

    Attributes:
        features: Column that a node looks at.
        uppers: Greatest value that takes the true branch.
        lowers: Least such value; None where no node asks for equality.
        children: At ``2 * node`` where to go if false, next to it if true. A leaf's are the leaf.
        missing: Nodes where NaN takes the true branch; None where there is none.
        sets: ``(set of a node or -1, all members sorted, keys of the sets' members)``; None without such nodes.
        roots: First node of each tree.
        interior: Number of interior nodes: the index of the first leaf.
        depth: Steps after which every walk has reached its leaf.
        width: Columns that the input must have.
    """

    features: Array
    uppers: Array
    lowers: Array | None
    children: Array
    missing: Array | None
    sets: tuple[Array, Array, Array] | None
    roots: Array
    interior: int
    depth: int
    width: int


def forest_of(xp: Any, nodes: TreeNodes, dtype: Any, where: Location) -> Forest:
    """Check the trees and bring them into the form that is walked.

    Args:
        xp: Array module of the result.
        nodes: The trees.
        dtype: Type in which values are compared, float32 or float64; thresholds are rounded to it.
        where: Node, for messages.

    Raises:
        InvalidGraph: A feature, child or root does not exist, or a walk would never end.
    """
    count = nodes.features.size
    total = count + nodes.leaves
    _check_range("feature", nodes.features, None, where)
    _check_range("child", nodes.children.reshape(-1), total, where)
    _check_range("root", nodes.roots, total, where)
    depth = _depth(nodes.children, where)
    uppers, lowers, children, missing = _as_intervals(nodes, np.dtype(dtype))
    pad = nodes.leaves
    ends = np.repeat(np.arange(count, total, dtype=np.intp), 2)
    return Forest(
        features=xp.asarray(np.concatenate((nodes.features, np.zeros(pad, np.intp)))),
        uppers=xp.asarray(np.concatenate((uppers, np.full(pad, np.nan, uppers.dtype)))),
        lowers=None if lowers is None else xp.asarray(np.concatenate((lowers, np.zeros(pad, lowers.dtype)))),
        children=xp.asarray(np.concatenate((children.reshape(-1), ends)).astype(np.intp)),
        missing=xp.asarray(np.concatenate((missing, np.zeros(pad, bool)))) if missing.any() else None,
        sets=_sets(xp, nodes, pad) if nodes.members else None,
        roots=xp.asarray(nodes.roots.astype(np.intp)),
        interior=count,
        depth=depth,
        width=int(nodes.features.max()) + 1 if count else 0,
    )


def _check_range(what: str, indices: Array, stop: int | None, where: Location) -> None:
    wrong = (indices < 0) if stop is None else (indices < 0) | (indices >= stop)
    if wrong.any():
        at = int(np.argmax(wrong))
        raise InvalidGraph(
            f"The {what} index {int(indices[at])} does not exist.",
            where=where,
            why=f"it is entry {at} of {indices.size}" + ("" if stop is None else f", and there are {stop} nodes"),
            fix="The model's trees are damaged: export the model again.",
        )


def _depth(children: Array, where: Location) -> int:
    """The longest way from a node to a leaf, found by removing nodes that no other node leads to, again and again.

    Several nodes may share a child, as converters do for sets of categories.
    """
    count = len(children)
    inner = children[children < count]
    waiting = np.bincount(inner, minlength=count)
    level = np.flatnonzero(waiting == 0)
    depth = seen = 0
    while level.size:
        depth += 1
        seen += level.size
        below = children[level].reshape(-1)
        found, times = np.unique(below[below < count], return_counts=True)
        waiting[found] -= times
        level = found[waiting[found] == 0]
    if seen < count:
        raise InvalidGraph(
            f"The trees have a cycle: a walk would never leave node {int(np.flatnonzero(waiting > 0)[0])}.",
            where=where,
            why=f"{count - seen} of {count} nodes lead to each other",
            fix="The model's trees are damaged: export the model again.",
        )
    return depth


def _as_intervals(nodes: TreeNodes, dtype: np.dtype[Any]) -> tuple[Array, Array | None, Array, Array]:
    """Upper and lower bounds, children, and the nodes where NaN takes what is now the true branch."""
    upper = nodes.thresholds.astype(dtype)
    modes = nodes.modes
    no_number = np.isnan(upper)  # nothing compares with it: such a node is always false, or true where it asks "!="
    missing = nodes.missing_true & (modes != _NEQ)
    swapped = ~no_number & np.isin(modes, (_GT, _GTE, _NEQ))
    missing = np.where(swapped & (modes != _NEQ), ~missing, missing)
    children = np.where(swapped[:, None], nodes.children[:, ::-1], nodes.children)
    always = no_number & (modes == _NEQ)
    children = np.where(always[:, None], children[:, 1:], children)
    strict = np.isin(modes, (_LT, _GTE))
    below = np.nextafter(upper, dtype.type(-np.inf))
    upper = np.where(strict, np.where(np.isneginf(upper), dtype.type(np.nan), below), upper)
    equal = np.isin(modes, (_EQ, _NEQ))
    lower = np.where(equal, upper, dtype.type(-np.inf)) if equal.any() else None
    upper = np.where(modes == _MEMBER, dtype.type(np.nan), upper)
    return upper, lower, children, missing


def _sets(xp: Any, nodes: TreeNodes, leaves: int) -> tuple[Array, Array, Array]:
    owner = np.full(nodes.features.size + leaves, -1, np.intp)
    owner[np.flatnonzero(nodes.modes == _MEMBER)] = np.arange(len(nodes.members))
    lengths = [len(members) for members in nodes.members]
    values, ranks = np.unique(np.concatenate([*nodes.members]), return_inverse=True)
    keys = np.repeat(np.arange(len(lengths)), lengths) * max(values.size, 1) + ranks
    return xp.asarray(owner), xp.asarray(values), xp.asarray(np.unique(keys))


def leaves_of(xp: Any, forest: Forest, rows: Array, *, may_wait: bool) -> Array:
    """The leaf of each row in each tree.

    Args:
        xp: Array module.
        forest: The trees.
        rows: ``(rows, columns)``, C-contiguous, of the forest's type, with at least `Forest.width` columns.
        may_wait: Whether the walk may ask the device how many are still on their way.

    Returns:
        ``(trees, rows)``: indices of leaves, from 0.
    """
    count, columns = rows.shape
    flat = rows.reshape(-1)
    starts = xp.arange(count) * columns if count != 1 else None  # one row needs none: every call counts there
    at = (xp.repeat(forest.roots, count) if count != 1 else forest.roots).reshape((forest.roots.size, count))
    looking = forest.missing is not None and not (may_wait and not bool(xp.any(xp.isnan(rows)).item()))
    ended: Array | None = None  # the whole matrix, once `at` is only a part of it
    part: Array | None = None
    for level in range(forest.depth):
        if may_wait and level >= _FIRST_LOOK and level % _LOOK_EVERY == 0:
            walking = xp.flatnonzero(at.reshape(-1) < forest.interior)
            if walking.size == 0:
                break
            if 2 * walking.size < at.size:
                if ended is None or part is None:
                    ended, part = at.reshape(-1), walking
                else:
                    ended[part] = at
                    part = part.take(walking)
                at = at.take(walking)  # of the flattened matrix
                starts = part % count * columns if starts is not None else None
        column = forest.features.take(at)
        if starts is not None:
            column += starts
        values = flat.take(column)
        true = values <= forest.uppers.take(at)
        if forest.lowers is not None:
            true &= values >= forest.lowers.take(at)
        if forest.sets is not None:
            _add_members(xp, forest.sets, at, values, true)
        if looking and forest.missing is not None:
            true |= xp.isnan(values) & forest.missing.take(at)
        at = at + at
        at += true
        at = forest.children.take(at)
    if ended is not None and part is not None:
        ended[part] = at
        at = ended.reshape((forest.roots.size, count))
    return at - forest.interior


def _add_members(xp: Any, sets: tuple[Array, Array, Array], at: Array, values: Array, true: Array) -> None:
    """Set `true` where a node asks for membership and the value is a member."""
    owners, members, keys = sets
    owner = owners.take(at).reshape(-1)
    asking = xp.flatnonzero(owner >= 0)
    if asking.size == 0 or members.size == 0:
        return
    sought = values.take(asking)
    rank = xp.minimum(xp.searchsorted(members, sought), members.size - 1)
    key = owner.take(asking) * members.size + rank
    place = xp.minimum(xp.searchsorted(keys, key), keys.size - 1)
    found = (members.take(rank) == sought) & (keys.take(place) == key)
    flat = true.reshape(-1)  # a view: `true` is new and contiguous
    flat[asking] = found
