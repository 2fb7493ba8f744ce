"""Regions and the artifact cache: compiled once, restored the next time, compiled again where restoring fails."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ort_py
from core.tests.compiling_provider import NAME, CompilingFactory, CompilingProvider
from core.tests.small_models import RELU, model_bytes
from ort_py.contracts import ArtifactValidity, CompiledRegion, FunctionRegion, ProviderFactory, RegionView

ARTIFACT = b"relu"
X = np.array([[1, -2, 3]], np.float32)
Register = Callable[[ProviderFactory], None]


def relu(x: Any) -> Sequence[Any]:
    """Compute the only region of the model."""
    return [np.maximum(x, 0)]


class ReluRegion(FunctionRegion):
    """A region that can be kept."""

    def serialize(self) -> bytes | None:
        return ARTIFACT


class CachingProvider(CompilingProvider):
    """Writes down whether it compiled or restored."""

    def __init__(self, diary: list[str], validity: ArtifactValidity, broken: bool) -> None:
        super().__init__(self._compiled)
        self._diary = diary
        self._validity = validity
        self._broken = broken

    def _compiled(self, region: RegionView) -> CompiledRegion:
        self._diary.append("compiled")
        return ReluRegion(relu)

    def validate(self, artifact: bytes) -> ArtifactValidity:
        assert artifact == ARTIFACT
        return self._validity

    def restore(self, artifact: bytes) -> CompiledRegion:
        if self._broken:
            raise OSError("made by another version")
        self._diary.append("restored")
        return ReluRegion(relu)


class CachingFactory(CompilingFactory):
    """Makes `CachingProvider`s that share a diary."""

    def __init__(self, validity: ArtifactValidity = ArtifactValidity.VALID, broken: bool = False) -> None:
        super().__init__(lambda: CachingProvider(self.diary, validity, broken))
        self.diary: list[str] = []


def run_twice(folder: Path) -> None:
    """Two sessions of one model, one after the other, with the same cache."""
    options = ort_py.SessionOptions()
    options.cache_dir = folder
    for _ in range(2):
        with ort_py.InferenceSession(model_bytes(RELU), options, [NAME, "CPUExecutionProvider"]) as session:
            assert session.placement.counts() == {NAME: 1}
            np.testing.assert_array_equal(session.run(None, {"x": X})[0], np.maximum(X, 0))


def test_the_second_session_restores_what_the_first_compiled(register: Register, tmp_path: Path) -> None:
    factory = CachingFactory()
    register(factory)
    run_twice(tmp_path / "cache")
    assert factory.diary == ["compiled", "restored"]


def test_a_stale_artifact_is_a_miss(register: Register, tmp_path: Path) -> None:
    """An artifact that the provider calls stale is compiled again."""
    factory = CachingFactory(ArtifactValidity.STALE)
    register(factory)
    run_twice(tmp_path / "cache")
    assert factory.diary == ["compiled", "compiled"]


def test_an_artifact_that_cannot_be_restored_is_compiled_again(
    register: Register, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """`restore` raises: the session is made all the same, by the same provider, and the log says why."""
    factory = CachingFactory(broken=True)
    register(factory)
    with caplog.at_level(logging.WARNING, "ort_py.session"):
        run_twice(tmp_path / "cache")
    assert factory.diary == ["compiled", "compiled"]
    assert "could not restore a cached artifact" in caplog.text
    assert "made by another version" in caplog.text


def test_without_a_folder_nothing_is_kept(register: Register, tmp_path: Path) -> None:
    """The cache is off by default."""
    factory = CachingFactory()
    register(factory)
    for _ in range(2):
        ort_py.InferenceSession(model_bytes(RELU), providers=[NAME, "CPUExecutionProvider"]).close()
    assert factory.diary == ["compiled", "compiled"]


WEIGHTED = "g (float[N, 1024] x) => (float[N, 1024] y) <float[1024] w = {%s}> { y = Add(x, w) }"


@pytest.mark.parametrize(("second", "made"), [(1, 1), (2, 2)], ids=["same", "other"])
def test_constants_tell_artifacts_apart(register: Register, tmp_path: Path, second: int, made: int) -> None:
    """Two regions that differ in a large constant only are two artifacts; the same one is found again."""
    factory = CachingFactory()
    register(factory)
    options = ort_py.SessionOptions()
    options.cache_dir = tmp_path
    for value in (1, second):
        text = WEIGHTED % ", ".join([str(value)] * 1024)
        ort_py.InferenceSession(model_bytes(text), options, [NAME, "CPUExecutionProvider"]).close()
    assert factory.diary.count("compiled") == made
