"""GivenModel: the kind of a model that a caller passed, determined once."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import onnx
import pytest

from ort_py.errors import ArgumentTypeError
from ort_py.graph.reading.given_model import GivenModel


@pytest.mark.parametrize("source", ["a/model.onnx", Path("a/model.onnx"), b"a/model.onnx"])
def test_paths_are_files_and_bytes_are_not(source: Any) -> None:
    """A text or a path object names a file; bytes are the model itself."""
    given = GivenModel.of(source)
    assert given.path == ("" if isinstance(source, bytes) else os.fspath(source))
    assert given.nbytes == (len(source) if isinstance(source, bytes) else 0)
    assert not given.is_message


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
