"""Tree ensembles against a naive walk by the words of the specification, and against onnxruntime.

Where onnxruntime leaves the specification, the test says so: it does not transform a single score (PROBIT excepted),
names labels 1 and 0 where both of two classes have votes, and mixes two base values up.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import numpy_helper

from ort_py_kit.tolerances import assert_close

from ..oracle import run
from ..runtime_oracle import agree_with_runtime, runtime_outputs
from .tree_models import MODES, Tree, classifier, ensemble, forest, regressor, walk

ML = "ai.onnx.ml"
FEW = settings(max_examples=25, deadline=None, derandomize=True)
SEEDS = st.integers(0, 1 << 30)
REDUCE: dict[str, Any] = {"SUM": sum, "MIN": min, "MAX": max, "AVERAGE": sum}


def quarters(rng: np.random.Generator, rows: int, columns: int, dtype: Any = np.float32, nan: float = 0.0) -> Any:
    """Rows that meet thresholds exactly, some of them NaN."""
    x = rng.integers(-5, 6, (rows, columns)).astype(dtype) / dtype(4)
    x[rng.random(x.shape) < nan] = np.nan
    return x


def agree(op_type: str, x: Any, **attributes: Any) -> None:
    """`agree_with_runtime` for attributes that are tensors."""
    (actual,) = run(op_type, [x], domain=ML, opset=5 if op_type == "TreeEnsemble" else 3, **attributes)
    tensors: dict[str, Any] = {
        name: numpy_helper.from_array(value) if isinstance(value, np.ndarray) else value
        for name, value in attributes.items()
    }
    opset = 5 if op_type == "TreeEnsemble" else 3
    if op_type == "TreeEnsemble" and "post_transform" in tensors:
        tensors["post_transform"] = (0, 2, 1, 3, 4)[tensors["post_transform"]]
    (wanted,) = runtime_outputs(op_type, [x], domain=ML, opset=opset, **tensors)
    assert actual.dtype == wanted.dtype
    assert_close(actual.astype(np.float32), wanted.astype(np.float32))  # onnxruntime transforms doubles as floats


def expected(trees: Any, x: Any, targets: int, aggregate: str = "SUM") -> Any:
    """Row by row, tree by tree; a target without votes gets 0."""
    y = np.zeros((len(x), targets))
    for r, row in enumerate(x):
        votes = [vote for tree in trees for vote in walk(tree, row)]
        for target in range(targets):
            weights = [weight for which, weight in votes if which == target]
            if weights:
                y[r, target] = REDUCE[aggregate](weights) / (len(trees) if aggregate == "AVERAGE" else 1)
    return y


@FEW
@given(SEEDS, st.sampled_from(["SUM", "AVERAGE", "MIN", "MAX"]), st.sampled_from([1, 3]), st.sampled_from([0, 1, 7]))
def test_regressor_walks_every_mode(seed: int, aggregate: str, targets: int, rows: int) -> None:
    """Comparisons of every kind, NaN on either branch, leaves with several votes, no rows, one row, several."""
    rng = np.random.default_rng(seed)
    trees = forest(rng, targets=range(targets), modes=MODES[:6], votes=2, missing=True)
    x = quarters(rng, rows, 3, nan=0.2)
    attributes = regressor(trees, targets, aggregate_function=aggregate)
    (y,) = run("TreeEnsembleRegressor", [x], domain=ML, opset=3, **attributes)
    assert_close(y, expected(trees, x, targets, aggregate).astype(np.float32))


@FEW
@given(SEEDS, st.sampled_from(["SUM", "AVERAGE", "MIN", "MAX"]), st.sampled_from([1, 3]))
def test_regressor_agrees_with_onnxruntime(seed: int, aggregate: str, targets: int) -> None:
    """Same trees, same rows, base values included (onnxruntime loses those of targets that get no votes)."""
    rng = np.random.default_rng(seed)
    trees = forest(rng, targets=range(targets), modes=MODES[:6], votes=targets, missing=True)
    attributes = regressor(trees, targets, aggregate_function=aggregate, base_values=[0.5] * targets)
    x = quarters(rng, 20, 3, nan=0.1)
    agree_with_runtime("TreeEnsembleRegressor", [x], opset=3, domain=ML, **attributes)


@pytest.mark.parametrize("post", ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"])
def test_regressor_post_transforms(post: str) -> None:
    """With several targets it works as in onnxruntime; one target alone is transformed too, as the specification
    says.
    """
    rng = np.random.default_rng(3)
    trees = forest(rng, targets=range(3), low=0.0, trees=1, votes=3)
    x = quarters(rng, 9, 3)
    attributes = regressor(trees, 3, post_transform=post)
    agree_with_runtime("TreeEnsembleRegressor", [x], opset=3, domain=ML, **attributes)


def test_a_single_score_is_transformed() -> None:
    """LOGISTIC of one target: onnxruntime returns the raw score, the specification names no exception."""
    rng = np.random.default_rng(4)
    trees = forest(rng)
    x = quarters(rng, 5, 3)
    attributes = regressor(trees, post_transform="LOGISTIC")
    (y,) = run("TreeEnsembleRegressor", [x], domain=ML, opset=3, **attributes)
    assert_close(y, (1 / (1 + np.exp(-expected(trees, x, 1)))).astype(np.float32))
    (raw,) = runtime_outputs("TreeEnsembleRegressor", [x], opset=3, domain=ML, **attributes)
    assert_close(raw, expected(trees, x, 1).astype(np.float32))


@pytest.mark.parametrize("opset", [1, 3, 5])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.int32])
def test_versions_and_input_types(opset: int, dtype: Any) -> None:
    """Every version, deprecated ones too, takes every type; results are float32."""
    rng = np.random.default_rng(5)
    trees = forest(rng, targets=(0,), low=0.0)
    x = rng.integers(-2, 3, (6, 3)).astype(dtype)
    (y,) = run("TreeEnsembleRegressor", [x], domain=ML, opset=opset, **regressor(trees))
    assert_close(y, expected(trees, x.astype(np.float64), 1).astype(np.float32))
    labels, scores = run("TreeEnsembleClassifier", [x], domain=ML, opset=opset, outputs=2, **classifier(trees, [5, 6]))
    assert (labels.dtype, scores.dtype) == (np.int64, np.float32)
    if opset != 5:
        agree_with_runtime(
            "TreeEnsembleClassifier", [x], opset=opset, domain=ML, outputs=2, **classifier(trees, [5, 6])
        )


def test_doubles_are_compared_as_doubles() -> None:
    """Thresholds and weights given as tensors keep their precision, between two floats too."""
    tree = Tree("BRANCH_LEQ", true=Tree(votes=((0, 10.0),)), false=Tree(votes=((0, 20.0),)))
    attributes = regressor([tree])
    split = 1 + 1e-12
    del attributes["nodes_values"], attributes["target_weights"]
    attributes["nodes_values_as_tensor"] = np.array([split, 0, 0])
    attributes["target_weights_as_tensor"] = np.array([10.0, 20.0])
    x = np.array([[1.0], [split], [1 + 2e-12]])
    (y,) = run("TreeEnsembleRegressor", [x], domain=ML, opset=3, **attributes)
    np.testing.assert_array_equal(y, [[10], [10], [20]])
    agree("TreeEnsembleRegressor", x, **attributes)


def test_large_integers_are_not_rounded() -> None:
    """2²⁴ + 1 is greater than 2²⁴, though not as a float32 (onnxruntime compares these)."""
    attributes = {
        "nodes_treeids": [0, 0, 0],
        "nodes_nodeids": [0, 1, 2],
        "nodes_featureids": [0, 0, 0],
        "nodes_values": [float(1 << 24), 0.0, 0.0],
        "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
        "nodes_truenodeids": [1, 0, 0],
        "nodes_falsenodeids": [2, 0, 0],
        "n_targets": 1,
        "target_ids": [0, 0],
        "target_treeids": [0, 0],
        "target_nodeids": [1, 2],
        "target_weights": [1.0, 2.0],
    }
    x = np.array([[1 << 24], [(1 << 24) + 1]], np.int64)
    (y,) = run("TreeEnsembleRegressor", [x], domain=ML, opset=3, **attributes)
    np.testing.assert_array_equal(y, [[1], [2]])


@FEW
@given(SEEDS, st.sampled_from([np.float16, np.float32, np.float64]), st.integers(0, 3), st.sampled_from([1, 3]))
def test_tree_ensemble_with_sets(seed: int, dtype: Any, aggregate: int, targets: int) -> None:
    """Version 5: every mode, membership in sets too, trees that are leaves, every type in and out."""
    rng = np.random.default_rng(seed)
    trees = forest(rng, targets=range(targets), modes=MODES, missing=True)
    x = quarters(rng, 11, 3, dtype, nan=0.2)
    attributes = ensemble(trees, dtype, targets, aggregate_function=aggregate)
    (y,) = run("TreeEnsemble", [x], domain=ML, opset=5, **attributes)
    name = ("AVERAGE", "SUM", "MIN", "MAX")[aggregate]
    assert_close(y, expected(trees, x, targets, name).astype(dtype))


@FEW
@given(SEEDS, st.integers(0, 4), st.sampled_from([np.float32, np.float64]))
def test_tree_ensemble_agrees_with_onnxruntime(seed: int, post: int, dtype: Any) -> None:
    """Sets and post transforms by their numbers; onnx.reference ignores the latter, and reads sets in another order.

    onnxruntime knows sets of integers, in which it looks for the integer part of a value, and it has
    the numbers of SOFTMAX (1) and LOGISTIC (2) the wrong way round.
    """
    rng = np.random.default_rng(seed)
    trees = forest(rng, targets=range(3), modes=MODES, trees=2, low=0.01, whole_members=True)
    post = min(post, 3) if dtype == np.float64 else post  # in single precision PROBIT is too different
    x = np.rint(quarters(rng, 20, 3, dtype))
    attributes = ensemble(trees, dtype, 3, post_transform=post)
    if post == 4:  # of sums outside (0, 1) the result is NaN, whose sign is not specified
        x = x[[bool((row < 1).all()) for row in expected(trees, x, 3)]]
    agree("TreeEnsemble", x, **attributes)


@pytest.mark.parametrize("base", [None, [0.25]])
@pytest.mark.parametrize("post", ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"])
@pytest.mark.parametrize("low", [0.0, -1.0])
@pytest.mark.parametrize("target", [0, 1])
@pytest.mark.parametrize("labels", [[5, 6], ["no", "yes"]], ids=["integers", "strings"])
def test_binary_decisions_are_onnxruntimes(target: int, low: float, post: str, base: Any, labels: Any) -> None:
    """Two labels, and votes for one of them: thresholds and pairs of scores are nowhere specified."""
    rng = np.random.default_rng(8)
    trees = forest(rng, targets=(target,), low=low, trees=2)
    attributes = classifier(trees, labels, post_transform=post, **({} if base is None else {"base_values": base}))
    x = quarters(rng, 12, 3)
    agree_with_runtime("TreeEnsembleClassifier", [x], opset=3, domain=ML, outputs=2, **attributes)


def test_probit_of_a_binary_decision_fills_both_columns() -> None:
    """onnxruntime writes the first only; the second is the quantile of s."""
    rng = np.random.default_rng(9)
    trees = forest(rng, trees=1, low=0.1)
    x = quarters(rng, 4, 3)
    _, scores = run(
        "TreeEnsembleClassifier",
        [x],
        opset=3,
        domain=ML,
        outputs=2,
        **classifier(trees, [0, 1], post_transform="PROBIT"),
    )
    assert_close(scores[:, 0], -scores[:, 1])


@FEW
@given(SEEDS, st.sampled_from(["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"]), st.booleans())
def test_several_classes_agree_with_onnxruntime(seed: int, post: str, base: bool) -> None:
    """Each leaf votes for every class, with a base value for each or none."""
    rng = np.random.default_rng(seed)
    trees = forest(rng, targets=range(4), votes=4)
    others: dict[str, Any] = {"base_values": [0.1, 0.2, 0.3, 0.4]} if base else {}
    attributes = classifier(trees, ["a", "b", "c", "d"], post_transform=post, **others)
    x = quarters(rng, 10, 3)
    agree_with_runtime("TreeEnsembleClassifier", [x], opset=3, domain=ML, outputs=2, **attributes)


@pytest.mark.parametrize("base", [[], [0.25, -0.5]])
def test_two_classes_with_votes_for_both(base: list[float]) -> None:
    """The top class is named, and base values are added. onnxruntime names 1 and 0 here, and mixes base values up."""
    rng = np.random.default_rng(10)
    trees = forest(rng, targets=(0, 1), votes=2)
    x = quarters(rng, 12, 3)
    attributes = classifier(trees, [5, 6], **({"base_values": base} if base else {}))
    labels, scores = run("TreeEnsembleClassifier", [x], opset=3, domain=ML, outputs=2, **attributes)
    wanted = expected(trees, x, 2) + np.array(base or [0, 0])
    assert_close(scores, wanted.astype(np.float32))
    np.testing.assert_array_equal(labels, np.array([5, 6])[wanted.argmax(axis=1)])


def test_a_single_integer_label_is_a_decision_for_1_or_0() -> None:
    """A single string can only be itself. onnxruntime does the same."""
    rng = np.random.default_rng(11)
    trees = forest(rng)
    x = quarters(rng, 12, 3)
    agree_with_runtime("TreeEnsembleClassifier", [x], opset=3, domain=ML, outputs=2, **classifier(trees, [7]))
    labels, _ = run("TreeEnsembleClassifier", [x], opset=3, domain=ML, outputs=2, **classifier(trees, ["one"]))
    assert set(labels) == {"one"}


def test_a_vector_is_one_row() -> None:
    rng = np.random.default_rng(12)
    trees = forest(rng)
    x = quarters(rng, 1, 3)
    (y,) = run("TreeEnsembleRegressor", [x[0]], opset=3, domain=ML, **regressor(trees))
    assert_close(y, expected(trees, x, 1).astype(np.float32))


def test_many_rows_are_cut_into_blocks() -> None:
    """Blocks, their odd ends, and walks that end at very different depths give what a single row gives."""
    rng = np.random.default_rng(13)
    trees = forest(rng, trees=120, depth=3, features=5) + forest(rng, trees=1, depth=14, features=5, modes=MODES[:6])
    x = quarters(rng, 701, 5, nan=0.1)
    agree_with_runtime("TreeEnsembleRegressor", [x], opset=3, domain=ML, **regressor(trees))


def test_deep_trees_drop_walks_that_have_ended() -> None:
    """A chain of 100 comparisons: most rows leave it early, and each gets its own leaf's value."""
    depth = 100
    nodes = range(2 * depth + 1)
    inner = [node % 2 == 0 and node < 2 * depth for node in nodes]
    attributes = {
        "nodes_treeids": [0] * len(nodes),
        "nodes_nodeids": list(nodes),
        "nodes_featureids": [0] * len(nodes),
        "nodes_values": [float(node // 2) for node in nodes],
        "n_targets": 1,
        "nodes_modes": ["BRANCH_LEQ" if is_inner else "LEAF" for is_inner in inner],
        "nodes_truenodeids": [node + 1 if is_inner else 0 for node, is_inner in enumerate(inner)],
        "nodes_falsenodeids": [node + 2 if is_inner else 0 for node, is_inner in enumerate(inner)],
    }
    leaves = [node for node in nodes if not inner[node]]
    attributes |= {"target_ids": [0] * len(leaves), "target_treeids": [0] * len(leaves), "target_nodeids": leaves}
    attributes["target_weights"] = [float(place) for place in range(len(leaves))]
    x = np.random.default_rng(14).geometric(0.1, (500, 1)).astype(np.float32) - 1
    (y,) = run("TreeEnsembleRegressor", [x], domain=ML, opset=3, **attributes)
    np.testing.assert_array_equal(y, np.minimum(x, depth))


def test_nodes_may_share_a_child() -> None:
    """Converters write sets of categories as a chain of "equals" whose true branches all lead to one node."""
    attributes = {
        "nodes_treeids": [0] * 4,
        "nodes_nodeids": [0, 1, 2, 3],
        "nodes_featureids": [0] * 4,
        "nodes_values": [1.0, 3.0, 0.0, 0.0],
        "nodes_modes": ["BRANCH_EQ", "BRANCH_EQ", "LEAF", "LEAF"],
        "nodes_truenodeids": [2, 2, 0, 0],
        "nodes_falsenodeids": [1, 3, 0, 0],
        "n_targets": 1,
        "target_ids": [0, 0],
        "target_treeids": [0, 0],
        "target_nodeids": [2, 3],
        "target_weights": [1.0, 2.0],
    }
    x = np.array([[1], [2], [3], [4]], np.float32)
    (y,) = run("TreeEnsembleRegressor", [x], domain=ML, opset=3, **attributes)
    np.testing.assert_array_equal(y, [[1], [2], [1], [2]])


def test_sparse_votes_for_many_targets() -> None:
    """Each tree votes for one of 300 targets: votes are collected by target, not through a table."""
    rng = np.random.default_rng(15)
    trees = [tree for target in range(300) for tree in forest(rng, trees=1, depth=3, targets=(target,))]
    x = quarters(rng, 9, 3)
    for aggregate in ("SUM", "AVERAGE", "MIN", "MAX"):
        attributes = regressor(trees, 300, aggregate_function=aggregate)
        (y,) = run("TreeEnsembleRegressor", [x], domain=ML, opset=3, **attributes)
        assert_close(y, expected(trees, x, 300, aggregate).astype(np.float32))
