"""Finding and opening the library: where it is looked for, and what is said where it cannot be used."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import _cffi_backend
import pytest

from ort_py_onednn.binding import library
from ort_py_onednn.binding._dnnl import ffi


def _opened_as(monkeypatch: pytest.MonkeyPatch, version: Any) -> library.Library | library.Missing:
    monkeypatch.setattr(library, "_load", lambda _: SimpleNamespace(dnnl_version=lambda: version))
    return library._opened("/somewhere/libdnnl.so.3")


def test_the_library_is_open_with_its_version() -> None:
    """Version 3 of the C API, with an OpenMP runtime whose threads can be set."""
    found = library.open_library()
    assert found.version[0] == 3
    assert found.threaded
    assert found.isa > 0


def test_a_variable_names_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    path = library.open_library().path
    monkeypatch.setenv(library.VARIABLE, path)
    monkeypatch.setattr(library, "_folders", lambda: iter(()))
    found = library._find()
    assert isinstance(found, library.Library)
    assert found.path == path


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Files that are opened; none is, in truth."""
    found: list[str] = []

    def note(path: str) -> library.Missing:
        found.append(path)
        return library.Missing("", "")

    monkeypatch.delenv(library.VARIABLE, raising=False)
    monkeypatch.setattr(library, "_opened", note)
    return found


def test_the_package_of_our_own_wheel_comes_first(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, opened: list[str]
) -> None:
    """It is found where imports would find it, and is not imported."""
    package = tmp_path / "ort_py_onednn_native"
    package.mkdir()
    (package / "__init__.py").write_text("raise AssertionError('it was imported')", encoding="utf-8")
    (package / library.SONAME).touch()
    monkeypatch.syspath_prepend(tmp_path)
    library._find()
    assert opened == [str(package / library.SONAME)]


def test_without_our_own_wheel_another_one_is_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, opened: list[str]
) -> None:
    """A package without the file, as after an interrupted installation, is passed over."""
    (tmp_path / "ort_py_onednn_native").mkdir()
    (tmp_path / "ort_py_onednn_native/__init__.py").write_text("", encoding="utf-8")
    file = tmp_path / "prefix" / library._FOLDER / library.SONAME
    file.parent.mkdir(parents=True)
    file.touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("sys.prefix", str(tmp_path / "prefix"))
    library._find()
    assert opened == [str(file)]


def test_the_wheel_of_another_environment_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its record says where the file lies, relative to the folder of `sys.path` that has the record."""
    name = f"{library._WHEEL.replace('-', '_')}-2023.2.0.dist-info"
    record = tmp_path / "other/lib/python3/site-packages" / name
    record.mkdir(parents=True)
    (record / "RECORD").write_text(
        f"../../{library.SONAME}.2,,\n../../{library.SONAME},sha256=abc,5\n", encoding="utf-8"
    )
    (tmp_path / "other/lib" / library.SONAME).write_bytes(b"")
    monkeypatch.setattr("sys.path", [str(record.parent)])
    monkeypatch.setattr("sys.prefix", str(tmp_path))
    monkeypatch.setattr("sys.base_prefix", str(tmp_path))
    assert str((tmp_path / "other/lib").resolve()) in list(library._folders())


def test_runtimes_of_microsoft_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """On Windows: the fix names the package, and what the system may have."""

    def load(_: str) -> Any:
        raise library.MissingRuntime("vcomp140.dll: it is not there")

    monkeypatch.setattr(library, "_load", load)
    found = library._opened("somewhere/dnnl.dll")
    assert isinstance(found, library.Missing)
    assert "somewhere/dnnl.dll needs Microsoft's C++ and OpenMP runtimes: vcomp140.dll" in found.reason
    assert "pip install msvc-runtime" in found.fix


def test_a_variable_that_names_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not silently passed over."""
    monkeypatch.setenv(library.VARIABLE, "/nowhere/libdnnl.so.3")
    found = library._find()
    assert isinstance(found, library.Missing)
    assert found.reason == f"{library.VARIABLE} names /nowhere/libdnnl.so.3, which is not a file"
    assert "unset it" in found.fix


def test_a_file_that_is_no_library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The loader's own words are kept."""
    file = tmp_path / "libdnnl.so.3"
    file.write_bytes(b"nonsense")
    monkeypatch.setenv(library.VARIABLE, str(file))
    found = library._find()
    assert isinstance(found, library.Missing)
    assert "does not load" in found.reason
    assert found.fix == library.INSTALL


def test_a_library_without_the_functions() -> None:
    """Python's own back end of cffi stands for any."""
    path = _cffi_backend.__file__
    assert library._opened(path) == library.Missing(f"{path} is not oneDNN", library.INSTALL)


def test_another_major_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """The binding is for version 3."""
    found = _opened_as(monkeypatch, SimpleNamespace(major=2, minor=7, patch=0, cpu_runtime=2))
    assert isinstance(found, library.Missing)
    assert "is oneDNN 2.7; its C API of version 3 is needed" in found.reason


def test_another_threading_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads of TBB cannot be counted from here."""
    found = _opened_as(monkeypatch, SimpleNamespace(major=3, minor=2, patch=0, cpu_runtime=4))
    assert isinstance(found, library.Missing)
    assert "is built for TBB" in found.reason


def test_openmp_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The wheel does not bring libgomp: the fix names the system's package."""

    def load(_: str) -> Any:
        raise OSError("libgomp.so.1: cannot open shared object file: No such file or directory")

    monkeypatch.setattr(library, "_load", load)
    found = library._opened("/somewhere/libdnnl.so.3")
    assert isinstance(found, library.Missing)
    assert "needs the system's OpenMP runtime" in found.reason
    assert "apt-get install libgomp1" in found.fix


def test_nothing_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a wheel nor a system library: what to install."""

    def load(_: str) -> Any:
        raise OSError("libdnnl.so.3: cannot open shared object file: No such file or directory")

    monkeypatch.delenv(library.VARIABLE, raising=False)
    monkeypatch.setattr(library, "_folders", lambda: iter(()))
    monkeypatch.setattr(library, "_load", load)
    found = library._find()
    assert isinstance(found, library.Missing)
    assert found.reason.startswith(f"there is no {library.SONAME}: neither beside this Python nor in ")
    assert found.fix == library.INSTALL


@pytest.mark.parametrize(("system", "machine"), [("darwin", "arm64"), ("win32", "ARM64"), ("linux", "aarch64")])
def test_other_platforms(monkeypatch: pytest.MonkeyPatch, system: str, machine: str) -> None:
    """A reason that names the platform."""
    monkeypatch.setattr("sys.platform", system)
    monkeypatch.setattr("platform.machine", lambda: machine)
    found = library._find()
    assert isinstance(found, library.Missing)
    assert f"this is {system} on {machine}" in found.reason


def test_the_environment_is_left_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """Brief spinning is asked for while the library loads, and the user's choice is respected."""
    monkeypatch.delenv("GOMP_SPINCOUNT", raising=False)
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    with library._brief_spinning():
        assert os.environ["GOMP_SPINCOUNT"] == "3000"
    assert "GOMP_SPINCOUNT" not in os.environ
    monkeypatch.setenv("OMP_WAIT_POLICY", "active")
    with library._brief_spinning():
        assert "GOMP_SPINCOUNT" not in os.environ


def test_the_binding_is_for_abi_mode() -> None:
    """No compiled module: cffi's own back end reads the declarations."""
    assert type(ffi).__module__ == "_cffi_backend"
