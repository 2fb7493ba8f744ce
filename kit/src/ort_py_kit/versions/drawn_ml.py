"""Cases of the operators of ``ai.onnx.ml`` that the backend suite lacks, with numbers that can be checked by hand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ort_py_kit.backend_cases import SuiteCase
from ort_py_kit.versions.history import OperatorVersion
from ort_py_kit.versions.making import made_case


def drawn_ml_cases() -> Iterator[SuiteCase]:
    """All of them; fresh arrays in each call."""
    yield from _features()
    yield from _words()
    yield from _maps()
    yield from _linear()
    yield from _machines()
    yield from _trees()


def _ml(op_type: str, version: int = 1) -> OperatorVersion:
    return OperatorVersion("ai.onnx.ml", op_type, version)


def _floats(*rows: Any) -> Any:
    return np.array(rows, np.float32)


def _words_of(*words: str) -> Any:
    return np.array(words, object)


def _features() -> Iterator[SuiteCase]:
    x = _floats([1, 2, -2], [0, -4, 3])
    yield made_case(
        "test_ml_scaler",
        _ml("Scaler"),
        [x],
        [(x - _floats(1, 0, -1)) * _floats(2, 0.5, -1)],
        offset=[1.0, 0.0, -1.0],
        scale=[2.0, 0.5, -1.0],
    )
    norms = {"MAX": x.max(1, keepdims=True), "L1": np.abs(x).sum(1, keepdims=True)}
    norms["L2"] = np.sqrt((x**2).sum(1, keepdims=True))
    for norm, divisor in norms.items():
        yield made_case(f"test_ml_normalizer_{norm.lower()}", _ml("Normalizer"), [x], [x / divisor], norm=norm)
    missing = _floats([1, np.nan], [np.nan, 4])
    yield made_case(
        "test_ml_imputer_nan",
        _ml("Imputer"),
        [missing],
        [_floats([1, 20], [10, 4])],
        imputed_value_floats=[10.0, 20.0],
        replaced_value_float=float("nan"),
    )
    whole = np.array([[1, -9], [-9, 4]], np.int64)
    yield made_case(
        "test_ml_imputer_int64",
        _ml("Imputer"),
        [whole],
        [np.array([[1, 7], [7, 4]], np.int64)],
        imputed_value_int64s=[7],
        replaced_value_int64=-9,
    )
    other = _floats([7], [8])
    yield made_case(
        "test_ml_feature_vectorizer",
        _ml("FeatureVectorizer"),
        [x, other],
        [np.concatenate([x, other], 1)],
        inputdimensions=[3, 1],
    )
    for title, zeros, numbers in (("", 1, [3, 1]), ("_unknown", 1, [9, 1])):
        hot = (np.array(numbers)[:, None] == np.array([1, 2, 3])).astype(np.float32)
        given = np.array(numbers, np.int64)
        yield made_case(
            f"test_ml_one_hot_encoder{title}", _ml("OneHotEncoder"), [given], [hot], cats_int64s=[1, 2, 3], zeros=zeros
        )


def _words() -> Iterator[SuiteCase]:
    words, numbers = _words_of("b", "z", "a"), np.array([1, -7, 0], np.int64)
    yield made_case(
        "test_ml_label_encoder_old_words",
        _ml("LabelEncoder"),
        [words],
        [np.array([1, -5, 0], np.int64)],
        classes_strings=["a", "b"],
        default_int64=-5,
    )
    yield made_case(
        "test_ml_label_encoder_old_numbers",
        _ml("LabelEncoder"),
        [np.array([1, 9, 0], np.int64)],
        [_words_of("b", "none", "a")],
        classes_strings=["a", "b"],
        default_string="none",
    )
    maps: dict[str, Any] = {"cats_int64s": [0, 1], "cats_strings": ["a", "b"]}
    mapper = _ml("CategoryMapper")
    found = np.array([1, -1, 0], np.int64)
    yield made_case("test_ml_category_mapper_words", mapper, [words], [found], **maps)
    yield made_case("test_ml_category_mapper_numbers", mapper, [numbers], [_words_of("b", "_Unused", "a")], **maps)


def _maps() -> Iterator[SuiteCase]:
    yield made_case(
        "test_ml_dict_vectorizer",
        _ml("DictVectorizer"),
        [{"b": 4.0, "d": 8.0}],
        [_floats([0, 4, 0])],
        string_vocabulary=["a", "b", "c"],
    )
    yield made_case("test_ml_cast_map_dense", _ml("CastMap"), [{0: 1.5, 2: 2.5}], [_floats([1.5, 2.5])])
    yield made_case(
        "test_ml_cast_map_sparse",
        _ml("CastMap"),
        [{0: 1.5, 2: 2.5}],
        [_floats([1.5, 0, 2.5, 0])],
        map_form="SPARSE",
        max_map=4,
    )
    rows = _floats([0.25, 0.75], [1, 0])
    named = [dict(zip(("a", "b"), row.tolist(), strict=True)) for row in rows]
    yield made_case("test_ml_zip_map", _ml("ZipMap"), [rows], [named], classlabels_strings=["a", "b"])


def _linear() -> Iterator[SuiteCase]:
    x = _floats([1, 2], [-1, 3], [0.5, -2])
    weights, offsets = _floats([1, -1], [0.5, 2], [-1, 0]), _floats(0.1, -0.2, 0.3)
    scores = x @ weights.T + offsets
    given = {"coefficients": weights.reshape(-1).tolist(), "intercepts": offsets.tolist()}
    yield made_case("test_ml_linear_regressor", _ml("LinearRegressor"), [x], [scores], targets=3, **given)
    labels = np.array([10, 20, 30], np.int64)
    powers = np.exp(scores - scores.max(1, keepdims=True))
    for title, results in (("NONE", scores), ("SOFTMAX", powers / powers.sum(1, keepdims=True))):
        yield made_case(
            f"test_ml_linear_classifier_{title.lower()}",
            _ml("LinearClassifier"),
            [x],
            [labels[scores.argmax(1)], results],
            classlabels_ints=labels.tolist(),
            multi_class=1,
            post_transform=title,
            **given,
        )


def _machines() -> Iterator[SuiteCase]:
    x = _floats([1, 2], [-1, 3], [0.5, -2])
    vectors, dual, rho = _floats([1, 0], [0, 1], [2, 2]), _floats(0.5, -1, 0.25), np.float32(0.75)
    gamma = 0.5
    radial = np.exp(-gamma * ((x[:, None] - vectors) ** 2).sum(2))
    for kind, products in (("LINEAR", x @ vectors.T), ("RBF", radial)):
        yield made_case(
            f"test_ml_svm_regressor_{kind.lower()}",
            _ml("SVMRegressor"),
            [x],
            [(products @ dual + rho).astype(np.float32)[:, None]],
            coefficients=dual.tolist(),
            kernel_params=[gamma, 0.0, 3.0],
            kernel_type=kind,
            n_supports=3,
            rho=[float(rho)],
            support_vectors=vectors.reshape(-1).tolist(),
        )
    weights, offsets = _floats([1, -1], [0.5, 2]), _floats(0.1, -0.2)
    scores = x @ weights.T + offsets  # without support vectors it is a linear classifier
    yield made_case(
        "test_ml_svm_classifier_linear",
        _ml("SVMClassifier"),
        [x],
        [np.array([4, 7], np.int64)[scores.argmax(1)], (x @ weights.T + offsets[0]).astype(np.float32)],
        classlabels_ints=[4, 7],
        coefficients=weights.reshape(-1).tolist(),
        kernel_params=[0.0, 0.0, 0.0],
        kernel_type="LINEAR",
        rho=[float(offsets[0])],
    )


_STUMPS: dict[str, Any] = {
    "nodes_treeids": [0, 0, 0, 1, 1, 1],
    "nodes_nodeids": [0, 1, 2, 0, 1, 2],
    "nodes_featureids": [0, 0, 0, 1, 0, 0],
    "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF", "BRANCH_GT", "LEAF", "LEAF"],
    "nodes_values": [0.5, 0.0, 0.0, 1.0, 0.0, 0.0],
    "nodes_truenodeids": [1, 0, 0, 1, 0, 0],
    "nodes_falsenodeids": [2, 0, 0, 2, 0, 0],
    "nodes_missing_value_tracks_true": [0] * 6,
    "nodes_hitrates": [1.0] * 6,
}
"""Two trees of one branch each: on x[0] <= 0.5 and on x[1] > 1."""


def _trees() -> Iterator[SuiteCase]:
    x = _floats([0.5, 1], [0.6, 1.5], [-3, 2])
    first, second = x[:, 0] <= 0.5, x[:, 1] > 1
    leaves = {"treeids": [0, 0, 1, 1], "nodeids": [1, 2, 1, 2]}
    total = np.where(first, 1.0, 2.0) + np.where(second, 10.0, 20.0)
    for aggregate, result in (("SUM", total), ("AVERAGE", total / 2)):
        yield made_case(
            f"test_ml_tree_ensemble_regressor_{aggregate.lower()}",
            _ml("TreeEnsembleRegressor", 3),
            [x],
            [result.astype(np.float32)[:, None]],
            aggregate_function=aggregate,
            n_targets=1,
            target_ids=[0] * 4,
            target_weights=[1.0, 2.0, 10.0, 20.0],
            **{f"target_{name}": value for name, value in leaves.items()},
            **_STUMPS,
        )
    votes = np.stack([np.where(first, 3.0, 0.0) + np.where(second, 0.0, 2.0), np.where(first, 0.0, 1.0)], 1)
    votes[:, 1] += np.where(second, 1.5, 0.0)
    yield made_case(
        "test_ml_tree_ensemble_classifier",
        _ml("TreeEnsembleClassifier", 3),
        [x],
        [np.array([5, 6], np.int64)[votes.argmax(1)], votes.astype(np.float32)],
        class_ids=[0, 1, 1, 0],
        class_weights=[3.0, 1.0, 1.5, 2.0],
        classlabels_int64s=[5, 6],
        **{f"class_{name}": value for name, value in leaves.items()},
        **_STUMPS,
    )
