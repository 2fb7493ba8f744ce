"""ArrayFeatureExtractor and FeatureVectorizer against onnxruntime."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ort_py.errors import InvalidArgument
from ort_py_kit.tolerances import assert_close

from ..oracle import i64, run, sample
from ..runtime_oracle import agree_with_runtime

ML = "ai.onnx.ml"
X = sample((6, 4), np.float32)
FEW = settings(max_examples=25, deadline=None, derandomize=True)


def compare(op_type: str, inputs: list[Any], **attributes: Any) -> None:
    """Against onnxruntime."""
    agree_with_runtime(op_type, inputs, opset=1, domain=ML, **attributes)


@FEW
@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=3),
    st.sampled_from([np.float32, np.float64, np.int64, np.int32, object]),
    st.lists(st.integers(0, 3), min_size=1, max_size=6),
)
def test_array_feature_extractor(lead: list[int], dtype: Any, indices: list[int]) -> None:
    """Entries of the last axis, by index, of every type and rank."""
    x = np.arange(4 * int(np.prod(lead))).reshape(*lead, 4)
    values = np.array([str(value) for value in x.reshape(-1)], object).reshape(x.shape) if dtype is object else None
    compare("ArrayFeatureExtractor", [x.astype(dtype) if values is None else values, i64(*indices)])


def test_a_vector_is_one_row() -> None:
    """Its columns come as a matrix, whatever the indices' shape."""
    compare("ArrayFeatureExtractor", [X[0], i64(2, 0)])
    (y,) = run("ArrayFeatureExtractor", [X[0], np.array([[2], [0]])], opset=1, domain=ML)
    np.testing.assert_array_equal(y, [[X[0, 2], X[0, 0]]])


def test_without_indices() -> None:
    """Nothing is picked; onnxruntime refuses to."""
    (y,) = run("ArrayFeatureExtractor", [X, i64()], opset=1, domain=ML)
    assert y.shape == (6, 0)


@FEW
@given(
    st.integers(1, 4),
    st.lists(st.tuples(st.integers(1, 4), st.integers(1, 5)), min_size=1, max_size=4),
    st.sampled_from([np.float32, np.float64, np.int64, np.int32]),
)
def test_feature_vectorizer(rows: int, sizes: list[tuple[int, int]], dtype: Any) -> None:
    """Inputs side by side as float32; cut or filled with zeros to the sizes that the node names."""
    inputs = [sample((rows, columns), dtype, seed) for seed, (columns, _) in enumerate(sizes)]
    compare("FeatureVectorizer", inputs, inputdimensions=[size for _, size in sizes])


def test_vectors_are_rows() -> None:
    """[C] is [1, C], as the specification says and onnxruntime does; the reference makes columns of them."""
    compare("FeatureVectorizer", [i64(1, 2), i64(3, 4, 5)], inputdimensions=[2, 3])


def test_sizes_may_be_absent() -> None:
    (y,) = run("FeatureVectorizer", [X, X[:, :1]], opset=1, domain=ML)
    assert_close(y, np.concatenate((X, X[:, :1]), axis=1))


@pytest.mark.parametrize(
    ("op_type", "inputs", "attributes", "text"),
    [
        ("ArrayFeatureExtractor", [X, i64(4)], {}, "Indices from 4 to 4 do not fit 4 features"),
        ("ArrayFeatureExtractor", [X, i64(-1)], {}, "Indices from -1 to -1 do not fit"),
        ("ArrayFeatureExtractor", [np.float32(1), i64(0)], {}, "A scalar has no features"),
        ("FeatureVectorizer", [X, X], {"inputdimensions": [4]}, "There are 2 inputs, and inputdimensions has 1"),
        ("FeatureVectorizer", [X], {"inputdimensions": [-4]}, "inputdimensions has the negative size -4"),
        ("FeatureVectorizer", [X, X[:2]], {}, "The inputs have [2, 6] rows"),
        ("FeatureVectorizer", [X[None]], {}, "needs rank 1 or 2"),
    ],
)
def test_what_does_not_fit_is_refused(op_type: str, inputs: list[Any], attributes: dict[str, Any], text: str) -> None:
    """With the numbers, and what to do."""
    with pytest.raises(InvalidArgument, match=re.escape(text)) as caught:
        run(op_type, inputs, opset=1, domain=ML, **attributes)
    assert caught.value.fix
