"""Data and sizes of dimensions that the caller supplies while a model is read."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx.external_data_helper import set_external_data

from ort_py.dtypes import TensorType
from ort_py.errors import Fail, ModelLoadCanceled
from ort_py.graph.reading.loader import load_model
from ort_py.graph.reading.supplied import Supplied

W = np.arange(3, dtype=np.float32)


def model(text: str = "g (float[N, 3] x) => (float[N, 3] y) <float[3] w = {0, 0, 0}> { y = Mul(x, w) }") -> Any:
    """A model whose initializer lies in a file that is not there."""
    proto = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> {text}')
    for tensor in proto.graph.initializer:
        tensor.CopyFrom(onnx.numpy_helper.from_array(np.zeros(3, np.float32), "w"))
        set_external_data(tensor, "w.bin", offset=4, length=12)
        tensor.ClearField("raw_data")
    return proto


def weight(supplied: Supplied) -> list[float]:
    """Content of the initializer."""
    found = load_model(model(), supplied=supplied).graph.initializers["w"].weight
    assert found is not None
    return [float(value) for value in found.array()]


def test_an_array_replaces_the_file() -> None:
    """The file is not looked for."""
    assert weight(Supplied(external={"w": W})) == [0, 1, 2]


def test_a_file_in_memory_is_read_at_its_offset() -> None:
    """Offsets and lengths count as on disk."""
    content = memoryview(bytes(4) + W.tobytes())
    assert weight(Supplied(files={"w.bin": content})) == [0, 1, 2]


@pytest.mark.parametrize(
    ("supplied", "what"),
    [
        (Supplied(external={"w": np.zeros(4, np.float32)}), "does not match"),
        (Supplied(external={"w": np.zeros(3, np.int32)}), "does not match"),
        (Supplied(external={"w": W, "v": W}), "not an initializer with external data"),
        (Supplied(files={"w.bin": memoryview(bytes(15))}), "beyond the end"),
        (Supplied(files={"v.bin": memoryview(bytes(16))}), "not among the files supplied"),
    ],
)
def test_what_does_not_fit_is_refused(supplied: Supplied, what: str) -> None:
    with pytest.raises(Fail, match=what):
        weight(supplied)


def shapes(proto: Any, supplied: Supplied) -> list[Any]:
    """Declared shapes of inputs and outputs."""
    graph = load_model(proto, supplied=supplied).graph
    types = [value.type for value in (*graph.inputs, *graph.outputs)]
    return [found.shape for found in types if isinstance(found, TensorType)]


def test_named_dimensions_are_fixed_everywhere() -> None:
    """In inputs, outputs and inside optionals and sequences; negative sizes change nothing."""
    text = "g (float[N, M] x, seq(float[N]) s) => (float[N, M] y) { y = Relu(x) }"
    graph = load_model(model(text), supplied=Supplied(dimensions={"N": 4, "M": -1})).graph
    assert [str(value.type) for value in graph.inputs] == ["tensor(float)", "seq(tensor(float))"]
    assert shapes(model(text), Supplied(dimensions={"N": 4, "M": -1})) == [(4, "M"), (4, "M")]


@pytest.mark.parametrize("name", ["N", ""])
def test_denotations_fix_dimensions_with_and_without_a_name(name: str) -> None:
    """A named one is fixed wherever its name stands, another one at its place."""
    proto = model(f"g (float[{name or '?'}, 3] x) => (float[N, 3] y) {{ y = Relu(x) }}")
    proto.graph.input[0].type.tensor_type.shape.dim[0].denotation = "DATA_BATCH"
    found = shapes(proto, Supplied(denotations={"DATA_BATCH": 4, "DATA_CHANNEL": 5}))
    assert found == [(4, 3), (4 if name else "N", 3)]


def test_loading_can_be_cancelled() -> None:
    """The caller is asked before anything is read, and now and then."""
    answers = iter([False, True])
    with pytest.raises(ModelLoadCanceled, match="was cancelled"):
        load_model(model("g (float[3] x) => (float[3] y) { y = Relu(x) }"), cancelled=lambda: next(answers))
