"""ZipMap, CastMap and DictVectorizer: maps are dictionaries, in kernels and through sessions."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import ort_py as ort
from ort_py.errors import InvalidArgument
from ort_py_kit.tolerances import assert_close

from ..oracle import run, sample
from ..runtime_oracle import agree_with_runtime

ML = "ai.onnx.ml"
X = sample((6, 4), np.float32)


def model(op_type: str, key: int, value: int, output: int, **attributes: Any) -> bytes:
    """A model of one node that takes a map."""
    kind = helper.make_map_type_proto(key, helper.make_tensor_type_proto(value, []))
    graph = helper.make_graph(
        [helper.make_node(op_type, ["x"], ["y"], domain=ML, **attributes)],
        "g",
        [helper.make_value_info("x", kind)],
        [helper.make_tensor_value_info("y", output, None)],
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid(ML, 1)]
    return bytes(helper.make_model(graph, opset_imports=imports, ir_version=9).SerializeToString())


def in_session(blob: bytes, x: Any) -> Any:
    """The result of our session."""
    with ort.InferenceSession(blob, providers=["CPUExecutionProvider"]) as session:
        return session.run(None, {"x": x})[0]


@pytest.mark.parametrize(
    "labels", [{"classlabels_strings": ["d", "b", "c", "a"]}, {"classlabels_int64s": [4, 3, 2, 1]}], ids=str
)
def test_zip_map(labels: dict[str, Any]) -> None:
    """A list of dictionaries, keys in sorted order; a vector is one row."""
    agree_with_runtime("ZipMap", [X], opset=1, domain=ML, **labels)
    assert len(run("ZipMap", [X[0]], opset=1, domain=ML, **labels)[0]) == 1


def test_zip_map_in_a_session() -> None:
    """The sequence of maps is the session's output."""
    graph = helper.make_graph(
        [helper.make_node("ZipMap", ["x"], ["y"], domain=ML, classlabels_strings=["b", "a"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 2])],
        [helper.make_empty_tensor_value_info("y")],
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid(ML, 1)]
    blob = helper.make_model(graph, opset_imports=imports, ir_version=9).SerializeToString()
    y = in_session(blob, np.array([[1, 2], [3, 4]], np.float32))
    assert y == [{"a": 2.0, "b": 1.0}, {"a": 4.0, "b": 3.0}]


@pytest.mark.parametrize(
    ("target", "output"),
    [("TO_FLOAT", TensorProto.FLOAT), ("TO_INT64", TensorProto.INT64), ("TO_STRING", TensorProto.STRING)],
)
@pytest.mark.parametrize("form", [{}, {"map_form": "SPARSE", "max_map": 9}], ids=["dense", "sparse"])
def test_cast_map_as_onnxruntime(target: str, output: int, form: dict[str, Any]) -> None:
    """Numbers in the order of their keys, or each at its key."""
    blob = model("CastMap", TensorProto.INT64, TensorProto.FLOAT, output, cast_to=target, **form)
    x = {7: 1e6, 3: 1.5, 1: -2.25, 4: 1 / 3}
    expected = onnxruntime.InferenceSession(blob, providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]
    assert_close(in_session(blob, x), expected)


def test_cast_map_of_strings() -> None:
    for target, expected in (("TO_FLOAT", [[-2, 15]]), ("TO_INT64", [[-2, 15]]), ("TO_STRING", [["-2", "15"]])):
        (y,) = run("CastMap", [{3: "15", 1: "-2"}], opset=1, domain=ML, cast_to=target)
        assert y.tolist() == expected


@pytest.mark.parametrize(
    ("key", "value", "x", "expected"),
    [
        (TensorProto.STRING, TensorProto.INT64, {"a": 4, "c": 8}, np.array([4, 8, 0, 0])),
        (TensorProto.STRING, TensorProto.FLOAT, {"c": 0.5}, np.array([0, 0.5, 0, 0], np.float32)),
        (TensorProto.STRING, TensorProto.DOUBLE, {"z": 0.1}, np.array([0, 0, 0, 0.1])),
        (TensorProto.INT64, TensorProto.STRING, {3: "x"}, np.array(["", "", "x", ""], object)),
        (TensorProto.INT64, TensorProto.FLOAT, {}, np.zeros(4, np.float32)),
        (TensorProto.INT64, TensorProto.DOUBLE, {1: 2.0}, np.array([2.0, 0, 0, 0])),
    ],
)
def test_dict_vectorizer(key: int, value: int, x: Any, expected: Any) -> None:
    """Every pair of types, in a session; the specification's example in one row, as the model says nothing else."""
    vocabulary: dict[str, Any] = (
        {"string_vocabulary": ["a", "c", "b", "z"]} if key == TensorProto.STRING else {"int64_vocabulary": [1, 2, 3, 4]}
    )
    assert_close(in_session(model("DictVectorizer", key, value, value, **vocabulary), x), expected[None])


@pytest.mark.parametrize(("shape", "wanted"), [(None, (1, 2)), ((4,), (2,)), ((None, 2), (1, 2)), ((1, 2, 1), (1, 2))])
def test_dict_vectorizer_has_the_declared_rank(shape: Any, wanted: tuple[int, ...]) -> None:
    """The specification says "a 1-D tensor", and so does the reference; onnxruntime always gives one row of a matrix.

    Exporters, which were made for onnxruntime, declare the matrix or nothing, and what follows in the model needs it;
    a model that declares one axis gets the specification's.
    """
    content = model("DictVectorizer", TensorProto.STRING, *[TensorProto.FLOAT] * 2, string_vocabulary=["a", "b"])
    proto = onnx.load_from_string(content)
    proto.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, shape))
    y = in_session(proto.SerializeToString(), {"b": 2.0})
    assert y.shape == wanted
    assert y.reshape(-1).tolist() == [0, 2]
    (row,) = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, {"x": {"b": 2.0}})
    assert row.tolist() == [[0, 2]]


def test_dict_vectorizer_passes_over_unknown_keys() -> None:
    """scikit-learn's vectorizer drops features it was not fitted with, so its exported models meet them."""
    content = model("DictVectorizer", TensorProto.STRING, *[TensorProto.FLOAT] * 2, string_vocabulary=["a", "b"])
    x = {"new": 7.0, "b": 2.0}
    expected = onnxruntime.InferenceSession(content).run(None, {"x": x})[0]
    assert_close(in_session(content, x), expected)


def test_dict_vectorizer_without_types() -> None:
    """Where the model says nothing, the first value does."""
    for x, dtype in (({1: 2}, np.int64), ({1: 2.0}, np.float32), ({1: "a"}, object), ({}, np.float32)):
        (y,) = run("DictVectorizer", [x], opset=1, domain=ML, int64_vocabulary=[1])
        assert y.dtype == dtype


@pytest.mark.parametrize(
    ("op_type", "x", "attributes", "text"),
    [
        ("ZipMap", X, {"classlabels_int64s": [1]}, "has shape [6, 4], but there are 1 class labels"),
        ("ZipMap", X, {}, "There are 0 string labels and 0 integer labels"),
        ("CastMap", {1: 2.0}, {"cast_to": "TO_BOOL"}, "cast_to is 'TO_BOOL'"),
        ("CastMap", {1: 2.0}, {"map_form": "ROUND"}, "map_form is 'ROUND'"),
        ("CastMap", {1: 2.0}, {"map_form": "SPARSE", "max_map": 0}, "max_map is 0"),
        ("CastMap", {1: 2.0}, {"map_form": "SPARSE"}, "The map's keys go from 1 to 1, and max_map is 1"),
        ("CastMap", {-1: 2.0}, {"map_form": "SPARSE"}, "The map's keys go from -1 to -1"),
        ("CastMap", {1: "one"}, {}, "A value of the map cannot be cast"),
        ("CastMap", {1: float("inf")}, {"cast_to": "TO_INT64"}, "A value of the map cannot be cast"),
        ("DictVectorizer", {1: 1}, {"string_vocabulary": ["a"]}, "The map has keys that are not strings"),
        ("DictVectorizer", {"b": 1}, {"int64_vocabulary": [1]}, "The map has keys that are not integers"),
        ("DictVectorizer", {"b": 1}, {}, "There are 0 strings and 0 integers in the vocabulary"),
    ],
)
def test_what_does_not_fit_is_refused(op_type: str, x: Any, attributes: dict[str, Any], text: str) -> None:
    """With the numbers, and what to do."""
    with pytest.raises(InvalidArgument, match=re.escape(text)) as caught:
        run(op_type, [x], opset=1, domain=ML, **attributes)
    assert caught.value.fix
