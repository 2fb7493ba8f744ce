"""Support vector machines against onnxruntime, and against the specification where onnxruntime leaves it."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ort_py.errors import InvalidArgument, InvalidGraph
from ort_py_kit.tolerances import assert_close

from ..oracle import run, sample
from ..runtime_oracle import agree_with_runtime, runtime_outputs

ML = "ai.onnx.ml"
FEW = settings(max_examples=25, deadline=None, derandomize=True)
KERNELS = ["LINEAR", "POLY", "RBF", "SIGMOID"]
POSTS = ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"]


def numbers(rng: np.random.Generator, count: int) -> list[float]:
    """Python floats that are float32."""
    return [float(value) for value in rng.uniform(-1, 1, count).astype(np.float32)]


def machine(seed: int, counts: tuple[int, ...], kernel: str, features: int = 3, **others: Any) -> dict[str, Any]:
    """Attributes of a classifier with so many support vectors for each class."""
    rng = np.random.default_rng(seed)
    classes, total = len(counts), sum(counts)
    return {
        "vectors_per_class": list(counts),
        "support_vectors": numbers(rng, total * features),
        "coefficients": numbers(rng, (classes - 1) * total),
        "rho": numbers(rng, classes * (classes - 1) // 2),
        "kernel_type": kernel,
        "kernel_params": [0.5, 0.25, 3.0],
        "classlabels_ints": list(range(5, 5 + classes)),
        **others,
    }


def rows(seed: int, count: int = 9, features: int = 3) -> Any:
    """Seeded rows."""
    return sample((count, features), np.float32, seed, -1, 1)


def classify(x: Any, **attributes: Any) -> None:
    """Against onnxruntime."""
    agree_with_runtime("SVMClassifier", [x], opset=1, outputs=2, domain=ML, **attributes)


@FEW
@given(
    st.integers(0, 999),
    st.sampled_from(KERNELS),
    st.sampled_from(POSTS),
    st.sampled_from([(2, 3), (1, 0, 3), (2,) * 5]),
)
def test_decisions_and_votes(seed: int, kernel: str, post: str, counts: tuple[int, ...]) -> None:
    """Labels by votes; scores for each pair of classes, or two columns for two classes."""
    classify(rows(seed), **machine(seed, counts, kernel, post_transform=post))


@FEW
@given(st.integers(0, 999), st.sampled_from(POSTS), st.sampled_from([(2, 3), (1, 2, 3), (2,) * 6]))
def test_probabilities(seed: int, post: str, counts: tuple[int, ...]) -> None:
    """Platt's sigmoids of the pairs, coupled to probabilities of the classes."""
    rng = np.random.default_rng(seed)
    pairs = len(counts) * (len(counts) - 1) // 2
    sigmoids: dict[str, Any] = {"prob_a": numbers(rng, pairs), "prob_b": numbers(rng, pairs)}
    classify(rows(seed, 33), **machine(seed, counts, "RBF", post_transform=post, **sigmoids))


def test_probabilities_add_up_to_one() -> None:
    rng = np.random.default_rng(0)
    attributes = machine(0, (3,) * 7, "RBF", prob_a=numbers(rng, 21), prob_b=numbers(rng, 21))
    _, scores = run("SVMClassifier", [rows(0, 50)], opset=1, outputs=2, domain=ML, **attributes)
    np.testing.assert_allclose(scores.sum(axis=1), 1, rtol=1e-5)


def test_probit_of_a_decision_fills_both_columns() -> None:
    """The input is (1 - s, s); onnxruntime leaves the second column unwritten."""
    attributes = machine(1, (1, 1), "LINEAR", rho=[0.5], coefficients=[0.01, -0.01], post_transform="PROBIT")
    _, scores = run("SVMClassifier", [rows(1)], opset=1, outputs=2, domain=ML, **attributes)
    assert_close(scores[:, 0], -scores[:, 1])


@pytest.mark.parametrize("dtype", [np.float64, np.int64, np.int32])
def test_classifier_input_types(dtype: Any) -> None:
    attributes = machine(2, (2, 1, 2), "POLY")
    del attributes["classlabels_ints"]
    classify((4 * rows(2)).astype(dtype), classlabels_strings=["a", "b", "c"], **attributes)


def test_linear_classifier_of_three() -> None:
    """Without support vectors, one linear function a class, all with the first rho."""
    rng = np.random.default_rng(3)
    attributes = {"coefficients": numbers(rng, 9), "rho": [0.25], "classlabels_ints": [5, 6, 7]}
    classify(rows(3), kernel_params=[0.0, 0.0, 0.0], **attributes)


def test_linear_classifier_of_two_names_the_greater_score() -> None:
    """onnxruntime names the second label where any score is positive."""
    rng = np.random.default_rng(4)
    x = rows(4, 30)
    attributes = {"coefficients": numbers(rng, 6), "rho": [0.1], "classlabels_ints": [5, 6], "kernel_params": [0.0] * 3}
    labels, scores = run("SVMClassifier", [x], opset=1, outputs=2, domain=ML, **attributes)
    expected = x @ np.array(attributes["coefficients"], np.float32).reshape(2, 3).T + np.float32(0.1)
    assert_close(scores, expected)
    np.testing.assert_array_equal(labels, 5 + expected.argmax(axis=1))
    theirs, same = runtime_outputs("SVMClassifier", [x], opset=1, outputs=2, domain=ML, **attributes)
    assert_close(scores, same)
    assert (labels != theirs).any()


def regressor(seed: int, kernel: str = "RBF", count: int = 4, **others: Any) -> dict[str, Any]:
    """Attributes of a regressor."""
    rng = np.random.default_rng(seed)
    return {
        "n_supports": count,
        "support_vectors": numbers(rng, 3 * count),
        "coefficients": numbers(rng, count or 3),
        "rho": numbers(rng, 1),
        "kernel_type": kernel,
        "kernel_params": [0.5, 0.25, 2.0],
        **others,
    }


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("one_class", [0, 1])
def test_regressor(kernel: str, one_class: int) -> None:
    """Each kernel; one-class machines say 1 or -1; no support vectors make a linear model."""
    for count in (4, 0):
        attributes = regressor(5, kernel, count, one_class=one_class)
        attributes = {name: value for name, value in attributes.items() if value != []}
        agree_with_runtime("SVMRegressor", [rows(5)], opset=1, domain=ML, **attributes)


@pytest.mark.parametrize("dtype", [np.float64, np.int64, np.int32])
def test_regressor_input_types(dtype: Any) -> None:
    """All that the schema allows (onnxruntime has float32 only); a vector is one row."""
    x = np.rint(4 * rows(6))
    (wanted,) = runtime_outputs("SVMRegressor", [x], opset=1, domain=ML, **regressor(6))
    (y,) = run("SVMRegressor", [x.astype(dtype)], opset=1, domain=ML, **regressor(6))
    assert_close(y, wanted)
    (first,) = run("SVMRegressor", [x[0].astype(dtype)], opset=1, domain=ML, **regressor(6))
    assert_close(first, wanted[:1])


def test_regressor_post_transform() -> None:
    """The transform follows the specification; onnxruntime ignores it."""
    (raw,) = run("SVMRegressor", [rows(7)], opset=1, domain=ML, **regressor(7))
    (y,) = run("SVMRegressor", [rows(7)], opset=1, domain=ML, **regressor(7, post_transform="LOGISTIC"))
    assert_close(y, 1 / (1 + np.exp(-raw)))


def test_near_vectors_far_from_the_origin() -> None:
    """The distance of an RBF kernel does not drown in the squares of large coordinates."""
    vectors = np.array([[1000.0, 1000.5, 999.5], [1001.0, 1000.0, 1000.25]], np.float32)
    x = vectors[:1] + np.float32(0.5)
    attributes = {"support_vectors": vectors.reshape(-1).tolist(), "coefficients": [1.0, 1.0], "rho": [0.0]}
    (y,) = run(
        "SVMRegressor",
        [x],
        opset=1,
        domain=ML,
        n_supports=2,
        kernel_type="RBF",
        kernel_params=[1.0, 0, 0],
        **attributes,
    )
    distances = ((x.astype(np.float64) - vectors) ** 2).sum(axis=1)
    np.testing.assert_allclose(y, [[np.exp(-distances).sum()]], rtol=1e-6)


def test_many_rows_are_cut_into_blocks() -> None:
    """More comparisons than a block has; no rows at all."""
    attributes = machine(8, (300, 300), "RBF")
    classify(rows(8, 1500), **attributes)
    labels, scores = run("SVMClassifier", [rows(8, 0)], opset=1, outputs=2, domain=ML, **attributes)
    assert (labels.shape, scores.shape) == ((0,), (0, 2))


@pytest.mark.parametrize(
    ("changes", "text", "fix"),
    [
        ({"rho": []}, "rho has 0 entries; it needs 1", "export the model again"),
        ({"coefficients": [1.0]}, "coefficients has 1 entries; it needs 5", "export the model again"),
        ({"prob_a": [1.0], "prob_b": []}, "prob_b has 0 entries; it needs 1", "export the model again"),
        ({"support_vectors": [1.0]}, "support_vectors has 1 entries, which do not make 5", "export the model again"),
        (
            {"vectors_per_class": [5]},
            "vectors_per_class is (5,), and there are 2 class labels",
            "one number of vectors",
        ),
        ({"vectors_per_class": [-1, 6]}, "vectors_per_class is (-1, 6)", "one number of vectors"),
        ({"classlabels_ints": []}, "The classifier has no labels", "classlabels_ints"),
        ({"vectors_per_class": [], "rho": []}, "rho has 0 entries", "export the model again"),
        (
            {"vectors_per_class": [], "coefficients": [1.0]},
            "coefficients has 1 entries; it needs 2",
            "export the model",
        ),
        ({"kernel_type": "CUBIC"}, "kernel_type is 'CUBIC'", "Use LINEAR, POLY, RBF or SIGMOID"),
        ({"kernel_params": [1.0]}, "kernel_params has 1 entries", "gamma, coef0 and degree"),
        ({"post_transform": "EXP"}, "post_transform is 'EXP'", "Use NONE"),
    ],
)
def test_damaged_classifiers_are_refused(changes: dict[str, Any], text: str, fix: str) -> None:
    """When the node is bound, with the attribute's name."""
    attributes = {**machine(9, (2, 3), "RBF"), **changes}
    attributes = {name: value for name, value in attributes.items() if value != []}
    with pytest.raises((InvalidArgument, InvalidGraph), match=re.escape(text)) as caught:
        run("SVMClassifier", [rows(9)], opset=1, outputs=2, domain=ML, **attributes)
    assert fix in caught.value.fix


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"rho": []}, "rho has 0 entries; it needs 1"),
        ({"coefficients": [1.0]}, "coefficients has 1 entries; it needs 4"),
        ({"n_supports": 1 << 60}, f"coefficients has 4 entries; it needs {1 << 60}"),
        ({"support_vectors": [1.0, 2.0, 3.0]}, "which do not make 4 vectors"),
    ],
)
def test_damaged_regressors_are_refused(changes: dict[str, Any], text: str) -> None:
    attributes = {name: value for name, value in {**regressor(9), **changes}.items() if value != []}
    with pytest.raises(InvalidGraph, match=re.escape(text)):
        run("SVMRegressor", [rows(9)], opset=1, domain=ML, **attributes)


def test_rows_of_the_wrong_width_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="has 4 columns, and the model has 3 features") as caught:
        run("SVMRegressor", [rows(9, 2, 4)], opset=1, domain=ML, **regressor(9))
    assert "3 features" in caught.value.fix
