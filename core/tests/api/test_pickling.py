"""Sessions pickle as what they were made of; so do the values that a session gives."""

from __future__ import annotations

import copy
import os
import pathlib
import pickle
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest

import ort_py
from core.tests.small_models import CPU, RELU, model_bytes, open_model
from ort_py import InferenceSession, InvalidArgument, Limits, NoSuchFile, OrtValue, RunOptions, SessionOptions
from ort_py.engine import recipe
from ort_py.options import without_effect

X = np.array([[-1.0, 2.0, -3.0]], np.float32)


def again(value: Any) -> Any:
    """A value after a trip through pickle."""
    return pickle.loads(pickle.dumps(value))


files_may_go = pytest.mark.skipif(os.name == "nt", reason="Windows keeps files that are mapped")


@pytest.fixture
def path(tmp_path: pathlib.Path) -> pathlib.Path:
    """A model's file."""
    file = tmp_path / "model.onnx"
    file.write_bytes(model_bytes(RELU))
    return file


@pytest.mark.parametrize("form", ["bytes", "path", "str", "proto"])
@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_session_pickles(form: str, protocol: int, path: pathlib.Path) -> None:
    """In every form a model is given; the copy gives the same results."""
    content = path.read_bytes()
    source = {"bytes": content, "path": path, "str": str(path), "proto": onnx.load_from_string(content)}[form]
    session = InferenceSession(source, providers=CPU)
    twin = pickle.loads(pickle.dumps(session, protocol))
    assert twin is not session
    np.testing.assert_array_equal(twin.run(None, {"x": X})[0], np.maximum(X, 0))


def test_path_is_pickled_by_reference(tmp_path: pathlib.Path) -> None:
    """The pickle holds the path and not the model."""
    model = onnx.load_from_string(model_bytes("g (float[5000] x) => (float[5000] y) { y = Add(x, w) }"))
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.ones(5000, np.float32), "w"))
    onnx.save(model, tmp_path / "m.onnx")
    content = pickle.dumps(InferenceSession(tmp_path / "m.onnx", providers=CPU))
    assert str(tmp_path / "m.onnx").encode() in content
    assert len(content) < 10_000


def test_relative_path_survives_a_change_of_folder(path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The path is made absolute when the session is created."""
    monkeypatch.chdir(path.parent)
    content = pickle.dumps(InferenceSession(path.name, providers=CPU))
    monkeypatch.chdir("/")
    assert pickle.loads(content).run(None, {"x": X})


def test_options_and_providers_are_pickled(path: pathlib.Path) -> None:
    """Options, config entries, provider options and further arguments are those of the original."""
    options = SessionOptions()
    options.intra_op_num_threads = 1
    options.limits = Limits(run_seconds=9.0)
    options.add_session_config_entry("session.disable_prepacking", "1")
    session = InferenceSession(path, options, [("CPUExecutionProvider", {})], disabled_optimizers=["ConstantFolding"])
    session.disable_fallback()
    twin = again(session)
    found = twin.get_session_options()
    assert (found.intra_op_num_threads, found.limits.run_seconds) == (1, 9.0)
    assert found.get_session_config_entry("session.disable_prepacking") == "1"
    assert found.disabled_transforms == session.get_session_options().disabled_transforms
    assert (twin.get_providers(), twin.threads.count) == (CPU, 1)
    assert twin.get_provider_options() == session.get_provider_options()
    assert twin.engine.policy.enabled is False


def test_pickled_twice(path: pathlib.Path) -> None:
    """A session that came out of a pickle pickles as well."""
    assert again(again(InferenceSession(path, providers=CPU))).run(None, {"x": X})


def test_touched_file_is_the_same_file(path: pathlib.Path) -> None:
    """Another time of writing with the same content: a copied or checked-out file is accepted."""
    content = pickle.dumps(InferenceSession(path, providers=CPU))
    os.utime(path, (1, 1))
    assert pickle.loads(content).run(None, {"x": X})


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (RELU.replace("Relu", "Sqrt"), "its content is different"),
        (RELU.replace("Relu", "Identity"), "bytes and now has"),
    ],
    ids=["content", "size"],
)
def test_changed_file_is_refused(text: str, why: str, path: pathlib.Path) -> None:
    """Another model under the same path is never run in silence."""
    content = pickle.dumps(InferenceSession(path, providers=CPU))
    path.write_bytes(model_bytes(text))
    os.utime(path, (1, 1))
    with pytest.raises(InvalidArgument, match="The model's file was changed after the session was created") as caught:
        pickle.loads(content)
    assert why in str(caught.value)
    assert str(path) in str(caught.value)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no time of the last status change")
def test_file_rewritten_with_its_time_kept_is_refused(path: pathlib.Path) -> None:
    """Size and time alone do not make a model the same one."""
    found = path.stat()
    content = pickle.dumps(InferenceSession(path, providers=CPU))
    path.write_bytes(model_bytes(RELU.replace("Relu", "Sqrt")))
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))
    with pytest.raises(InvalidArgument, match="its content is different"):
        pickle.loads(content)


@pytest.fixture
def external(tmp_path: pathlib.Path) -> pathlib.Path:
    """A model that adds a constant from a file beside it, ``data.bin``."""
    model = onnx.load_from_string(model_bytes("g (float[1] x) => (float[1] y) <float[1] c = {1}> { y = Add(x, c) }"))
    model.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(np.ones(1, np.float32), "c"))
    onnx.save(model, tmp_path / "e.onnx", save_as_external_data=True, location="data.bin", size_threshold=0)
    return tmp_path / "e.onnx"


@files_may_go
@pytest.mark.parametrize("again", ["pickled", "other providers"])
@pytest.mark.parametrize("change", ["content", "size"])
def test_other_external_data_is_refused(external: pathlib.Path, again: str, change: str) -> None:
    """Another content under the same path is never run in silence."""
    session = InferenceSession(external, providers=CPU)
    content = pickle.dumps(session)
    data = external.with_name("data.bin")
    data.write_bytes(np.array([2] * (1 + (change == "size")), np.float32).tobytes())
    with pytest.raises(InvalidArgument, match="file was changed after the session was created") as caught:
        session.set_providers(CPU) if again == "other providers" else pickle.loads(content)
    assert str(data) in str(caught.value)


@files_may_go
def test_copied_external_data_is_the_same(external: pathlib.Path) -> None:
    """Another file and time with the same content."""
    content = pickle.dumps(InferenceSession(external, providers=CPU))
    data = external.with_name("data.bin")
    copy = external.with_name("copy")
    copy.write_bytes(data.read_bytes())
    copy.replace(data)
    assert pickle.loads(content).run(None, {"x": np.zeros(1, np.float32)})[0].item() == 1


@pytest.mark.skipif(os.name == "nt", reason="Windows has no time of the last status change")
def test_other_providers_take_the_same_model(path: pathlib.Path) -> None:
    """A session reads its file again for them: a touched file is accepted, another model is not."""
    session = InferenceSession(path, providers=CPU)
    os.utime(path, (1, 1))
    session.set_providers(CPU)
    path.write_bytes(model_bytes(RELU.replace("Relu", "Sqrt")))
    os.utime(path, (1, 1))
    with pytest.raises(InvalidArgument, match="its content is different"):
        session.set_providers(CPU)
    assert session.run(None, {"x": X})[0].tolist() == np.maximum(X, 0).tolist()


def test_missing_file_says_so(path: pathlib.Path) -> None:
    content = pickle.dumps(InferenceSession(path, providers=CPU))
    path.unlink()
    with pytest.raises(NoSuchFile, match="does not exist"):
        pickle.loads(content)


def test_changed_proto_is_refused() -> None:
    """The message is the caller's: where it was changed since, there is nothing right to pickle."""
    proto = onnx.load_from_string(model_bytes(RELU))
    session = InferenceSession(proto, providers=CPU)
    proto.graph.node[0].op_type = "Neg"
    with pytest.raises(InvalidArgument, match="cannot be pickled") as caught:
        pickle.dumps(session)
    assert "was changed afterwards" in str(caught.value)


@pytest.mark.parametrize(("entry", "kept"), [("", False), ("1", True), ("0", False)])
def test_large_bytes_are_kept_when_asked(entry: str, kept: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes beyond a bound would hold the constants twice, so they are not kept; the message says what to do."""
    monkeypatch.setattr(recipe, "KEPT_BYTES", 10)
    options = SessionOptions()
    if entry:
        options.add_session_config_entry(recipe.KEEP_BYTES_KEY, entry)
    assert without_effect(options) == []
    session = open_model(RELU, options)
    if kept:
        assert again(session).run(None, {"x": X})
        return
    with pytest.raises(InvalidArgument, match="cannot be pickled or copied deeply") as caught:
        pickle.dumps(session)
    assert "session.keep_model_bytes" in caught.value.fix
    with pytest.raises(InvalidArgument, match="cannot be pickled or copied deeply"):
        copy.deepcopy(session)


def test_closed_session_does_not_pickle() -> None:
    session = open_model(RELU)
    session.close()
    with pytest.raises(InvalidArgument, match="The session is closed"):
        pickle.dumps(session)


def test_copy_shares_and_deepcopy_does_not() -> None:
    """A shallow copy is the session; a deep one is independent and outlives it."""
    session = open_model(RELU)
    assert copy.copy(session) is session
    twin = copy.deepcopy(session)
    session.close()
    np.testing.assert_array_equal(twin.run(None, {"x": X})[0], np.maximum(X, 0))


class Named(InferenceSession):
    """A subclass with arguments and attributes of its own."""

    def __init__(self, name: str, content: bytes) -> None:
        self.name = name
        super().__init__(content, providers=CPU)
        self._calls = [name]


class Restoring(InferenceSession):
    """A subclass that pickles in its own way, as applications do for onnxruntime."""

    def __init__(self, path: str) -> None:
        super().__init__(path, providers=CPU)
        self.path = path

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path}

    def __setstate__(self, state: Any) -> None:
        self.__init__(state["path"])  # type: ignore[misc]  # the pattern under test


def test_subclass_keeps_its_attributes() -> None:
    """Attributes of a subclass are kept, whatever arguments its constructor takes."""
    twin = again(again(Named("one", model_bytes(RELU))))
    assert type(twin) is Named
    assert (twin.name, twin._calls) == ("one", ["one"])
    assert twin.run(None, {"x": X})


def test_subclass_may_pickle_in_its_own_way(path: pathlib.Path) -> None:
    """Its `__getstate__` and `__setstate__` are used."""
    twin = again(Restoring(str(path)))
    assert twin.path == str(path)
    assert twin.run(None, {"x": X})


def test_what_a_session_gives_pickles() -> None:
    """NodeArg, ModelMetadata, placement, options and reports."""
    session = open_model(RELU)
    for value in (
        session.get_inputs(),
        session.placement,
        session.memory_report(),
        session.load_report,
        session.threads,
        session.fallback_report,
    ):
        assert again(value) == value
    metadata = session.get_modelmeta()
    assert again(metadata).graph_name == metadata.graph_name
    assert repr(again(session.get_session_options())) == repr(session.get_session_options())
    assert repr(again(RunOptions())) == repr(RunOptions())


@pytest.mark.parametrize(
    "array",
    [np.arange(6.0).reshape(2, 3), np.ones(3, ml_dtypes.bfloat16), np.array(["a", "b"], object), np.array(3)],
    ids=["float64", "bfloat16", "string", "scalar"],
)
def test_host_tensors_pickle(array: Any) -> None:
    """An OrtValue on the host: its content, type and device."""
    value = OrtValue.ortvalue_from_numpy(array)
    twin = again(value)
    assert (twin.data_type(), twin.device_name(), twin.shape()) == (
        value.data_type(),
        value.device_name(),
        value.shape(),
    )
    np.testing.assert_array_equal(twin.numpy(), value.numpy())


def test_errors_pickle() -> None:
    """The new ones too, with their parts: a worker process hands them to its parent."""
    error: Any = again(ort_py.RunTimeoutError("what", why="why", fix="fix"))
    assert issubclass(type(error), TimeoutError)
    assert (error.what, error.why, error.fix) == ("what", ("why",), "fix")
