"""LabelEncoder, CategoryMapper and OneHotEncoder against onnxruntime and the words of the specification."""

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
KINDS: dict[str, Any] = {
    "strings": ["b", "", "a\0", "Ä"],
    "int64s": [3, -1, 1 << 60, 7],
    "floats": [0.5, -2.0, float("inf"), 3.0],
}


def words(*texts: str) -> Any:
    """A tensor of strings."""
    return np.array(texts, object)


def array_of(kind: str, values: Any) -> Any:
    """Values of an attribute as an input."""
    return np.array(values, {"strings": object, "int64s": np.int64, "floats": np.float32}[kind])


def compare(op_type: str, x: Any, opset: int = 1, **attributes: Any) -> None:
    """Against onnxruntime."""
    agree_with_runtime(op_type, [x], opset=opset, domain=ML, **attributes)


@FEW
@given(st.sampled_from(list(KINDS)), st.sampled_from(list(KINDS)), st.sampled_from([2, 4]), st.data())
def test_label_encoder_between_types(keys: str, values: str, opset: int, data: Any) -> None:
    """Every type to every type, any shape, unknown keys to the default."""
    known = KINDS[keys][:3]
    picked = data.draw(st.lists(st.sampled_from(KINDS[keys]), min_size=1, max_size=6))
    x = array_of(keys, picked).reshape(1, -1)
    compare("LabelEncoder", x, opset, **{f"keys_{keys}": known, f"values_{values}": KINDS[values][:3]})


def test_label_encoder_defaults() -> None:
    """One's own default in each type of values."""
    for default in ({"default_int64": 9}, {"default_string": "?"}, {"default_float": 0.25}):
        kind = next(iter(default)).removeprefix("default_") + "s"
        compare("LabelEncoder", words("z"), 2, keys_strings=["a"], **{f"values_{kind}": KINDS[kind][:1]}, **default)


@pytest.mark.parametrize(("opset", "value"), [(2, 5), (4, 6)])
def test_repeated_keys(opset: int, value: int) -> None:
    """The last takes precedence in version 4, which says so (onnxruntime takes the first); in 2, the first does."""
    (y,) = run("LabelEncoder", [i64(1)], opset=opset, domain=ML, keys_int64s=[1, 1], values_int64s=[5, 6])
    np.testing.assert_array_equal(y, [value])


@pytest.mark.parametrize("opset", [2, 4])
def test_nan_is_a_key(opset: int) -> None:
    """In version 2 as in version 4; onnxruntime finds it in version 4 only."""
    x = np.array([1, np.nan, 2], np.float32)
    attributes: dict[str, Any] = {"keys_floats": [float("nan"), 1.0], "values_int64s": [7, 8]}
    (y,) = run("LabelEncoder", [x], opset=opset, domain=ML, **attributes)
    np.testing.assert_array_equal(y, [8, 7, -1])


def test_label_encoder_1_maps_strings_to_positions_and_back() -> None:
    compare("LabelEncoder", words("a", "z"), classes_strings=["b", "a"])
    compare("LabelEncoder", words("a", "z"), classes_strings=["a", "a"], default_int64=9)
    compare("LabelEncoder", i64(1, 9, -1), classes_strings=["b", "a"], default_string="none")


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.int32, np.int16])
def test_label_encoder_4_takes_tensors(dtype: Any) -> None:
    """Keys, values and the default as tensors of each type."""
    keys, values = np.array([3, 1], dtype), np.array([7, 8], dtype)
    x = np.array([1, 2, 3], dtype)
    for default, expected in ((None, -1 if np.dtype(dtype).kind == "i" else -0.0), (np.array([42], dtype), 42)):
        attributes = {} if default is None else {"default_tensor": default}
        (y,) = run("LabelEncoder", [x], opset=4, domain=ML, keys_tensor=keys, values_tensor=values, **attributes)
        assert_close(y, np.array([8, expected, 7], dtype))


def test_label_encoder_4_takes_tensors_of_strings() -> None:
    keys, values = words("a", "b"), words("x", "y")
    (y,) = run("LabelEncoder", [words("b", "c")], opset=4, domain=ML, keys_tensor=keys, values_tensor=values)
    assert y.tolist() == ["y", "_Unused"]


def test_category_mapper() -> None:
    """Strings to integers and back; the last of equals counts, unknown ones get the default."""
    attributes: dict[str, Any] = {"cats_strings": ["a", "a", "b"], "cats_int64s": [1, 2, 2]}
    compare("CategoryMapper", words("a", "b", "z"), **attributes)
    compare("CategoryMapper", words("z"), default_int64=9, **attributes)
    compare("CategoryMapper", i64(1, 2, 9), default_string="none", **attributes)


def test_a_scalar_stays_one() -> None:
    """A tensor without axes, of numbers and of strings."""
    (y,) = run("LabelEncoder", [np.array(1)], opset=2, domain=ML, keys_int64s=[1], values_strings=["one"])
    assert (y.shape, y.dtype, y.item()) == ((), object, "one")


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_one_hot_encoder(dtype: Any) -> None:
    """Inputs are numbers of any rank; floating ones are cut to integers."""
    x = np.array([[1.75, -0.5, 2.0], [3.0, 9.0, -1.0]]).astype(dtype)
    compare("OneHotEncoder", x, cats_int64s=[1, 0, 3, 3, -1])
    compare("OneHotEncoder", x[0, :1].reshape(()), cats_int64s=[1, 2])
    compare("OneHotEncoder", x[:0], cats_int64s=[1, 2])


def test_one_hot_encoder_of_int32() -> None:
    (y,) = run("OneHotEncoder", [np.array([[7], [5]], np.int32)], opset=1, domain=ML, cats_int64s=[5, 6, 7])
    assert_close(y, np.array([[[0, 0, 1]], [[1, 0, 0]]], np.float32))


def test_one_hot_encoder_of_strings() -> None:
    """Unknown ones get a row of zeros."""
    compare("OneHotEncoder", words("b", "z", "a").reshape(3, 1), cats_strings=["a", "b"])


def test_nan_is_no_category() -> None:
    """Nor is infinity: neither has an integer part."""
    (y,) = run("OneHotEncoder", [np.array([np.nan, np.inf])], opset=1, domain=ML, cats_int64s=[0, -(1 << 63)])
    np.testing.assert_array_equal(y, np.zeros((2, 2)))


@pytest.mark.parametrize(
    ("op_type", "x", "attributes", "text"),
    [
        ("LabelEncoder", X, {"keys_floats": [1.0], "values_floats": []}, "There are 1 keys for 0 values"),
        ("LabelEncoder", X, {"keys_floats": [1.0]}, "LabelEncoder has no values"),
        ("LabelEncoder", X, {"keys_floats": [1.0], "keys_int64s": [1]}, "LabelEncoder has 2 keys"),
        ("LabelEncoder", X, {"keys_int64s": [1], "values_int64s": [1]}, "The input is float32, and the keys are int64"),
        (
            *("LabelEncoder", X),
            {
                "keys_floats": [1.0],
                "values_tensor": np.array([1.0], np.float32),
                "default_tensor": np.array([1, 2], np.int64),
            },
            "default_tensor has 2 elements of int64, and the values are float32",
        ),
        ("CategoryMapper", i64(1), {"cats_int64s": [1]}, "There are 0 cats_strings for 1 cats_int64s"),
        ("OneHotEncoder", i64(1), {}, "There are 0 cats_strings and 0 cats_int64s"),
        ("OneHotEncoder", i64(1), {"cats_strings": ["a"]}, "The input is int64, and the categories are object"),
        ("OneHotEncoder", i64(1), {"cats_int64s": [2], "zeros": 0}, "An element is none of the categories"),
    ],
)
def test_what_does_not_fit_is_refused(op_type: str, x: Any, attributes: dict[str, Any], text: str) -> None:
    """With the numbers, and what to do."""
    with pytest.raises(InvalidArgument, match=re.escape(text)) as caught:
        run(op_type, [x], opset=4 if op_type == "LabelEncoder" else 1, domain=ML, **attributes)
    assert caught.value.fix
