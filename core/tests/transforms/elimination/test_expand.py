"""Expand that does nothing goes where its shape follows from others, and stays where the shape is fed."""

from __future__ import annotations

import numpy as np
import pytest

import ort_py as ort
from ort_py.errors import OrtPyError
from ort_py_kit.graphs import model_from_text


def test_a_fed_shape_is_checked() -> None:
    """A shape that the input does not broadcast to is refused at every level."""
    text = "g (float[2,3,4] x, int64[3] s) => (float[A,B,C] y) {b=Relu(x) o=Expand(b,s) y=Sigmoid(o)}"
    session = ort.InferenceSession(model_from_text(text, 21).SerializeToString())
    feeds = {"x": np.ones((2, 3, 4), np.float32), "s": np.array([2, 3, 7])}
    with pytest.raises(OrtPyError, match="broadcast"):
        session.run(None, feeds)
    feeds["s"] = np.array([1, 1, 4])
    assert session.run(None, feeds)[0].shape == (2, 3, 4)


def test_a_shape_of_shapes_needs_no_node() -> None:
    """Where the shape is that of the input itself, nothing is left of the Expand."""
    text = "g (float[N,3] x) => (float[N,3] y) {s=Shape(x) o=Expand(x,s) y=Sigmoid(o)}"
    session = ort.InferenceSession(model_from_text(text, 21).SerializeToString())
    assert sum(session.placement.counts().values()) == 1
