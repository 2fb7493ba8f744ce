"""Operators whose older versions have another form: they are refused by version, and other providers run them."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from ort_py_kit.graphs import model_from_text
from ort_py_kit.subject import Subject
from ort_py_kit.tolerances import assert_close

HERE = Subject("DnnlExecutionProvider", {"claim_small": True})

OLD = {
    "Cast": ('g (float[2, 3] x) => (float16[2, 3] y) { y = Cast<to = "FLOAT16">(x) }', 5),
    "Pad": ("g (float[2, 3] x) => (float[2, 5] y) { y = Pad<paddings = [0, 1, 0, 1]>(x) }", 1),
    "Reshape": ("g (float[2, 3] x) => (float[3, 2] y) { y = Reshape<shape = [3, 2]>(x) }", 4),
    "Tile": ("g (float[2, 3] x) => (float[6, 3] y) <float n = {3}, float a = {0}> { y = Tile(x, n, a) }", 5),
}
"""Graphs and their opsets."""


@pytest.mark.parametrize("op_type", sorted(OLD))
def test_old_forms_are_left_to_others(op_type: str) -> None:
    """With the version in the reason; the session runs."""
    text, opset = OLD[op_type]
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    with HERE.session(model_from_text(text, opset), optimise=False) as session:
        (placed,) = session.placement.nodes
        (result,) = session.run(None, {"x": x})
    assert f"version 1 of {op_type} has a different form" in dict(placed.refusals)[HERE.name]
    expected = {"Cast": x, "Pad": np.pad(x, ((0, 0), (1, 1))), "Reshape": x.reshape(3, 2), "Tile": np.tile(x, (3, 1))}
    np.testing.assert_array_equal(result, expected[op_type])


def test_bounds_that_contradict_each_other() -> None:
    """ONNX: where min is above max, all elements are max."""
    text = "g (float[64, 64] x) => (float[64, 64] y) <float low = {2.0}, float high = {1.0}> { y = Clip(x, low, high) }"
    model: onnx.ModelProto = model_from_text(text, 13)
    x = np.linspace(-3, 3, 64 * 64, dtype=np.float32).reshape(64, 64)
    with HERE.session(model) as session:
        assert [one for _, one in HERE.operators_run(session)] == ["Clip"]
        (result,) = session.run(None, {"x": x})
    assert_close(result, np.ones_like(x))
