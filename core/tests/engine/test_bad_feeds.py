"""Errors of a wrong call of `run`, by class and by text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, TypeProto, ValueInfoProto, helper

import ort_py as ort
from core.tests.small_models import ADD, RELU, TWO_OUTPUTS, open_model, typed_identity
from ort_py import InvalidArgument, MissingInputError, OrtPyError

X = np.zeros((2, 3), np.float32)


def refusal(text: str, feed: Any, names: Any = None) -> InvalidArgument:
    """The error a call ends in."""
    with pytest.raises(InvalidArgument) as caught:
        open_model(text).run(names, feed)
    return caught.value


def test_unknown_input_is_named_with_a_suggestion() -> None:
    """A misspelt input is refused, and the right name suggested."""
    error = refusal("g (float[N] pixels) => (float[N] y) { y = Relu(pixels) }", {"pixels": X[0], "pixel": X[0]})
    assert error.what == "The model has no input 'pixel'."
    assert error.location.value == "pixel"
    assert error.fix == "Did you mean 'pixels'?"


def test_unknown_input_lists_the_inputs() -> None:
    """The message says what the inputs are."""
    error = refusal(ADD, {"a": X, "b": X, "zzzzzz": X})
    assert error.why == ("its inputs are 'a', 'b'",)
    assert error.fix == "Remove it from the feed."


def test_missing_inputs_are_all_named() -> None:
    """Everything that is missing is in one message."""
    error = refusal(ADD, {})
    assert isinstance(error, MissingInputError)
    assert error.what == "Required input(s) 'a', 'b' are missing from the feed."
    assert error.why == ("fed: nothing",)


def test_missing_input_is_a_value_error() -> None:
    """Applications catch onnxruntime's builtin ValueError here."""
    with pytest.raises(ValueError, match="Required input"):
        open_model(RELU).run(None, {})


def test_missing_and_misspelt_input_suggests_the_feed() -> None:
    """A name close to one that was fed is suggested."""
    error = refusal("g (float[N] pixels) => (float[N] y) { y = Relu(pixels) }", {"pixel": X[0]})
    assert isinstance(error, MissingInputError)
    assert error.fix == "Is 'pixel' in the feed meant for 'pixels'?"


@pytest.mark.parametrize("dtype", ["float64", "int32", "float16", "uint8", "bool", "U3"])
def test_wrong_dtype_names_both_types(dtype: str) -> None:
    """An array of another type is refused, never converted."""
    error = refusal(RELU, {"x": np.zeros((2, 3)).astype(dtype)})
    assert "Input 'x' has element type" in error.what
    assert "the model declares float" in error.what
    assert error.fix == "Convert it with .astype('float32')."


def test_dtype_without_onnx_type() -> None:
    """A dtype ONNX does not have is refused by name."""
    error = refusal(RELU, {"x": np.zeros((2, 3), "datetime64[s]")})
    assert "datetime64[s]" in error.what
    assert error.location.value == "x"


@pytest.mark.parametrize("shape", [(3,), (1, 2, 3), ()])
def test_wrong_rank_names_both_ranks(shape: tuple[int, ...]) -> None:
    """A missing or superfluous axis is refused."""
    error = refusal(RELU, {"x": np.zeros(shape, np.float32)})
    assert error.what == f"Input 'x' has rank {len(shape)}, the model declares 2."
    assert f"shape {shape} was fed" in error.why[0]
    assert "reshape" in error.fix


def test_wrong_dimension_names_the_axis() -> None:
    """A size that differs from a fixed one is refused with its axis."""
    error = refusal(RELU, {"x": np.zeros((2, 4), np.float32)})
    assert error.what == "Input 'x' has size 4 along axis 1, the model declares 3."
    assert error.location.value == "x"


def test_ragged_lists_are_refused() -> None:
    """Lists of different lengths are not a tensor."""
    error = refusal(RELU, {"x": [[1.0, 2.0, 3.0], [1.0]]})
    assert error.what == "Input 'x' cannot be converted to a tensor of float."
    assert error.fix


def test_texts_are_no_numbers() -> None:
    """A list of words for a float input is refused."""
    assert "cannot be converted to a tensor of float" in refusal(RELU, {"x": [["a", "b", "c"]]}).what


def test_numbers_are_no_texts() -> None:
    """A float64 array for a string input is refused."""
    error = refusal(typed_identity("string[N]"), {"x": np.zeros(2)})
    assert "element type double, the model declares string" in error.what


def test_integers_that_do_not_fit_are_refused() -> None:
    """An integer beyond the type's range does not wrap around."""
    assert "cannot be converted to a tensor of uint8" in refusal(typed_identity("uint8[N]"), {"x": [300]}).what


def test_other_objects_are_refused() -> None:
    """An object that is not an array is refused by its type."""
    assert refusal(RELU, {"x": object()}).what == "Input 'x' is a object, which is not a tensor."


def test_none_is_no_tensor() -> None:
    """None is only for optional inputs."""
    assert refusal(RELU, {"x": None}).what == "Input 'x' is None, but it is not optional."


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_array_is_no_sequence(dtype: Any) -> None:
    """A sequence wants a list; float64 is what NumPy takes for a type that is not there."""
    error = refusal(typed_identity("seq(float[N])"), {"x": X[0].astype(dtype)})
    assert error.what == "Input 'x' is a sequence, but the feed is a ndarray."
    assert error.fix == "Pass a list of arrays."


def test_wrong_element_of_a_sequence_is_named() -> None:
    """The index of the wrong element is part of the name."""
    error = refusal(typed_identity("seq(float[N])"), {"x": [X[0], X[0].astype(np.int64)]})
    assert "Input 'x[1]' has element type int64" in error.what


def test_unknown_output_is_named_with_a_suggestion() -> None:
    """A misspelt output is refused, and the right one suggested."""
    error = refusal(TWO_OUTPUTS, {"x": X[0]}, ["downn"])
    assert error.what == "The model has no output 'downn'."
    assert error.why == ("its outputs are 'up', 'down'",)
    assert error.fix == "Did you mean 'down'?"


def test_inner_value_is_no_output() -> None:
    """A value inside the graph is not an output."""
    text = "g (float[N] x) => (float[N] y) { inner = Abs(x) y = Relu(inner) }"
    assert refusal(text, {"x": X[0]}, ["inner"]).what == "The model has no output 'inner'."


def test_string_for_output_names_is_a_type_error() -> None:
    """A bare string would be taken letter by letter."""
    with pytest.raises(TypeError, match="output_names must be a list of names, not the string 'up'"):
        open_model(TWO_OUTPUTS).run("up", {"x": X[0]})


def test_failure_inside_a_node_says_where() -> None:
    """Shapes that do not fit are reported with node, operator and provider."""
    text = "g (float[N] a, float[M] b) => (float[K] c) { inner = Relu(a) c = Add(inner, b) }"
    session = open_model(text)
    with pytest.raises(OrtPyError, match="Add") as caught:
        session.run(None, {"a": np.zeros(2, np.float32), "b": np.zeros(3, np.float32)})
    assert caught.value.location.op_type == "Add"
    assert caught.value.location.provider == "CPUExecutionProvider"


def test_session_works_after_a_refusal() -> None:
    """A refused call leaves the session as it was."""
    session = open_model(RELU)
    for feed in ({}, {"x": X.astype(np.float64)}, {"x": X[0]}):
        with pytest.raises(InvalidArgument):
            session.run(None, feed)
    assert session.run(None, {"x": X})[0].shape == (2, 3)
    assert session.state == "ready"


def test_lists_of_several_lengths_for_an_input_of_unknown_type() -> None:
    """A file may leave open what an optional input holds; a value that is not an array is refused all the same."""
    nodes = [helper.make_node("SequenceInsert", ["s", "x"], ["y"])]
    inputs = [
        helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, None),
        ValueInfoProto(name="x", type=TypeProto(optional_type=TypeProto.Optional())),
    ]
    graph = helper.make_graph(
        nodes, "g", inputs, [helper.make_tensor_sequence_value_info("y", TensorProto.FLOAT, None)]
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    session = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    with pytest.raises(InvalidArgument, match="'x' is not a tensor"):
        session.run(None, {"s": [], "x": [X, X[0]]})
