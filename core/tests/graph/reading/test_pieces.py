"""Large tensors of a serialised model: left where they are until their weights are made."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from ort_py.errors import InvalidProtobuf
from ort_py.graph.reading.loader import load_model
from ort_py.graph.reading.wire import PIECE
from ort_py.graph.weights.weight_store import WeightStore

pytestmark = pytest.mark.quick

LARGE = np.arange(2 * PIECE, dtype=np.uint8)


def tensor(name: str, array: np.ndarray[Any, Any] = LARGE) -> onnx.TensorProto:
    """A tensor with its bytes in ``raw_data``."""
    return numpy_helper.from_array(array, name)


def model_of(graph: onnx.GraphProto, functions: tuple[onnx.FunctionProto, ...] = ()) -> bytes:
    """The bytes of a model of a graph."""
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("own", 1)]
    return helper.make_model(graph, opset_imports=imports, functions=functions, ir_version=10).SerializeToString()


def everywhere() -> bytes:
    """Large tensors in every place that can hold one, small ones beside them."""
    inner = helper.make_graph(
        [helper.make_node("Constant", [], ["c"], value=tensor("in a constant", LARGE[::-1]))], "inner", [], [_info("c")]
    )
    branches: dict[str, Any] = {"then_branch": inner, "else_branch": inner}
    sparse = helper.make_sparse_tensor(tensor("sparse", LARGE), tensor("indices", np.arange(8192)), [9000])
    constant = helper.make_node("Constant", [], ["v"], value=tensor("in a function", LARGE + 1))
    graph = helper.make_graph(
        [
            helper.make_node("If", ["go"], ["i"], **branches),
            helper.make_node("Own", [], ["o"], domain="own"),
            helper.make_node("Add", ["w", "i"], ["y"]),
        ],
        "g",
        [helper.make_tensor_value_info("go", TensorProto.BOOL, [])],
        [_info("y"), _info("o")],
        [tensor("w"), tensor("small", LARGE[:9])],
        sparse_initializer=[sparse],
    )
    function = helper.make_function("own", "Own", [], ["v"], [constant], [helper.make_opsetid("", 21)])
    return model_of(graph, (function,))


def _info(name: str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.UINT8, [LARGE.size])


def content_of(model: Any, name: str) -> np.ndarray[Any, Any]:
    """The content of an initializer."""
    weight = model.graph.initializers[name].weight
    assert weight is not None
    array: np.ndarray[Any, Any] = weight.array()
    return array


@pytest.mark.parametrize("is_file", [False, True])
def test_weights_have_the_bytes_of_their_tensors(is_file: bool, tmp_path: Path) -> None:
    """Initializers, and sparse ones; of models in files and in memory."""
    source: Any = everywhere()
    if is_file:
        (tmp_path / "model.onnx").write_bytes(source)
        source = tmp_path / "model.onnx"
    model = load_model(source, weights=WeightStore())
    np.testing.assert_array_equal(content_of(model, "w"), LARGE)
    np.testing.assert_array_equal(content_of(model, "small"), LARGE[:9])
    np.testing.assert_array_equal(content_of(model, "sparse"), np.concatenate([LARGE, np.zeros(808, np.uint8)]))


@pytest.mark.parametrize("size", [1, 10, 5000, 16_000])
def test_broken_off_models_are_refused(size: int) -> None:
    with pytest.raises(InvalidProtobuf, match="not an ONNX model"):
        load_model(everywhere()[:-size])


def test_the_last_of_two_contents_counts() -> None:
    """A field may stand twice, and the last one counts, whether one is large and the other small or not."""
    name, large, small = b"\x42\x01w", LARGE.tobytes(), LARGE[:9].tobytes()
    graph = helper.make_graph([helper.make_node("Identity", ["w"], ["y"])], "g", [], [])
    content = model_of(graph)
    for first, last in ((large, small), (small, large)):
        written = onnx.TensorProto(dims=[len(last)], data_type=TensorProto.UINT8, raw_data=first).SerializeToString()
        written += name + onnx.TensorProto(raw_data=last).SerializeToString()
        again = onnx.ModelProto()
        again.graph.initializer.add().MergeFromString(written)
        assert again.graph.initializer[0].raw_data == last
        graph_with = b"\x2a" + _varint(len(written)) + written
        weight = content_of(load_model(content + b"\x3a" + _varint(len(graph_with)) + graph_with), "w")
        np.testing.assert_array_equal(weight, np.frombuffer(last, np.uint8))


def _varint(value: int) -> bytes:
    return bytes([value & 0x7F | 0x80, value >> 7]) if value > 0x7F else bytes([value])


def test_a_file_is_read_again_where_its_weights_were_released(tmp_path: Path) -> None:
    """The path is made absolute, so the working directory does not matter."""
    graph = helper.make_graph([helper.make_node("Identity", ["w"], ["y"])], "g", [], [_info("y")], [tensor("w")])
    (tmp_path / "model.onnx").write_bytes(model_of(graph))
    store = WeightStore()
    before = Path.cwd()
    os.chdir(tmp_path)
    try:
        loaded = load_model("model.onnx", weights=store)
    finally:
        os.chdir(before)
    assert store.trim() == LARGE.size
    np.testing.assert_array_equal(content_of(loaded, "w"), LARGE)


def test_models_from_bytes_keep_what_is_between_their_weights() -> None:
    """The bytes can be written again from the weights; those of a file are not kept."""
    content = everywhere()
    kept = load_model(content).kept
    assert kept is not None
    assert kept.nbytes < len(content) - 4 * LARGE.size
    assert kept.content() == content


def test_models_without_large_tensors_are_kept_as_they_are() -> None:
    graph = helper.make_graph([helper.make_node("Identity", ["w"], ["y"])], "g", [], [], [tensor("w", LARGE[:100])])
    assert load_model(model_of(graph)).kept is None
