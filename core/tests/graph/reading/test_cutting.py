"""Large tensors cut out of a serialised model, and what is left."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from ort_py.errors import InvalidProtobuf, NoSuchFile
from ort_py.graph.reading import cutting
from ort_py.graph.reading.cutting import SMALLEST_CUT, cut
from ort_py.graph.reading.loader import load_model
from ort_py.graph.weights.weight_store import WeightStore

pytestmark = pytest.mark.quick

LARGE = np.arange(2 * SMALLEST_CUT, dtype=np.uint8)


def tensor(name: str, array: np.ndarray[Any, Any] = LARGE) -> onnx.TensorProto:
    """A tensor with its bytes in ``raw_data``."""
    return numpy_helper.from_array(array, name)


def model_of(graph: onnx.GraphProto, functions: tuple[onnx.FunctionProto, ...] = ()) -> onnx.ModelProto:
    """A model of a graph."""
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("own", 1)]
    return helper.make_model(graph, opset_imports=imports, functions=functions, ir_version=10)


def everywhere() -> onnx.ModelProto:
    """Large tensors in every place that can hold one, small ones beside them."""
    inner = helper.make_graph(
        [helper.make_node("Constant", [], ["c"], value=tensor("in a constant"))], "inner", [], [_info("c")]
    )
    branches: dict[str, Any] = {"then_branch": inner, "else_branch": inner}
    sparse = helper.make_sparse_tensor(tensor("sparse", LARGE), tensor("indices", np.arange(8192)), [9000])
    constant = helper.make_node("Constant", [], ["v"], value=tensor("in a function"))
    graph = helper.make_graph(
        [
            helper.make_node("Constant", [], ["k"], value=tensor("", LARGE[::-1])),
            helper.make_node("If", ["go"], ["i"], **branches),
            helper.make_node("Own", [], ["o"], domain="own"),
            helper.make_node("Add", ["w", "i"], ["y"]),
        ],
        "g",
        [helper.make_tensor_value_info("go", TensorProto.BOOL, [])],
        [_info("y")],
        [tensor("w"), tensor("small", LARGE[:9])],
        sparse_initializer=[sparse],
    )
    function = helper.make_function("own", "Own", [], ["v"], [constant], [helper.make_opsetid("", 21)])
    return model_of(graph, (function,))


def _info(name: str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.UINT8, [LARGE.size])


def tensors_in(message: Any) -> list[onnx.TensorProto]:
    """Every tensor inside a message."""
    found: list[onnx.TensorProto] = []
    pending = [message]
    while pending:
        item = pending.pop()
        if isinstance(item, TensorProto):
            found.append(item)
            continue
        for field, value in item.ListFields():
            if field.message_type is not None:
                pending.extend([value] if hasattr(value, "ListFields") else list(value))
    return found


def test_tensors_are_cut_wherever_they_are() -> None:
    """Initializers, sparse ones, constants, bodies of If and of functions: the rest parses, and is small."""
    model = everywhere()
    content = model.SerializeToString()
    result = cut(memoryview(content))
    assert len(result.skeleton) < 4 * SMALLEST_CUT < len(content)
    skeleton = onnx.ModelProto.FromString(result.skeleton)
    for found in tensors_in(skeleton):
        piece = result.find(found.raw_data)
        if piece is not None:
            found.raw_data = bytes(piece[0])
    assert len(result.pieces) == 7
    assert skeleton == model


def test_the_bytes_are_the_parts_in_order() -> None:
    """The pieces and the bytes between them are the whole model again."""
    content = everywhere().SerializeToString()
    parts = [part if isinstance(part, bytes) else bytes(part[1]) for part in cut(memoryview(content)).parts()]
    assert b"".join(parts) == content


def test_small_models_are_left_whole() -> None:
    graph = helper.make_graph([], "g", [], [], [tensor("w", LARGE[:100])])
    assert not cut(memoryview(model_of(graph).SerializeToString())).pieces


def test_a_placeholder_cannot_be_guessed() -> None:
    """Two cuts have different ones, so a model cannot name another tensor's bytes."""
    content = memoryview(everywhere().SerializeToString())
    assert not set(cut(content).pieces) & set(cut(content).pieces)


@pytest.mark.parametrize("size", [1, 10, 5000, 16_000])
def test_broken_off_models_are_left_to_protobuf(size: int) -> None:
    """A truncated file is read as a whole and reported as before."""
    content = everywhere().SerializeToString()[:-size]
    with pytest.raises(InvalidProtobuf, match="not an ONNX model"):
        load_model(content)


@pytest.mark.parametrize("content", [b"\x3b" + bytes(9000), b"\x3a" + b"\xff" * 9000, bytes(9000), b"\x08" * 9001])
def test_other_bytes_are_left_to_protobuf(content: bytes) -> None:
    """Groups, endless numbers, fields without a number: nothing is cut, and nothing breaks."""
    assert not cut(memoryview(content)).pieces


def test_it_gives_up_on_too_many_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of tiny fields is not looked through for long."""
    monkeypatch.setattr(cutting, "_MOST_FIELDS", 3)
    assert not cut(memoryview(everywhere().SerializeToString())).pieces


def test_the_last_of_two_contents_counts() -> None:
    """protobuf lets a field stand twice; the last one wins, cut or not."""
    graph = helper.make_graph([helper.make_node("Identity", ["w"], ["y"])], "g", [], [_info("y")], [tensor("w")])
    content = model_of(graph).SerializeToString()
    again = onnx.ModelProto()
    again.graph.initializer.add().raw_data = bytes(LARGE.size)
    assert onnx.ModelProto.FromString(content + again.SerializeToString()).graph.initializer[1].raw_data == bytes(8192)
    store = WeightStore()
    loaded = load_model(content, weights=store)
    weight = loaded.graph.initializers["w"].weight
    assert weight is not None
    np.testing.assert_array_equal(weight.array(), LARGE)


def test_a_file_is_read_again_where_its_weights_were_released(tmp_path: Path) -> None:
    """The path is made absolute, so the working directory does not matter. A missing file is reported."""
    graph = helper.make_graph([helper.make_node("Identity", ["w"], ["y"])], "g", [], [_info("y")], [tensor("w")])
    path = tmp_path / "model.onnx"
    path.write_bytes(model_of(graph).SerializeToString())
    store = WeightStore()
    before = Path.cwd()
    os.chdir(tmp_path)
    try:
        loaded = load_model("model.onnx", weights=store)
    finally:
        os.chdir(before)
    assert store.trim() == LARGE.size
    weight = loaded.graph.initializers["w"].weight
    assert weight is not None
    np.testing.assert_array_equal(weight.array(), LARGE)
    with pytest.raises(NoSuchFile):
        load_model(tmp_path / "other.onnx")


def test_models_from_bytes_keep_what_is_between_their_weights() -> None:
    """The bytes can be written again from the weights; those of a file are not kept."""
    content = everywhere().SerializeToString()
    kept = load_model(content).kept
    assert kept is not None
    assert kept.nbytes < len(content) - 4 * LARGE.size
    assert kept.content() == content
