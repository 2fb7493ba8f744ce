"""Compiled regions in the cache: exported, distinguished, and imported again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ort_py
from ort_py.contracts import ArtifactValidity, SessionContext
from ort_py_openvino.artifacts import pack, unpack, validity
from ort_py_openvino.options import OPTIONS
from ort_py_openvino.properties import Target, target_of
from providers.openvino.tests.models import NAME, parsed

NET = "g (float[n, 64] x, float[64, 64] w) => (float[n, 64] y) { a = MatMul(x, w) y = Tanh(a) }"


def target(**given: Any) -> Target:
    return target_of({**{one.name: one.default for one in OPTIONS}, **given}, SessionContext())


def test_what_it_was_made_for() -> None:
    """The same version, device and properties; anything else is compiled again."""
    artifact = pack({"inputs": ["x"], "outputs": 1}, b"blob", target())
    header, blob = unpack(artifact)
    assert (header["inputs"], blob) == (["x"], b"blob")
    assert validity(artifact, target()) is ArtifactValidity.VALID
    assert validity(artifact, target(precision="BF16")) is ArtifactValidity.STALE
    assert validity(artifact, target(num_of_threads=7)) is ArtifactValidity.STALE


@pytest.mark.parametrize("damaged", [b"", b"something else", b"ortpyOV2", b"ortpyOV2" + bytes(20)])
def test_what_is_none_of_ours(damaged: bytes) -> None:
    assert validity(damaged, target()) is ArtifactValidity.UNSUPPORTED


@pytest.mark.parametrize("place", [0, 8, 24, 40, -5, -1])
def test_a_changed_byte(place: int) -> None:
    """Wherever it is: OpenVINO would take it for a weight, or end the process."""
    artifact = bytearray(pack({"inputs": ["x"], "outputs": 1}, b"a blob of OpenVINO's", target()))
    artifact[place] ^= 1
    assert validity(bytes(artifact), target()) is ArtifactValidity.UNSUPPORTED


@pytest.mark.parametrize("foreign", [b"", b"ortpyOV1" + bytes(40), b"ortpyOV2"])
def test_unpacking_what_is_none_of_ours(foreign: bytes) -> None:
    with pytest.raises(ValueError, match="not an artifact of OpenVINOExecutionProvider"):
        unpack(foreign)


def test_a_session_from_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gives the same, and compiles nothing."""
    monkeypatch.setenv("ORT_PY_CACHE", str(tmp_path / "cache"))
    (tmp_path / "cache").mkdir(mode=0o700)
    model = tmp_path / "model.onnx"
    model.write_bytes(parsed(NET).SerializeToString())
    rng = np.random.default_rng(4)
    feeds = {"x": rng.standard_normal((3, 64), np.float32), "w": rng.standard_normal((64, 64), np.float32)}
    results = []
    for turn in range(2):
        options = ort_py.SessionOptions()
        options.cache_dir = str(tmp_path / "cache")
        if turn:
            from ort_py_openvino.region import OpenVINORegion

            def fail(*_: Any) -> None:
                raise AssertionError("compiled again")

            monkeypatch.setattr(OpenVINORegion, "of", fail)
        with ort_py.InferenceSession(
            str(model), options, providers=[(NAME, {"claim_small": True}), "CPUExecutionProvider"]
        ) as session:
            results.append(session.run(None, feeds)[0])
            assert not session.fallback_report
            assert {node.provider for node in session.placement.nodes} == {NAME}
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("damage", [lambda blob: blob[: len(blob) // 2], lambda blob: b"", lambda blob: blob[::-1]])
def test_what_openvino_does_not_import_is_an_error(damage: Callable[[bytes], bytes]) -> None:
    """It is raised, and the core compiles again."""
    from ort_py_openvino.region import OpenVINORegion, imported
    from ort_py_openvino.runtime import core

    compiled = core().compile_model(core().read_model(parsed(NET).SerializeToString()), "CPU")
    artifact = OpenVINORegion(compiled, ["x", "w"], 1, target()).serialize()
    assert artifact is not None
    header, blob = unpack(artifact)
    assert imported(header, blob, target()).places == [0, 1]
    with pytest.raises(RuntimeError):
        imported(header, damage(blob), target())


def test_a_damaged_file_is_compiled_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The session is created with right results, whatever was written over the file."""
    monkeypatch.setenv("ORT_PY_CACHE", str(tmp_path / "cache"))
    (tmp_path / "cache").mkdir(mode=0o700)
    model = tmp_path / "model.onnx"
    model.write_bytes(parsed(NET).SerializeToString())
    feeds = {"x": np.ones((3, 64), np.float32), "w": np.eye(64, dtype=np.float32)}
    options = ort_py.SessionOptions()
    options.cache_dir = str(tmp_path / "cache")
    for _ in range(2):
        with ort_py.InferenceSession(
            str(model), options, providers=[(NAME, {"claim_small": True}), "CPUExecutionProvider"]
        ) as session:
            np.testing.assert_allclose(session.run(None, feeds)[0], np.tanh(feeds["x"]), rtol=1e-5)
            assert {node.provider for node in session.placement.nodes} == {NAME}
        kept = [one for one in (tmp_path / "cache").rglob("*") if one.is_file() and one.stat().st_size > 1000]
        assert kept
        for file in kept:
            content = bytearray(file.read_bytes())
            content[len(content) // 2 :] = bytes(len(content) - len(content) // 2)
            file.write_bytes(content)
