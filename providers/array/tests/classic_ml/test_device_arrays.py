"""Kernels of numbers run on arrays that refuse NumPy and every hidden wait, and give what NumPy's give.

The backend suite has few cases of this domain, so `test_portability` sends its operators here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ort_py_kit.kernel_runner import LocalKernelContext, make_node_spec
from ort_py_kit.tolerances import assert_close

from ..oracle import DEFINITIONS, run, sample
from ..standin import StandInArray, array_module, to_device, to_host
from .test_svm import machine, regressor
from .tree_models import MODES, classifier, ensemble, forest
from .tree_models import regressor as trees_of

ML = "ai.onnx.ml"
X = np.rint(4 * sample((20, 3), np.float32)) / np.float32(4)
WITH_NAN = np.where(X > 2, np.float32(np.nan), X)
RNG = np.random.default_rng(0)
TREES = forest(RNG, modes=MODES[:6], targets=(0, 1, 2), votes=3, missing=True, depth=10)
SETS = forest(RNG, modes=MODES, targets=(0, 1), missing=True)
PAIRS: dict[str, Any] = {"prob_a": [-0.5, 0.2, 0.4], "prob_b": [0.1, 0.2, -0.3]}

CASES: dict[str, tuple[str, int, Any, dict[str, Any]]] = {
    "linear classifier": (
        *("LinearClassifier", 1, X),
        {"coefficients": [1.0, 2.0, 3.0], "intercepts": [0.5], "post_transform": "LOGISTIC"},
    ),
    "linear regressor": ("LinearRegressor", 1, X, {"coefficients": [1.0, 2.0, 3.0], "post_transform": "PROBIT"}),
    "normalizer": ("Normalizer", 1, X, {"norm": "L2"}),
    "scaler": ("Scaler", 1, X, {"offset": [1.0], "scale": [1.0, 2.0, 3.0]}),
    "binarizer": ("Binarizer", 1, X, {"threshold": 0.5}),
    "imputer": ("Imputer", 1, WITH_NAN, {"imputed_value_floats": [1.0], "replaced_value_float": float("nan")}),
    "vectorizer": ("FeatureVectorizer", 1, X, {"inputdimensions": [4]}),
    "one hot": ("OneHotEncoder", 1, X, {"cats_int64s": [0, 1, -1]}),
    "svm decisions": ("SVMClassifier", 1, X, machine(0, (2, 1, 2), "SIGMOID")),
    "svm probabilities": ("SVMClassifier", 1, X, machine(0, (2, 1, 2), "RBF", **PAIRS)),
    "svm regressor": ("SVMRegressor", 1, X, regressor(0, "POLY")),
    "trees": ("TreeEnsembleRegressor", 3, WITH_NAN, trees_of(TREES, 3)),
    "least votes": ("TreeEnsembleRegressor", 3, WITH_NAN, trees_of(TREES, 3, aggregate_function="MIN")),
    "sparse votes": ("TreeEnsembleRegressor", 3, WITH_NAN, trees_of(TREES, 5000)),
    "classes": ("TreeEnsembleClassifier", 3, WITH_NAN, classifier(TREES, ["a", "b", "c"])),
    "sets": ("TreeEnsemble", 5, WITH_NAN, ensemble(SETS, np.float32, 2, post_transform=1)),
}


@pytest.mark.parametrize("name", CASES)
def test_as_on_numpy(name: str) -> None:
    """Outputs stay on the device, labels excepted."""
    op_type, opset, x, attributes = CASES[name]
    outputs = 2 if op_type.endswith("Classifier") else 1
    node = make_node_spec(op_type, [x], domain=ML, opset=opset, outputs=outputs, attributes=attributes)
    definition = next(one for one in DEFINITIONS if (one.op_type, one.domain) == (op_type, ML))
    result = definition.factory(LocalKernelContext(node, array_module))(to_device(x))
    results = list(result) if outputs == 2 else [result]
    expected = run(op_type, [x], domain=ML, opset=opset, outputs=outputs, **attributes)
    for index, (left, right) in enumerate(zip(results, expected, strict=True)):
        assert isinstance(left, StandInArray) == (index not in definition.host_outputs)
        assert_close(to_host(left), right, context=name)
