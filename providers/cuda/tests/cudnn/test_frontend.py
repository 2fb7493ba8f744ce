"""The door to nvidia-cudnn-frontend: what is said where it is missing, of an unknown version, or broken."""

from __future__ import annotations

from importlib import metadata

import pytest

from ort_py.errors import EPFail
from ort_py_cuda.cudnn import frontend


@pytest.fixture(autouse=True)
def _shut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frontend, "_module", None)
    monkeypatch.setattr(frontend, "_unsuitable", frontend._unsuitable.__wrapped__)


def _installed(monkeypatch: pytest.MonkeyPatch, version: str | None) -> None:
    def answer(name: str) -> str:
        if version is None:
            raise metadata.PackageNotFoundError(name)
        return version

    monkeypatch.setattr("ort_py_cuda.cudnn.frontend.metadata.version", answer)


def test_a_missing_package_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message gives the command that installs a working front end."""
    _installed(monkeypatch, None)
    assert frontend.missing_frontend() == "nvidia-cudnn-frontend is not installed"
    with pytest.raises(EPFail, match=r'pip install "nvidia-cudnn-frontend>=1\.18,<1\.29"'):
        frontend.frontend()


@pytest.mark.parametrize("version", ["1.29.1", "1.17.0", "2.0", "nightly"])
def test_unknown_versions_are_refused(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """From 1.29 on it is another package in all but name; the reason says which version is there."""
    _installed(monkeypatch, version)
    reason = frontend.missing_frontend()
    assert reason is not None
    assert f"nvidia-cudnn-frontend {version} is installed" in reason
    with pytest.raises(EPFail, match="cannot be used"):
        frontend.frontend()


@pytest.mark.parametrize("version", ["1.18.0", "1.22.1", "1.28.0.post1"])
def test_known_versions_pass(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is imported to find that out."""
    _installed(monkeypatch, version)
    assert frontend.missing_frontend() is None


def test_a_broken_package_says_what_broke(monkeypatch: pytest.MonkeyPatch) -> None:
    """It loads shared libraries: their words are in the error."""
    _installed(monkeypatch, "1.28.0")

    def broken(name: str) -> None:
        raise OSError("libsomething.so.9: no such file")

    monkeypatch.setattr(frontend, "import_module", broken)
    with pytest.raises(EPFail, match=r"does not import[\s\S]*OSError: libsomething\.so\.9"):
        frontend.frontend()
