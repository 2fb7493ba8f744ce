"""Initializers, external data and dimensions that the caller gives, side by side with onnxruntime."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.external_data_helper import convert_model_to_external_data

import ort_py
from tests.drop_in.both_runtimes import Case, expect_agreement, expect_difference, model

CPU = ["CPUExecutionProvider"]
MUL = model("g (float[N, 3] x) => (float[N, 3] y) <float[3] w = {2, 2, 2}> { y = Mul(x, w) }")
RELU = model("g (float[N, 3] x) => (float[N, 3] y) { y = Relu(x) }")
X = np.ones((1, 3), np.float32)
SEVENS = np.full(3, 7, np.float32)
CONTENT = np.full(3, 11, np.float32).tobytes()


@pytest.fixture(scope="module")
def external(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The same model with `w` in a file that is not there."""
    proto = onnx.load_from_string(MUL)
    proto.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(np.full(3, 2, np.float32), "w"))
    convert_model_to_external_data(proto, location="w.bin", size_threshold=0)
    path = tmp_path_factory.mktemp("external") / "model.onnx"
    onnx.save(proto, path)
    (path.parent / "w.bin").unlink()
    return path.read_bytes()


def runs(content: bytes, prepare: Callable[[Any, Any], Any]) -> Case:
    """A case that prepares options and runs the model; values are kept alive, as onnxruntime needs."""

    def case(runtime: Any) -> Any:
        options = runtime.SessionOptions()
        kept = prepare(runtime, options)
        session = runtime.InferenceSession(content, options, providers=CPU)
        results = session.run(None, {"x": X})
        del kept
        return results

    return case


def value(runtime: Any, array: Any) -> Any:
    """An OrtValue."""
    return runtime.OrtValue.ortvalue_from_numpy(array)


def adds(name: Any, array: Any) -> Callable[[Any, Any], Any]:
    """Add one initializer; arrays become OrtValues."""

    def prepare(runtime: Any, options: Any) -> Any:
        given = value(runtime, array) if isinstance(array, np.ndarray) else array
        options.add_initializer(name, given)
        return given

    return prepare


def adds_twice(runtime: Any, options: Any) -> Any:
    """Add one initializer two times."""
    given = value(runtime, SEVENS)
    options.add_initializer("w", given)
    options.add_initializer("w", given)
    return given


ADDED: dict[str, Callable[[Any, Any], Any]] = {
    "replaced": adds("w", SEVENS),
    "unknown name": adds("q", SEVENS),
    "name of an input": adds("x", SEVENS),
    "empty name": adds("", SEVENS),
    "other shape": adds("w", np.full(1, 7, np.float32)),
    "shape that does not fit": adds("w", np.full(5, 7, np.float32)),
    "no OrtValue": adds("w", [7, 7, 7]),
    "None": adds("w", None),
    "name a number": adds(3, SEVENS),
    "twice": adds_twice,
}


@pytest.mark.parametrize("name", sorted(ADDED))
def test_initializers_are_replaced_alike(name: str) -> None:
    """By name; what cannot be one is refused by the same class."""
    expect_agreement(runs(MUL, ADDED[name]))


def test_another_element_type_is_refused() -> None:
    """onnxruntime reads its bytes as if they were the model's type."""
    expect_difference(runs(MUL, adds("w", np.full(3, 7, np.int64))), ort_py.Fail)


def test_values_are_kept_alive() -> None:
    """onnxruntime crashes where the value is dropped before the session is made."""
    options = ort_py.SessionOptions()
    options.add_initializer("w", ort_py.OrtValue.ortvalue_from_numpy(SEVENS.copy()))
    gc.collect()
    session = ort_py.InferenceSession(MUL, options, providers=CPU)
    del options
    gc.collect()
    assert session.run(None, {"x": X})[0].tolist() == [[7, 7, 7]]


def external_values(names: Any, arrays: Any) -> Callable[[Any, Any], Any]:
    """Add external initializers."""

    def prepare(runtime: Any, options: Any) -> Any:
        values = [value(runtime, array) if isinstance(array, np.ndarray) else array for array in arrays]
        options.add_external_initializers(names, values if isinstance(arrays, list) else tuple(values))
        return values

    return prepare


def in_memory(names: Any, buffers: Any, lengths: Any) -> Callable[[Any, Any], Any]:
    """Add files in memory."""

    def prepare(runtime: Any, options: Any) -> Any:
        options.add_external_initializers_from_files_in_memory(names, buffers, lengths)
        return buffers

    return prepare


EXTERNAL: dict[str, Callable[[Any, Any], Any]] = {
    "nothing": lambda runtime, options: None,
    "replaced, not external": adds("w", SEVENS),
    "value": external_values(["w"], [SEVENS]),
    "value of another shape": external_values(["w"], [np.full(4, 7, np.float32)]),
    "value of another type": external_values(["w"], [np.full(3, 7, np.int32)]),
    "unknown name": external_values(["w", "q"], [SEVENS, SEVENS]),
    "fewer values": external_values(["w"], []),
    "tuples": external_values(("w",), (SEVENS,)),
    "no OrtValue": external_values(["w"], [[7, 7, 7]]),
    "file": in_memory(["w.bin"], [CONTENT], [12]),
    "file as array": in_memory(["w.bin"], [np.frombuffer(CONTENT, np.uint8)], [12]),
    "file cut": in_memory(["w.bin"], [CONTENT], [4]),
    "file of another name": in_memory(["q.bin"], [CONTENT], [12]),
    "more files than lengths": in_memory(["w.bin"], [CONTENT, CONTENT], [12]),
    "file a text": in_memory(["w.bin"], ["abc"], [3]),
}


@pytest.mark.parametrize("name", sorted(EXTERNAL))
def test_external_data_is_supplied_alike(name: str, external: bytes) -> None:
    """Values and files in memory replace the file that is not there; what does not fit is refused alike."""
    expect_agreement(runs(external, EXTERNAL[name]))


@pytest.mark.parametrize("name", ["value", "file"])
def test_supplying_what_the_model_holds_itself(name: str) -> None:
    """Values for initializers in the model are refused; unused files are not."""
    expect_agreement(runs(MUL, EXTERNAL[name]))


def test_a_changing_buffer_is_read_right(external: bytes) -> None:
    """onnxruntime reads a bytearray after it has let it go."""
    options = ort_py.SessionOptions()
    options.add_external_initializers_from_files_in_memory(["w.bin"], [bytearray(CONTENT)], [12])
    session = ort_py.InferenceSession(external, options, providers=CPU)
    assert session.run(None, {"x": X})[0].tolist() == [[11, 11, 11]]


def test_the_folder_of_external_data(external: bytes, tmp_path: Path) -> None:
    """onnxruntime's config entry says where the files of a model given as bytes are."""
    (tmp_path / "w.bin").write_bytes(CONTENT)

    def prepare(runtime: Any, options: Any) -> Any:
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(tmp_path))

    expect_agreement(runs(external, prepare))


@pytest.mark.parametrize("compat", [True, False])
def test_the_working_directory(compat: bool, external: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model given as bytes, perhaps by a stranger, reads what lies there in compatibility mode only."""
    (tmp_path / "w.bin").write_bytes(CONTENT)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ORT_PY_COMPAT", str(int(compat)))

    def prepare(runtime: Any, options: Any) -> None:
        # onnxruntime's optimiser cannot read such data; without it the runtime can.
        options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL

    case = runs(external, prepare)
    if compat:
        expect_agreement(case)
    else:
        expect_difference(case, ort_py.Fail)


# -- dimensions ----------------------------------------------------------------------------------------------------


def fixes(*given: tuple[Any, Any], kind: str = "name") -> Callable[[Any, Any], Any]:
    """Fix dimensions by name or denotation."""

    def prepare(_runtime: Any, options: Any) -> None:
        for name, size in given:
            getattr(options, f"add_free_dimension_override_by_{kind}")(name, size)

    return prepare


DIMENSIONS: dict[str, Callable[[Any, Any], Any]] = {
    "none": fixes(),
    "fixed": fixes(("N", 1)),
    "fixed to another size": fixes(("N", 5)),
    "zero": fixes(("N", 0)),
    "minus one": fixes(("N", -1)),
    "negative": fixes(("N", -7)),
    "unknown name": fixes(("Q", 5)),
    "twice": fixes(("N", 1), ("N", 6)),
    "number of NumPy": fixes(("N", np.int32(1))),
    "size as text": fixes(("N", "1")),
    "size as float": fixes(("N", 1.0)),
    "name a number": fixes((3, 1)),
    "by denotation": fixes(("DATA_BATCH", 1), kind="denotation"),
    "by another denotation": fixes(("DATA_CHANNEL", 1), kind="denotation"),
    "denotation a number": fixes((3, 1), kind="denotation"),
}


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("name", sorted(DIMENSIONS))
def test_dimensions_are_fixed_alike(name: str, named: bool) -> None:
    """Inputs, outputs and permitted feeds are the same, also if the dimension has no name."""
    proto = onnx.load_from_string(RELU)
    dimension = proto.graph.input[0].type.tensor_type.shape.dim[0]
    dimension.denotation = "DATA_BATCH"
    if not named:
        dimension.ClearField("dim_param")
        proto.graph.output[0].type.tensor_type.shape.dim[0].ClearField("dim_param")

    def case(runtime: Any) -> Any:
        options = runtime.SessionOptions()
        DIMENSIONS[name](runtime, options)
        session = runtime.InferenceSession(proto.SerializeToString(), options, providers=CPU)
        return [found.shape for found in (*session.get_inputs(), *session.get_outputs())]

    expect_agreement(case)
    expect_agreement(runs(proto.SerializeToString(), DIMENSIONS[name]))
