"""`SessionOptions.optimized_model_filepath`: the optimised graph as a file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import ort_py
from core.tests.small_models import open_model

MODEL = """
<ir_version: 8, opset_import: ["": 17]>
g (float[N, 2] x) => (float[N, 2] y) {
    same = Identity(x)
    y = Relu(same)
}
"""


def options(path: Path) -> ort_py.SessionOptions:
    """Options that ask for the file."""
    found = ort_py.SessionOptions()
    found.optimized_model_filepath = path
    return found


def test_the_file_holds_the_optimised_graph(tmp_path: Path) -> None:
    """Nodes that were removed are not in it, and onnxruntime computes the same with it."""
    path = tmp_path / "optimised.onnx"
    x = np.array([[1, -2]], np.float32)
    with open_model(MODEL, options(path)) as session:
        (expected,) = session.run(None, {"x": x})
    assert [node.op_type for node in onnx.load(path).graph.node] == ["Relu"]
    (found,) = onnxruntime.InferenceSession(path).run(None, {"x": x})
    np.testing.assert_array_equal(found, expected)


def test_a_path_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """A folder that does not exist: the path, the system's reason, and the option."""
    path = tmp_path / "nowhere" / "optimised.onnx"
    with pytest.raises(ort_py.InvalidArgument) as caught:
        open_model(MODEL, options(path))
    message = str(caught.value)
    assert "cannot be written" in message
    assert str(path) in message
    assert "optimized_model_filepath" in message
