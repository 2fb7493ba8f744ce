"""Ranks that follow from readers, behind an If whose branches differ in rank."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ort_py as ort
from ort_py.dtypes import Shape, TensorType
from ort_py.errors import OrtPyError
from ort_py.graph.ir import Model
from ort_py_kit.graphs import model_from_text, typed_model

BEHIND = """
g (bool c, float[b, n] x) => (float[p, q, r] y) <float[3, 4, 1] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}> {
  two = Constant <value_ints = [2]> ()
  a = If (c) <
    then_branch = t () => (float[i, j] same) { same = Identity (x) },
    else_branch = e () => (float[k, l, m] more) { more = Unsqueeze (x, two) }
  >
  READERS
}
"""
PLAIN = ["CPUExecutionProvider"]
CONVOLUTION = "b = Unsqueeze (a, two) d = Relu (b) y = Conv (d, w)"


def _shape(model: Model, name: str) -> Shape | None:
    (found,) = [one for node in model.graph.nodes for one in node.outputs if one is not None and one.name == name]
    assert isinstance(found.type, TensorType)
    return found.type.shape


def _text(readers: str) -> str:
    return BEHIND.replace("READERS", readers)


def test_ranks_go_up_from_a_convolution() -> None:
    """Its weights have three axes, so an Unsqueeze in front of it reads two."""
    model = typed_model(_text(CONVOLUTION))
    assert [len(_shape(model, name) or ()) for name in ("d", "b", "a")] == [3, 3, 2]
    assert _shape(model, "a") == (None, None)


@pytest.mark.parametrize(
    "readers",
    ["d = Conv (a, w) y = Unsqueeze (x, two)", "y = Abs (a)"],
    ids=["nobody reads the result", "a declared result"],
)
def test_ranks_that_nothing_demands_stay_unknown(readers: str) -> None:
    """A node whose result is not read may be left out, and the model may declare what it likes."""
    assert _shape(typed_model(_text(readers)), "a") is None


def test_another_rank_is_an_error_of_the_run() -> None:
    """One of the branches has not the rank that is demanded: a run of it is refused, and the other one runs."""
    session = ort.InferenceSession(model_from_text(_text(CONVOLUTION)).SerializeToString(), providers=PLAIN)
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    w = np.arange(1, 13, dtype=np.float32).reshape(3, 4)
    feeds: dict[str, Any] = {"c": np.array(True), "x": x}
    (y,) = session.run(None, feeds)
    np.testing.assert_allclose(y, (x @ w.T)[..., None], rtol=1e-6)
    with pytest.raises(OrtPyError):
        session.run(None, {**feeds, "c": np.array(False)})
    np.testing.assert_array_equal(session.run(None, feeds)[0], y)
