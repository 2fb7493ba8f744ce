"""Reading trees from attributes: the node lists of versions 1 and 3, and the index form of TreeEnsemble 5.

Both become `TreeNodes` and `Votes`. Lists of different lengths, nodes that are named twice or not at all, and values
outside their range are refused here, with the attribute's name; what the trees look like is checked by `tree_nodes`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ort_py.contracts.graph_view import Array, NodeSpec
from ort_py.errors import InvalidGraph
from ort_py_array.classic_ml.tree_nodes import MODES, TreeNodes
from ort_py_array.classic_ml.tree_votes import Votes

__all__ = ["base_values", "indexed_trees", "listed_trees"]

_MODE_NUMBERS = {name: number for number, name in enumerate(MODES[:-1])}
_LEAF = -1
_DAMAGED = "The model's trees are damaged: export the model again."


def _invalid(node: NodeSpec, what: str, why: str = "", fix: str = _DAMAGED) -> InvalidGraph:
    return InvalidGraph(what, where=node.location, why=why, fix=fix)


def _integers(node: NodeSpec, name: str, size: int | None = None) -> Array:
    """An attribute of integers as int64, which has `size` entries where one is given."""
    return _sized(node, name, np.array(node.attributes.get(name, ()), np.int64), size)


def _floats(node: NodeSpec, name: str, size: int | None = None) -> Array:
    """An attribute of floats as float32, or the tensor ``<name>_as_tensor`` (float64) that may stand for it."""
    tensor = node.attributes.get(f"{name}_as_tensor")
    listed = node.attributes.get(name, ())
    if tensor is not None and len(listed):
        raise _invalid(node, f"Both {name} and {name}_as_tensor are given.", fix="Keep one of the two attributes.")
    values = np.array(listed, np.float32) if tensor is None else tensor.reshape(-1)
    return _sized(node, name, values, size)


def _sized(node: NodeSpec, name: str, values: Array, size: int | None) -> Array:
    if size is not None and values.size != size:
        raise _invalid(node, f"{name} has {values.size} entries; it needs {size}.")
    return values


def base_values(node: NodeSpec, targets: int, *, allowed: tuple[int, ...] = ()) -> Array:
    """The base values: as many as there are targets, or none; or a number in `allowed`."""
    values = _floats(node, "base_values")
    if values.size not in (0, targets, *allowed):
        raise _invalid(
            node,
            f"base_values has {values.size} entries; it needs {targets}, or none.",
            fix="Give one base value for each target or class.",
        )
    return values


def listed_trees(node: NodeSpec, votes: str, targets: int) -> tuple[TreeNodes, Votes]:
    """The trees of TreeEnsembleClassifier and TreeEnsembleRegressor.

    Args:
        node: The node.
        votes: What the votes' attributes begin with: ``class`` or ``target``.
        targets: Number of classes or targets.

    Raises:
        InvalidGraph: The lists do not describe trees.
    """
    tree_ids = _integers(node, "nodes_treeids")
    size = tree_ids.size
    node_ids = _integers(node, "nodes_nodeids", size)
    features = _integers(node, "nodes_featureids", size)
    thresholds = _floats(node, "nodes_values", size)
    modes = _modes(node, size)
    below = np.stack([_integers(node, f"nodes_{side}nodeids", size) for side in ("false", "true")], axis=1)
    missing = _missing(node, size)

    places = _Places(node, tree_ids, node_ids)
    interior, leaves = np.flatnonzero(modes != _LEAF), np.flatnonzero(modes == _LEAF)
    number = np.empty(size, np.intp)  # interior nodes first, then leaves, each in the order of the lists
    number[interior], number[leaves] = np.arange(interior.size), interior.size + np.arange(leaves.size)
    children = np.stack(
        [number[places.of(tree_ids[interior], below[interior, side], "child")] for side in (0, 1)], axis=1
    )
    nodes = TreeNodes(
        features=features[interior].astype(np.intp),
        thresholds=thresholds[interior],
        modes=modes[interior],
        children=children,
        missing_true=missing[interior],
        members=(),
        roots=_roots(node, tree_ids, number, children),
        leaves=leaves.size,
    )
    vote_trees = _integers(node, f"{votes}_treeids")
    vote_nodes = _integers(node, f"{votes}_nodeids", vote_trees.size)
    vote_targets = _integers(node, f"{votes}_ids", vote_trees.size)
    weights = _floats(node, f"{votes}_weights", vote_trees.size)
    _check_targets(node, f"{votes}_ids", vote_targets, targets)
    voters = number[places.of(vote_trees, vote_nodes, "voting node")] - interior.size
    at_leaves = voters >= 0  # interior nodes have no say, whatever the lists give them
    return nodes, Votes(voters[at_leaves], vote_targets[at_leaves], weights[at_leaves], leaves.size, targets)


class _Places:
    """Positions in the node lists by tree and node number."""

    def __init__(self, node: NodeSpec, trees: Array, nodes: Array) -> None:
        self._node = node
        self._trees, self._nodes = np.unique(trees), np.unique(nodes)
        keys = self._keys(trees, nodes)[0]
        self._order = np.argsort(keys, kind="stable")
        self._sorted = keys[self._order]
        twice = np.flatnonzero(self._sorted[1:] == self._sorted[:-1])
        if twice.size:
            at = self._order[twice[0]]
            raise _invalid(node, f"Node {nodes[at]} of tree {trees[at]} is described twice.")

    def _keys(self, trees: Array, nodes: Array) -> tuple[Array, Array]:
        """One number for each pair, and which pairs have none because they name what is not there."""
        if not self._trees.size:
            return np.zeros(trees.shape, np.int64), np.ones(trees.shape, bool)
        tree = np.minimum(np.searchsorted(self._trees, trees), self._trees.size - 1)
        node = np.minimum(np.searchsorted(self._nodes, nodes), self._nodes.size - 1)
        unknown = (self._trees[tree] != trees) | (self._nodes[node] != nodes)
        return tree * self._nodes.size + node, unknown

    def of(self, trees: Array, nodes: Array, what: str) -> Array:
        """Positions of nodes, all of which must exist."""
        keys, unknown = self._keys(trees, nodes)
        if keys.size and self._sorted.size:
            at = np.minimum(np.searchsorted(self._sorted, keys), self._sorted.size - 1)
            unknown = unknown | (self._sorted[at] != keys)
        if unknown.any():
            first = int(np.argmax(unknown))
            raise _invalid(self._node, f"The {what} {nodes[first]} of tree {trees[first]} does not exist.")
        return self._order[at] if keys.size else np.zeros(0, np.intp)


def _modes(node: NodeSpec, size: int) -> Array:
    names = node.attributes.get("nodes_modes", ())
    unknown = set(names) - set(_MODE_NUMBERS) - {"LEAF"}
    if unknown:
        raise _invalid(node, f"nodes_modes has '{sorted(unknown)[0]}'.", fix=f"Use {', '.join(_MODE_NUMBERS)} or LEAF.")
    return _sized(node, "nodes_modes", np.array([_MODE_NUMBERS.get(name, _LEAF) for name in names], np.int64), size)


def _missing(node: NodeSpec, size: int) -> Array:
    given = _integers(node, "nodes_missing_value_tracks_true")
    return _sized(node, "nodes_missing_value_tracks_true", given, size) == 1 if given.size else np.zeros(size, bool)


def _roots(node: NodeSpec, trees: Array, number: Array, children: Array) -> Array:
    """The first node of each tree, in the order of the lists, that is not a child of another node."""
    below = np.zeros(number.size, bool)
    below[children.reshape(-1)] = True
    tops = np.flatnonzero(~below[number])
    _, first = np.unique(trees[tops], return_index=True)
    missing = np.setdiff1d(trees, trees[tops])
    if missing.size:
        raise _invalid(
            node, f"Tree {missing[0]} has a cycle: a walk through it would never end.", "each node is another's child"
        )
    return number[tops[np.sort(first)]]


def _check_targets(node: NodeSpec, name: str, targets: Array, count: int) -> None:
    if targets.size and not 0 <= targets.min() <= targets.max() < count:
        wrong = targets.min() if targets.min() < 0 else targets.max()
        raise _invalid(node, f"{name} names target or class {wrong}, and there are {count}.")


def indexed_trees(node: NodeSpec, targets: int) -> tuple[TreeNodes, Votes]:
    """The trees of TreeEnsemble 5.

    Raises:
        InvalidGraph: The lists do not describe trees.
    """
    features = _integers(node, "nodes_featureids")
    size = features.size
    weights = _tensor(node, "leaf_weights")
    leaf_targets = _integers(node, "leaf_targetids", weights.size)
    _check_targets(node, "leaf_targetids", leaf_targets, targets)
    modes = _sized(node, "nodes_modes", _tensor(node, "nodes_modes"), size).astype(np.int64)
    if size and not 0 <= modes.min() <= modes.max() < len(MODES):
        raise _invalid(node, f"nodes_modes has the values {modes.min()} to {modes.max()}.", fix="Use 0 to 6.")
    children = np.stack([_children(node, side, size, weights.size) for side in ("false", "true")], axis=1)
    roots = _integers(node, "tree_roots")
    if roots.size and not 0 <= roots.min() <= roots.max() < size:
        wrong = roots.min() if roots.min() < 0 else roots.max()
        raise _invalid(node, f"tree_roots names node {wrong}, and there are {size}.")
    nodes = TreeNodes(
        features=features.astype(np.intp),
        thresholds=_sized(node, "nodes_splits", _tensor(node, "nodes_splits"), size),
        modes=modes,
        children=children,
        missing_true=_missing(node, size),
        members=_members(node, int((modes == len(MODES) - 1).sum())),
        roots=roots,
        leaves=weights.size,
    )
    return nodes, Votes(np.arange(weights.size), leaf_targets, weights, weights.size, targets)


def _tensor(node: NodeSpec, name: str) -> Array:
    value = node.attributes.get(name)
    if value is None:
        raise _invalid(node, f"The attribute {name} is missing.")
    return value.reshape(-1)


def _children(node: NodeSpec, side: str, size: int, leaves: int) -> Array:
    """Children of one side: nodes, and from `size` on, leaves."""
    index = _integers(node, f"nodes_{side}nodeids", size)
    leaf = _integers(node, f"nodes_{side}leafs", size) != 0
    wrong = (index < 0) | (index >= np.where(leaf, leaves, size))
    if wrong.any():
        at = int(np.argmax(wrong))
        kind, count = ("leaf", leaves) if leaf[at] else ("node", size)
        raise _invalid(node, f"nodes_{side}nodeids names {kind} {index[at]}, and there are {count}.")
    return np.where(leaf, index + size, index)


def _members(node: NodeSpec, count: int) -> tuple[Array, ...]:
    """The sets of the nodes that ask for membership, which NaN separates; a NaN at the end may be left out."""
    if not count:
        return ()
    values: Any = node.attributes.get("membership_values")
    listed = np.zeros(0, np.float32) if values is None else values.reshape(-1)
    ends = np.flatnonzero(np.isnan(listed))
    if listed.size and not np.isnan(listed[-1]):
        ends = np.append(ends, listed.size)
    if ends.size != count:
        raise _invalid(
            node,
            f"membership_values holds {ends.size} sets for {count} nodes of mode BRANCH_MEMBER.",
            fix="Give one set of values for each such node, each followed by NaN.",
        )
    starts = np.concatenate(([0], ends[:-1] + 1))
    return tuple(listed[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True))
