"""GivenModel: the kind of a model that a caller passed, determined once."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from ort_py.errors import ArgumentTypeError
from ort_py.graph.reading.given_model import COMPILED_MAGIC, GivenModel


@pytest.mark.parametrize("source", ["a/model.onnx", Path("a/model.onnx"), b"a/model.onnx"])
def test_paths_are_files_and_bytes_are_not(source: Any) -> None:
    """A text or a path object names a file; bytes are the model itself."""
    given = GivenModel.of(source)
    assert given.path == ("" if isinstance(source, bytes) else os.fspath(source))
    assert given.nbytes == (len(source) if isinstance(source, bytes) else 0)
    assert not given.is_message


@pytest.mark.parametrize("form", ["every second byte", "columns first", "two axes", "floats", "foreign floats"])
def test_views_of_any_form_are_the_bytes_in_order(form: str) -> None:
    """A view need not lie in one piece, nor have elements of one byte."""
    whole = COMPILED_MAGIC + bytes(range(48))
    square = np.frombuffer(whole, np.uint8).reshape(8, 8)
    views = {
        "every second byte": np.repeat(np.frombuffer(whole, np.uint8), 2).data[::2],
        "columns first": np.asfortranarray(square).data,
        "two axes": square.data,
        "floats": square.view(np.float32).data,
        "foreign floats": square.view(">f4").data,
    }
    given = GivenModel.of(views[form])
    assert memoryview(given.content).cast("B") == whole
    assert given.is_compiled


@pytest.mark.parametrize("shape", [(), (0, 3)])
def test_views_without_axes_or_elements_are_bytes(shape: tuple[int, ...]) -> None:
    given = GivenModel.of(np.zeros(shape, np.uint8).data)
    assert bytes(given.content) == bytes(given.nbytes)
    assert not given.is_compiled


def test_a_message_knows_its_size() -> None:
    """A message counts as many bytes as it would have in a file."""
    proto = onnx.ModelProto(producer_name="test")
    given = GivenModel.of(proto)
    assert (given.content, given.path, given.is_message) == (proto, "", True)
    assert given.nbytes == len(proto.SerializeToString())


def test_a_given_model_is_given_on() -> None:
    """The source of a model is examined only once."""
    given = GivenModel.of(b"x")
    assert GivenModel.of(given) is given


@pytest.mark.parametrize(
    ("source", "text"), [(3, "cannot be loaded from a int"), ("", "The path of the model is empty")]
)
def test_anything_else_is_refused(source: Any, text: str) -> None:
    """The error says what was given and what to give."""
    with pytest.raises(ArgumentTypeError, match=text):
        GivenModel.of(source)
