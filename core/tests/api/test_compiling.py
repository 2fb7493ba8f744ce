"""`compile_model`: what it writes, what it reports, and what it refuses."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import ort_py
from core.tests.compiling_provider import CompilingFactory, CompilingProvider
from core.tests.small_models import CPU, HEADER, RELU, model_bytes
from ort_py.contracts import ArtifactValidity, CompiledRegion, FunctionRegion, ProviderFactory, RegionView
from ort_py.engine import session_cache

FEED = {"x": np.array([[1, -2, 3]], np.float32)}


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """The file to write."""
    return tmp_path / "m.ortpy"


def test_the_report_says_what_was_written(target: Path) -> None:
    """The description is given as a record, as text, and as JSON."""
    said: list[str] = []
    report = ort_py.compile_model(model_bytes(RELU), target, providers=CPU, inputs=FEED, progress=said.append)
    assert (report.path, report.bytes) == (str(target), target.stat().st_size)
    assert report.providers == {"CPUExecutionProvider": 1}
    assert list(report.parts) == ["model"]
    assert report.notes == ()
    assert str(target) in str(report)
    assert report.to_json()["bytes"] == report.bytes
    assert said == ["preparing the model", "restoring the model", "running the model, 1 of 1", "writing the file"]
    assert [one.name for one in target.parent.iterdir()] == ["m.ortpy"]


def test_without_inputs_it_says_who_packs_the_weights(target: Path) -> None:
    report = ort_py.compile_model(model_bytes(RELU), target, providers=CPU)
    assert "no inputs were given" in str(report)


def test_the_original_is_embedded_where_it_is_wanted(target: Path) -> None:
    content = model_bytes(RELU)
    assert "original" not in ort_py.compile_model(content, target, providers=CPU).parts
    assert content not in target.read_bytes()
    assert ort_py.compile_model(content, target, providers=CPU, embed_original=True).parts["original"] > len(content)
    assert content in target.read_bytes()


def test_several_inputs_are_run(target: Path) -> None:
    """A list of them, and a wrong one is an error: nothing is written then."""
    feeds = [{"x": np.zeros((size, 3), np.float32)} for size in (1, 2)]
    ort_py.compile_model(model_bytes(RELU), target, providers=CPU, inputs=feeds)
    target.unlink()
    with pytest.raises(ort_py.InvalidArgument):
        ort_py.compile_model(model_bytes(RELU), target, providers=CPU, inputs=[*feeds, {"y": feeds[0]["x"]}])
    assert list(target.parent.iterdir()) == []


def test_a_wrong_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ort_py.InvalidArgument, match=r"has to end in '\.ortpy'(.|\n)*Write it to '.*m\.ortpy'"):
        ort_py.compile_model(model_bytes(RELU), tmp_path / "m.bin", providers=CPU)


def test_a_compiled_model_is_not_compiled_again(target: Path) -> None:
    ort_py.compile_model(model_bytes(RELU), target, providers=CPU)
    for given in (target, target.read_bytes()):
        with pytest.raises(ort_py.InvalidArgument, match="is compiled already"):
            ort_py.compile_model(given, target.with_name("again.ortpy"), providers=CPU)


def test_replaced_initializers_are_refused(target: Path) -> None:
    options = ort_py.SessionOptions()
    options.add_initializer("c", ort_py.OrtValue.ortvalue_from_numpy(np.zeros(3, np.float32)))
    with pytest.raises(ort_py.CompiledModelError, match="replaced initializers"):
        ort_py.compile_model(model_bytes(RELU), target, options, CPU)


def test_code_without_a_file_is_refused(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A change could not be found later."""
    monkeypatch.setattr(session_cache, "package_stamp", lambda _: None)
    with pytest.raises(ort_py.CompiledModelError, match="code of a plug-in"):
        ort_py.compile_model(model_bytes(RELU), target, providers=CPU)


def test_the_cache_may_be_off(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiled model is not in it."""
    monkeypatch.setenv("ORT_PY_CACHE", "off")
    ort_py.compile_model(model_bytes(RELU), target, providers=CPU)
    assert ort_py.InferenceSession(target).run(None, FEED)[0].tolist() == [[1, 0, 3]]


class Region(FunctionRegion):
    """A region whose code is kept as its artifact."""

    def serialize(self) -> bytes:
        return b"relu"


class KeepingProvider(CompilingProvider):
    """Compiles, and restores what it has compiled."""

    def validate(self, artifact: bytes) -> ArtifactValidity:
        return ArtifactValidity.VALID

    def restore(self, artifact: bytes) -> CompiledRegion:
        logging.getLogger("restored").warning("%r", artifact)
        return region()


def region(_: RegionView | None = None) -> CompiledRegion:
    """A region that computes Relu."""
    return Region(lambda x: [np.maximum(x, 0)])


def test_what_providers_compile_is_in_the_file(
    target: Path,
    register: Callable[[ProviderFactory], None],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is restored, and not compiled again."""
    monkeypatch.setattr(session_cache, "package_stamp", lambda _: "that of this test's code")
    register(CompilingFactory(lambda: KeepingProvider(region)))
    names = ["CompilingExecutionProvider", *CPU]
    report = ort_py.compile_model(model_bytes(HEADER + RELU), target, providers=names)
    assert "artifact" in report.parts
    caplog.clear()
    session = ort_py.InferenceSession(target)
    assert "restored" in [one.name for one in caplog.records]
    assert session.get_providers() == names
    assert session.run(None, FEED)[0].tolist() == [[1, 0, 3]]
    with pytest.raises(ort_py.CompiledModelError, match="it needs CompilingExecutionProvider, which"):
        ort_py.InferenceSession(target, providers=CPU)


def test_onnxruntimes_compiler_writes_it_too(target: Path) -> None:
    """If the name of the file asks for it."""
    ort_py.ModelCompiler(ort_py.SessionOptions(), model_bytes(RELU)).compile_to_file(target)
    assert ort_py.InferenceSession(target, providers=CPU).run(None, FEED)[0].tolist() == [[1, 0, 3]]
