"""Finding and opening the library: where it is looked for, and what is said where it cannot be used."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ort_py_onednn.binding import library
from ort_py_onednn.binding._dnnl import ffi


def _opened_as(monkeypatch: pytest.MonkeyPatch, version: Any) -> library.Library | library.Missing:
    fake = SimpleNamespace(dlopen=lambda *_: SimpleNamespace(dnnl_version=lambda: version))
    monkeypatch.setattr("ort_py_onednn.binding._dnnl.ffi", fake)
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


def test_the_package_of_our_own_wheel_comes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It is found where imports would find it, and is not imported."""
    package = tmp_path / "ort_py_onednn_native"
    package.mkdir()
    (package / "__init__.py").write_text("raise AssertionError('it was imported')", encoding="utf-8")
    (package / library.SONAME).symlink_to(library.open_library().path)
    monkeypatch.delenv(library.VARIABLE, raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    found = library._find()
    assert isinstance(found, library.Library)
    assert found.path == str(package / library.SONAME)


def test_without_our_own_wheel_another_one_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A package without the file, as after an interrupted installation, is passed over."""
    (tmp_path / "ort_py_onednn_native").mkdir()
    (tmp_path / "ort_py_onednn_native/__init__.py").write_text("", encoding="utf-8")
    (tmp_path / "prefix/lib").mkdir(parents=True)
    (tmp_path / "prefix/lib" / library.SONAME).symlink_to(library.open_library().path)
    monkeypatch.delenv(library.VARIABLE, raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("sys.prefix", str(tmp_path / "prefix"))
    found = library._find()
    assert isinstance(found, library.Library)
    assert found.path == str(tmp_path / "prefix/lib" / library.SONAME)


def test_the_wheel_of_another_environment_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its record says where the file lies, relative to the folder of `sys.path` that has the record."""
    record = tmp_path / "other/lib/python3/site-packages/onednn_cpu_gomp-2023.2.0.dist-info"
    record.mkdir(parents=True)
    (record / "RECORD").write_text(
        f"../../{library.SONAME}.2,,\n../../{library.SONAME},sha256=abc,5\n", encoding="utf-8"
    )
    (tmp_path / "other/lib" / library.SONAME).write_bytes(b"")
    monkeypatch.setattr("sys.path", [str(record.parent)])
    monkeypatch.setattr("sys.prefix", str(tmp_path))
    monkeypatch.setattr("sys.base_prefix", str(tmp_path))
    assert (tmp_path / "other/lib").resolve() in list(library._folders())


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
    assert "pip install onednn-cpu-gomp" in found.fix


def test_a_library_without_the_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ort_py_onednn.binding._dnnl.ffi", SimpleNamespace(dlopen=lambda *_: SimpleNamespace()))
    found = library._opened("/somewhere/libdnnl.so.3")
    assert isinstance(found, library.Missing)
    assert found.reason.endswith("is not oneDNN")


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

    def dlopen(*_: Any) -> Any:
        raise OSError("libgomp.so.1: cannot open shared object file: No such file or directory")

    monkeypatch.setattr("ort_py_onednn.binding._dnnl.ffi", SimpleNamespace(dlopen=dlopen))
    found = library._opened("/somewhere/libdnnl.so.3")
    assert isinstance(found, library.Missing)
    assert "needs the system's OpenMP runtime" in found.reason
    assert "apt-get install libgomp1" in found.fix


def test_nothing_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a wheel nor a system library: what to install."""

    def dlopen(*_: Any) -> Any:
        raise OSError("libdnnl.so.3: cannot open shared object file: No such file or directory")

    monkeypatch.delenv(library.VARIABLE, raising=False)
    monkeypatch.setattr(library, "_folders", lambda: iter(()))
    monkeypatch.setattr("ort_py_onednn.binding._dnnl.ffi", SimpleNamespace(dlopen=dlopen))
    found = library._find()
    assert found == library.Missing(
        "there is no libdnnl.so.3: neither beside this Python nor in the system's folders", library.INSTALL
    )


@pytest.mark.parametrize(("system", "machine"), [("darwin", "arm64"), ("win32", "AMD64"), ("linux", "aarch64")])
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
