"""Random forests as attributes of the tree operators, and the naive walk that says what they compute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["MODES", "Tree", "classifier", "ensemble", "forest", "regressor", "walk"]

MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER")


@dataclass
class Tree:
    """A node: a comparison with two branches, or a leaf with votes (pairs of target and weight)."""

    mode: str = "LEAF"
    feature: int = 0
    value: float = 0.0
    missing_true: bool = False
    members: tuple[float, ...] = ()
    true: Tree | None = None
    false: Tree | None = None
    votes: tuple[tuple[int, float], ...] = ()


def forest(
    rng: np.random.Generator,
    *,
    trees: int = 5,
    depth: int = 4,
    features: int = 3,
    targets: Sequence[int] = (0,),
    modes: Sequence[str] = MODES[:1],
    votes: int = 1,
    low: float = -1.0,
    missing: bool = False,
    whole_members: bool = False,
) -> list[Tree]:
    """Random trees; thresholds are quarters, so that inputs of quarters meet them.

    With `whole_members`, sets are as onnxruntime takes them: of integers, and not empty.
    """

    def grow(level: int) -> Tree:
        if level == 0 or rng.random() < 0.2:
            chosen = rng.choice(targets, size=min(votes, len(targets)), replace=False)
            return Tree(votes=tuple((int(t), float(np.float32(rng.uniform(low, 1)))) for t in chosen))
        return Tree(
            mode=str(rng.choice(modes)),
            feature=int(rng.integers(features)),
            value=float(rng.integers(-4, 5)) / 4,
            missing_true=bool(missing and rng.random() < 0.5),
            members=tuple(
                float(v) if whole_members else float(v) / 4
                for v in rng.choice(np.arange(-4, 5), size=int(rng.integers(whole_members, 4)))
            ),
            true=grow(level - 1),
            false=grow(level - 1),
        )

    return [grow(depth) for _ in range(trees)]


def walk(tree: Tree, row: Any) -> tuple[tuple[int, float], ...]:
    """The votes of the leaf that a row comes to, by the words of the specification."""
    while tree.true is not None and tree.false is not None:
        x = row[tree.feature]
        true = {
            "BRANCH_LEQ": x <= tree.value,
            "BRANCH_LT": x < tree.value,
            "BRANCH_GTE": x >= tree.value,
            "BRANCH_GT": x > tree.value,
            "BRANCH_EQ": x == tree.value,
            "BRANCH_NEQ": x != tree.value,
            "BRANCH_MEMBER": any(x == member for member in tree.members),
        }[tree.mode]
        tree = tree.true if true or (tree.missing_true and np.isnan(x)) else tree.false
    return tree.votes


def _listed(trees: Sequence[Tree], votes: str) -> dict[str, Any]:
    names = ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids")
    attributes: dict[str, Any] = {f"nodes_{name}": [] for name in (*names, "missing_value_tracks_true")}
    attributes |= {f"{votes}_{name}": [] for name in ("ids", "treeids", "nodeids", "weights")}
    for number, tree in enumerate(trees):
        order = [tree]
        for node in order:
            order.extend(child for child in (node.true, node.false) if child is not None)
        places = {id(node): place for place, node in enumerate(order)}
        for place, node in enumerate(order):
            row = (
                *(number, place, node.feature, node.value, node.mode),
                *(places.get(id(node.true), 0), places.get(id(node.false), 0), int(node.missing_true)),
            )
            for name, value in zip((*names, "missing_value_tracks_true"), row, strict=True):
                attributes[f"nodes_{name}"].append(value)
            for target, weight in node.votes:
                for name, value in (("ids", target), ("treeids", number), ("nodeids", place), ("weights", weight)):
                    attributes[f"{votes}_{name}"].append(value)
    return attributes


def regressor(trees: Sequence[Tree], targets: int = 1, **others: Any) -> dict[str, Any]:
    """Attributes of TreeEnsembleRegressor."""
    return {**_listed(trees, "target"), "n_targets": targets, **others}


def classifier(trees: Sequence[Tree], labels: Sequence[Any], **others: Any) -> dict[str, Any]:
    """Attributes of TreeEnsembleClassifier."""
    name = "classlabels_strings" if isinstance(labels[0], str) else "classlabels_int64s"
    return {**_listed(trees, "class"), name: list(labels), **others}


def ensemble(trees: Sequence[Tree], dtype: Any, targets: int = 1, **others: Any) -> dict[str, Any]:
    """Attributes of TreeEnsemble 5, whose leaves have one vote; a tree that is a leaf becomes a node of two equals."""
    nodes: list[Tree] = []
    leaves: list[Tree] = []
    roots = []
    for tree in trees:
        top = tree if tree.true is not None else Tree("BRANCH_LEQ", true=tree, false=tree)
        roots.append(len(nodes))
        waiting = [top]
        while waiting:
            node = waiting.pop(0)
            if node.true is None or node.false is None:
                leaves.append(node)
                continue
            nodes.append(node)
            waiting.extend((node.true, node.false))
    node_places = {id(node): place for place, node in enumerate(nodes)}
    leaf_places = {id(leaf): place for place, leaf in enumerate(leaves)}
    attributes: dict[str, Any] = {"tree_roots": roots, "n_targets": targets}
    for side in ("true", "false"):
        children = [getattr(node, side) for node in nodes]
        attributes[f"nodes_{side}leafs"] = [int(child.true is None) for child in children]
        attributes[f"nodes_{side}nodeids"] = [
            leaf_places[id(child)] if child.true is None else node_places[id(child)] for child in children
        ]
    attributes["nodes_featureids"] = [node.feature for node in nodes]
    attributes["nodes_splits"] = np.array([node.value for node in nodes], dtype)
    attributes["nodes_modes"] = np.array([MODES.index(node.mode) for node in nodes], np.uint8)
    if any(node.missing_true for node in nodes):
        attributes["nodes_missing_value_tracks_true"] = [int(node.missing_true) for node in nodes]
    members = [[*node.members, np.nan] for node in nodes if node.mode == "BRANCH_MEMBER"]
    if members:
        attributes["membership_values"] = np.array([value for one in members for value in one], dtype)
    attributes["leaf_targetids"] = [leaf.votes[0][0] for leaf in leaves]
    attributes["leaf_weights"] = np.array([leaf.votes[0][1] for leaf in leaves], dtype)
    return {**attributes, **others}
