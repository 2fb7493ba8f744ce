"""The wheel of ort-py-xnnpack for macOS: its libraries have every function that is called, and open in their order."""

from __future__ import annotations

import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.support.fresh_environment import build_wheel

pytest.importorskip("ort_py_xnnpack", reason="ort-py-xnnpack is not installed")
from ort_py_xnnpack.binding import library
from ort_py_xnnpack.binding.declarations import DECLARATIONS, SHARED_POOL_DECLARATIONS, functions
from ort_py_xnnpack.binding.pool import Pools
from providers.xnnpack.tests.binding.mach_o import read_image
from providers.xnnpack.tests.binding.macos import Loader

pytestmark = [pytest.mark.packaging, pytest.mark.nightly]

_STEMS = ("libexecutorch", "libexecutorch_threadpool", "libexecutorch_backend_xnnpack")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The libraries of the wheel, which the build step takes from the pinned wheel of executorch."""
    found = tmp_path_factory.mktemp("macos")
    wheel = build_wheel("providers/xnnpack", found, ORT_PY_XNNPACK_PLATFORM="darwin-arm64")
    assert wheel.name.endswith("-macosx_14_0_arm64.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(found)
    return found / "ort_py_xnnpack" / "native"


@pytest.mark.parametrize("stem", _STEMS)
def test_a_library_is_for_the_macos_that_the_wheel_names(folder: Path, stem: str) -> None:
    """It needs nothing but the system and the libraries beside it, which it looks for in its own folder."""
    image = read_image(folder / f"{stem}.dylib")
    assert image.name == f"@rpath/{stem}.dylib"
    assert image.oldest <= (14, 0)
    assert image.signed
    assert "@loader_path" in image.paths
    allowed = {"/usr/lib/libSystem.B.dylib", "/usr/lib/libc++.1.dylib", *(f"@rpath/{one}.dylib" for one in _STEMS)}
    assert set(image.needs) <= allowed


@pytest.mark.parametrize("name", functions(DECLARATIONS))
def test_xnnpack_has_the_function(folder: Path, name: str) -> None:
    assert name in read_image(folder / f"{_STEMS[2]}.dylib").exports


@pytest.mark.parametrize("name", functions(SHARED_POOL_DECLARATIONS))
def test_the_pool_has_the_function(folder: Path, name: str) -> None:
    assert name in read_image(folder / f"{_STEMS[1]}.dylib").exports


def test_it_opens(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the stand-in for the loader of macOS that the provider's own tests use."""
    loader = Loader()
    monkeypatch.setattr(library, "sys", SimpleNamespace(platform="darwin"))
    monkeypatch.setattr("ort_py_xnnpack.binding._xnnpack.ffi", loader)
    monkeypatch.setenv(library.VARIABLE, str(folder))
    found = library._opened()
    assert isinstance(found, library.Library), found
    assert loader.loaded == [f"@rpath/{stem}.dylib" for stem in _STEMS]
    Pools().of(found, 2)
    assert [name for name, *_ in found.pools.called] == functions(SHARED_POOL_DECLARATIONS)
