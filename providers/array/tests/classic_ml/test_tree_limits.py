"""Trees that are damaged or hostile are refused when the node is bound; none keeps a walk from ending."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ort_py.errors import InvalidArgument, InvalidGraph, LimitError
from ort_py_kit.kernel_runner import LocalKernelContext, make_node_spec

from ..oracle import DEFINITIONS, run
from .tree_models import MODES, Tree, classifier, ensemble, forest, regressor

ML = "ai.onnx.ml"
X = np.zeros((2, 3), np.float32)


def trees() -> list[Tree]:
    """Two trees of several nodes."""
    return forest(np.random.default_rng(1), trees=2, depth=3)


def change(name: str, at: int, value: Any) -> Callable[[dict[str, Any]], None]:
    """Sets one entry of an attribute."""

    def apply(attributes: dict[str, Any]) -> None:
        values = attributes[name]
        values[at] = value

    return apply


def cut(name: str) -> Callable[[dict[str, Any]], None]:
    """Removes the last entry of an attribute."""

    def apply(attributes: dict[str, Any]) -> None:
        attributes[name] = attributes[name][:-1]

    return apply


def put(name: str, value: Any) -> Callable[[dict[str, Any]], None]:
    """Sets an attribute."""

    def apply(attributes: dict[str, Any]) -> None:
        attributes[name] = value

    return apply


@pytest.mark.parametrize(
    ("damage", "text"),
    [
        (change("nodes_truenodeids", 1, 0), "cycle"),
        (change("nodes_falsenodeids", 1, 1), "The trees have a cycle: a walk would never leave node"),
        (change("nodes_truenodeids", 0, 99), "The child 99 of tree 0 does not exist"),
        (change("nodes_truenodeids", 0, -1), "The child -1 of tree 0 does not exist"),
        (change("nodes_nodeids", 1, 0), "Node 0 of tree 0 is described twice"),
        (change("nodes_featureids", 0, -2), "The feature index -2 does not exist"),
        (change("nodes_modes", 0, "BRANCH_MAYBE"), "nodes_modes has 'BRANCH_MAYBE'"),
        (change("nodes_modes", 0, "BRANCH_MEMBER"), "nodes_modes has 'BRANCH_MEMBER'"),
        (change("target_ids", 0, 7), "target_ids names target or class 7, and there are 1"),
        (change("target_ids", 0, -1), "target_ids names target or class -1"),
        (change("target_nodeids", 0, 99), "The voting node 99 of tree 0 does not exist"),
        (cut("nodes_values"), "nodes_values has"),
        (cut("target_weights"), "target_weights has"),
        (cut("nodes_modes"), "nodes_modes has"),
        (put("base_values", [1.0, 2.0]), "base_values has 2 entries; it needs 1, or none"),
        (put("nodes_values_as_tensor", np.zeros(3)), "Both nodes_values and nodes_values_as_tensor are given"),
        (put("n_targets", 0), "n_targets is 0"),
        (put("post_transform", "EXP"), "post_transform is 'EXP'"),
        (put("aggregate_function", "MEDIAN"), "aggregate_function is 'MEDIAN'"),
    ],
)
def test_damaged_lists_of_nodes(damage: Callable[[dict[str, Any]], None], text: str) -> None:
    """With the attribute or the node, and what to do."""
    attributes = regressor(trees())
    damage(attributes)
    with pytest.raises((InvalidArgument, InvalidGraph), match=re.escape(text)) as caught:
        run("TreeEnsembleRegressor", [X], opset=3, domain=ML, **attributes)
    assert caught.value.fix


def test_a_tree_in_a_circle_has_no_root() -> None:
    attributes = {
        "nodes_treeids": [0, 0],
        "nodes_nodeids": [0, 1],
        "nodes_featureids": [0, 0],
        "nodes_values": [0.0, 0.0],
        "nodes_modes": ["BRANCH_LEQ"] * 2,
        "nodes_truenodeids": [1, 0],
        "nodes_falsenodeids": [1, 0],
        "n_targets": 1,
    }
    with pytest.raises(InvalidGraph, match="Tree 0 has a cycle"):
        run("TreeEnsembleRegressor", [X], opset=3, domain=ML, **attributes)


@pytest.mark.parametrize(
    ("damage", "text"),
    [
        (change("nodes_truenodeids", 0, 99), "nodes_truenodeids names"),
        (change("nodes_falsenodeids", 0, -1), "nodes_falsenodeids names"),
        (change("tree_roots", 0, 99), "tree_roots names node 99"),
        (change("tree_roots", 0, -1), "tree_roots names node -1"),
        (change("nodes_modes", 0, 7), "nodes_modes has the values"),
        (change("leaf_targetids", 0, 1), "leaf_targetids names target or class 1"),
        (put("membership_values", np.array([1, np.nan, 2, np.nan, 3, np.nan], np.float32)), "holds 3 sets for 1 nodes"),
        (put("post_transform", 5), "post_transform is 5"),
        (put("aggregate_function", -1), "aggregate_function is -1"),
        (cut("nodes_splits"), "nodes_splits has"),
    ],
)
def test_damaged_index_form(damage: Callable[[dict[str, Any]], None], text: str) -> None:
    """TreeEnsemble 5, with the attribute's name."""
    tree = Tree("BRANCH_MEMBER", members=(1.0,), true=trees()[0], false=trees()[1])
    attributes = ensemble([tree], np.float32)
    damage(attributes)
    with pytest.raises((InvalidArgument, InvalidGraph), match=re.escape(text)) as caught:
        run("TreeEnsemble", [X], opset=5, domain=ML, **attributes)
    assert caught.value.fix


def test_a_missing_tensor_is_named() -> None:
    """An attribute that the specification requires."""
    attributes = ensemble(trees(), np.float32)
    del attributes["leaf_weights"]
    with pytest.raises(InvalidGraph, match="The attribute leaf_weights is missing"):
        run("TreeEnsemble", [X], opset=5, domain=ML, **attributes)


def test_cycles_of_the_index_form() -> None:
    """A node that leads back to the root."""
    attributes = ensemble([Tree("BRANCH_LEQ", true=Tree(votes=((0, 1.0),)), false=Tree(votes=((0, 2.0),)))], np.float32)
    attributes |= {"nodes_trueleafs": [0], "nodes_truenodeids": [0]}
    with pytest.raises(InvalidGraph, match="never leave node 0"):
        run("TreeEnsemble", [X], opset=5, domain=ML, **attributes)


def test_rows_that_are_too_short() -> None:
    """The column that a node wants is named."""
    attributes = regressor([Tree("BRANCH_LEQ", 4, true=Tree(votes=((0, 1.0),)), false=Tree(votes=((0, 2.0),)))])
    with pytest.raises(InvalidArgument, match="has 3 columns, and the trees look at column 4") as caught:
        run("TreeEnsembleRegressor", [X], opset=3, domain=ML, **attributes)
    assert "at least 5 features" in caught.value.fix
    with pytest.raises(InvalidArgument, match="needs rank 1 or 2"):
        run("TreeEnsembleRegressor", [X[None]], opset=3, domain=ML, **attributes)


def test_a_classifier_needs_labels() -> None:
    """Without them there is nothing to return."""
    attributes = classifier(trees(), [1, 2])
    del attributes["classlabels_int64s"]
    with pytest.raises(InvalidGraph, match="has no labels"):
        run("TreeEnsembleClassifier", [X], opset=3, domain=ML, outputs=2, **attributes)


class Capped(LocalKernelContext):
    """Refuses arrays above a million elements."""

    def check_allocation(self, shape: Any, dtype: Any) -> None:
        if np.prod([float(size) for size in shape]) > 1e6:
            raise LimitError("too large")


def test_an_enormous_number_of_targets_is_announced() -> None:
    """The attribute decides the size of the result, not of anything made before the engine is asked."""
    node = make_node_spec(
        "TreeEnsembleRegressor", [X], domain=ML, opset=3, attributes=regressor(trees(), targets=1 << 40)
    )
    definition = next(one for one in DEFINITIONS if one.op_type == "TreeEnsembleRegressor")
    with pytest.raises(LimitError, match="too large"):
        definition.factory(Capped(node))(X)


def test_long_chains_that_share_children_are_bound_in_time() -> None:
    """The number of ways through 5,000 nodes that each have the next as both children is beyond counting."""
    count = 5000
    attributes = {
        "nodes_treeids": [0] * count,
        "nodes_nodeids": list(range(count)),
        "nodes_featureids": [0] * count,
        "nodes_values": [0.0] * count,
        "nodes_modes": ["BRANCH_LEQ"] * (count - 1) + ["LEAF"],
        "n_targets": 1,
        **{f"nodes_{side}nodeids": [*range(1, count), 0] for side in ("true", "false")},
        "target_ids": [0],
        "target_treeids": [0],
        "target_nodeids": [count - 1],
        "target_weights": [3.0],
    }
    start = time.perf_counter()
    (y,) = run("TreeEnsembleRegressor", [X], opset=3, domain=ML, **attributes)
    np.testing.assert_array_equal(y, [[3], [3]])
    assert time.perf_counter() - start < 5


def test_a_set_may_lack_its_last_separator() -> None:
    """The specification separates sets by NaN; whether one ends the list is left open."""
    assert MODES[-1] == "BRANCH_MEMBER"
    tree = Tree("BRANCH_MEMBER", members=(1.0, 0.0), true=Tree(votes=((0, 1.0),)), false=Tree(votes=((0, 2.0),)))
    attributes = ensemble([tree], np.float32)
    attributes["membership_values"] = attributes["membership_values"][:-1]
    (y,) = run("TreeEnsemble", [np.array([[0.0], [2.0]], np.float32)], opset=5, domain=ML, **attributes)
    np.testing.assert_array_equal(y, [[1], [2]])
