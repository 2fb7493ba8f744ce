"""The way to the library on macOS, walked on any system with a stand-in for the loader.

The libraries are written here, with what those of the pinned wheel say of themselves. A nightly test does the same with
those of the wheel, in `tests/packaging`.
"""

from __future__ import annotations

import os
import re
import struct
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ort_py_xnnpack.binding import features, library
from ort_py_xnnpack.binding.declarations import DECLARATIONS, SHARED_POOL_DECLARATIONS, functions
from ort_py_xnnpack.binding.pool import Pools
from ort_py_xnnpack.plugin import XnnpackProviderFactory
from providers.xnnpack.tests.binding.mach_o import exports_of, read_image
from providers.xnnpack.tests.binding.macos import Loader

_SYSTEM = ["/usr/lib/libSystem.B.dylib", "/usr/lib/libc++.1.dylib"]
_CORE, _THREADS, _XNNPACK = "libexecutorch", "libexecutorch_threadpool", "libexecutorch_backend_xnnpack"


def _trie(names: list[str]) -> bytes:
    """A tree whose root has an edge for each name. Numbers have five bytes each, so that their sizes are known."""

    def padded(number: int) -> bytes:
        return bytes([number >> shift & 127 | (128 if shift < 28 else 0) for shift in range(0, 35, 7)])

    edges = [b"_" + name.encode() + b"\0" for name in names]
    start = 2 + sum(len(edge) + 5 for edge in edges)
    leaf = b"\x02\x00\x10\x00"  # two bytes of what is known of the symbol, and no edges
    root = b"\x00" + bytes([len(edges)])
    return (
        root
        + b"".join(edge + padded(start + place * len(leaf)) for place, edge in enumerate(edges))
        + leaf * len(edges)
    )


def _library(stem: str, needs: list[str], names: list[str], *, signed: bool = True) -> bytes:
    def string(command: int, text: str, more: int) -> bytes:
        body = text.encode() + b"\0"
        body += b"\0" * (-(more + len(body)) % 8)
        return struct.pack("<3I", command, more + len(body), more) + b"\0" * (more - 12) + body

    commands = [string(0xD, f"@rpath/{stem}.dylib", 24), *(string(0xC, name, 24) for name in needs)]
    commands += [string(0x8000001C, "@loader_path", 12), struct.pack("<6I", 0x32, 24, 1, 14 << 16, 15 << 16, 0)]
    trie = _trie(names)
    place = 32 + sum(map(len, commands)) + 16 + (16 if signed else 0)
    commands.append(struct.pack("<4I", 0x80000033, 16, place, len(trie)))
    if signed:
        commands.append(struct.pack("<4I", 0x1D, 16, place + len(trie), 0))
    size = sum(map(len, commands))
    return struct.pack("<8I", 0xFEEDFACF, 0x0100000C, 0, 6, len(commands), size, 0, 0) + b"".join(commands) + trie


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The three libraries."""
    core, threads = f"@rpath/{_CORE}.dylib", f"@rpath/{_THREADS}.dylib"
    (tmp_path / f"{_CORE}.dylib").write_bytes(_library(_CORE, _SYSTEM, ["et_pal_init"]))
    found = _library(_THREADS, [core, *_SYSTEM], functions(SHARED_POOL_DECLARATIONS))
    (tmp_path / f"{_THREADS}.dylib").write_bytes(found)
    found = _library(_XNNPACK, [threads, core, *_SYSTEM], functions(DECLARATIONS))
    (tmp_path / f"{_XNNPACK}.dylib").write_bytes(found)
    return tmp_path


@pytest.fixture
def loader(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Loader:
    """The stand-in, on what takes itself for macOS."""
    found = Loader()
    monkeypatch.setattr(library, "sys", SimpleNamespace(platform="darwin"))
    monkeypatch.setattr(library, "FOLDER", folder)
    monkeypatch.setattr("ort_py_xnnpack.binding._xnnpack.ffi", found)
    monkeypatch.delenv(library.VARIABLE, raising=False)
    return found


def test_a_tree_of_names_is_read() -> None:
    """Names share what they begin with: here `_ab`, `_abc` and `_x`."""
    # A root with two edges, at 11 a name that is one and goes on, at 18 the end of the two others.
    tree = b"\0\x02_ab\0\x0b_x\0\x12\x02\0\x10\x01c\0\x12\x02\0\x10\0"
    assert sorted(exports_of(tree)) == ["ab", "abc", "x"]


def test_libraries_are_opened_in_the_order_of_their_needs(loader: Loader, folder: Path) -> None:
    """Each by its path, at once, with names that no other library sees, and to stay."""
    found = library._opened()
    assert isinstance(found, library.Library), found
    assert loader.opened == [folder / f"{stem}.dylib" for stem in (_CORE, _THREADS, _XNNPACK)]
    assert set(loader.flags) == {os.RTLD_NOW | os.RTLD_LOCAL | getattr(os, "RTLD_NODELETE", 0)}
    assert loader.loaded == [f"@rpath/{stem}.dylib" for stem in (_CORE, _THREADS, _XNNPACK)]
    assert found.c.called == [("xnn_initialize", None)]
    assert found.path == str(folder / f"{_XNNPACK}.dylib")
    assert all(getattr(found.c, name) for name in functions(DECLARATIONS))


def test_the_pool_is_executorchs(loader: Loader) -> None:
    """It gets the number of threads that is asked for first."""
    found = library._opened()
    assert isinstance(found, library.Library)
    assert not found.makes_pools
    Pools().of(found, 4)
    names = functions(SHARED_POOL_DECLARATIONS)
    assert found.pools.called == [(names[0],), (names[1], 0, 4), (names[2],)]


def test_the_probe_finds_it(loader: Loader) -> None:
    """Without opening anything."""
    assert XnnpackProviderFactory().probe().available
    assert not loader.opened


def test_a_library_of_linux_is_not_looked_for(loader: Loader, folder: Path) -> None:
    (folder / f"{_CORE}.dylib").rename(folder / f"{_CORE}.so")
    found = library.files()
    assert isinstance(found, library.Missing)
    assert f"{_CORE}.dylib" in found.reason


@pytest.mark.parametrize(
    ("names", "needs", "signed", "reason"),
    [
        (["xnn_initialize"], ["@rpath/libelsewhere.dylib"], True, "does not load"),
        (["xnn_initialize"], ["/opt/lib/libomp.dylib"], True, "does not load: .*libomp"),
        (["xnn_initialize"], [], False, "does not load: .*signature"),
        (["xnn_create_runtime"], [], True, "has no function xnn_initialize"),
    ],
)
def test_what_does_not_load_is_a_reason(
    loader: Loader, folder: Path, names: list[str], needs: list[str], signed: bool, reason: str
) -> None:
    (folder / f"{_XNNPACK}.dylib").write_bytes(_library(_XNNPACK, needs, names, signed=signed))
    found = library._opened()
    assert isinstance(found, library.Missing)
    assert re.search(reason, found.reason)


def test_another_machines_library_is_a_reason(loader: Loader, folder: Path) -> None:
    """That of a Mac with an Intel processor, for one."""
    file = folder / f"{_XNNPACK}.dylib"
    data = bytearray(file.read_bytes())
    data[4:8] = struct.pack("<I", 0x01000007)
    file.write_bytes(data)
    found = library._opened()
    assert isinstance(found, library.Missing)
    assert "no library for Apple silicon" in found.reason


def test_an_image_says_what_it_is(folder: Path) -> None:
    image = read_image(folder / f"{_XNNPACK}.dylib")
    assert image.name == f"@rpath/{_XNNPACK}.dylib"
    assert image.needs == (f"@rpath/{_THREADS}.dylib", f"@rpath/{_CORE}.dylib", *_SYSTEM)
    assert (image.paths, image.oldest, image.signed) == (("@loader_path",), (14, 0), True)


@pytest.mark.parametrize("there", [0, 1])
@pytest.mark.parametrize("name", ["FEAT_SME", "FEAT_FP16"])
def test_features_are_asked_of_the_system(monkeypatch: pytest.MonkeyPatch, name: str, there: int) -> None:
    """By names under ``hw.optional.arm``; one that the system does not know is not there."""
    asked: list[bytes] = []

    def sysctlbyname(key: bytes, value: Any, size: Any, new: Any, length: Any) -> int:
        asked.append(key)
        value._obj.value = there
        return 0 if size._obj.value == 4 and new is None else -1

    monkeypatch.setattr(features, "sys", SimpleNamespace(platform="darwin"))
    monkeypatch.setattr("platform.machine", lambda: "arm64")
    monkeypatch.setattr("ctypes.CDLL", lambda _: SimpleNamespace(sysctlbyname=sysctlbyname))
    function = {"FEAT_SME": features.has_outer_products, "FEAT_FP16": features.has_half_arithmetic}[name]
    assert function.__wrapped__() is bool(there)
    assert asked == [f"hw.optional.arm.{name}".encode()]
