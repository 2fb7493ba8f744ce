"""Generated CUDA C++ run without a device: compiled by g++ with a header that stands in for CUDA, threads as fibers.

What runs is the text that NVRTC gets, half-precision conversions excepted, launched by the code that launches it on a
device, with the same blocks of arguments; so expressions, indices, reductions, barriers, geometry and packing are all
proven, and what is not is the device itself. Comes after `arrays`, the stand-in for CuPy.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ort_py_cuda import modules
from ort_py_cuda.code import arch, driver, faults, kernel, sources

from .arrays import STREAM, HostModule, on_host

__all__ = ["STREAM", "HostDriver", "HostModule", "NoCompiler", "install", "keep_in", "on_host", "xp"]

_HERE = Path(__file__).parent
_FLAGS = ("-std=c++17", "-O1", "-fwrapv", "-fno-strict-aliasing", "-ffp-contract=off", "-w", "-fPIC")


class NoCompiler(RuntimeError):
    """g++ is not installed."""


xp = HostModule()


class HostDriver:
    """The interface of `driver.Driver` on the host.

    Attributes:
        launched: Names of the kernels that were launched, with grid and block.
        seed: In which order threads take turns.
    """

    MAJOR, MINOR, PROCESSORS, SHARED_OPT_IN = 75, 76, 16, 97

    def __init__(self) -> None:
        self.launched: list[tuple[str, tuple[int, int, int], tuple[int, int, int]]] = []
        self.seed = 0

    @property
    def names(self) -> list[str]:
        """Names of the kernels that were launched."""
        return [name for name, _, _ in self.launched]

    def device(self, stream: int = 0) -> int:
        """The one there is."""
        assert stream == STREAM
        return 0

    def attribute(self, attribute: int, device: int) -> int:
        """An attribute of a large device."""
        return {75: 9, 76: 0, 16: 4, 97: 227 << 10}[attribute]

    def load(self, image: bytes, name: str) -> int:
        """The library that `compiled` made."""
        return _loaded(image.decode())

    def allow_shared(self, kernel: int, shared: int, device: int) -> None:
        """Nothing to do."""

    def launch(
        self,
        kernel: int,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        shared: int,
        stream: int,
        extra: int,
        name: str,
    ) -> None:
        """Run it to its end."""
        listed = (ctypes.c_void_p * 5).from_address(extra)
        assert (listed[0], listed[2], listed[4]) == (1, 2, None)
        three = ctypes.c_uint * 3
        with _one_at_a_time:
            status = _functions[kernel](listed[1], three(*grid), three(*block), self.seed)
        assert status == 0, f"{name}: threads wait for each other"
        self.launched.append((name, grid, block))


_functions: list[Any] = []
_one_at_a_time = threading.Lock()
"""A kernel's library has one set of threads: two threads of a test may not launch it at once."""


@functools.cache
def _loaded(path: str) -> int:
    function = ctypes.CDLL(path).launch
    function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint]
    function.restype = ctypes.c_int
    _functions.append(function)
    return len(_functions) - 1


_kept: list[Path] = []


def keep_in(folder: Path) -> None:
    """Where compiled kernels are kept for later runs and found by other processes, by the hash of all of their text."""
    _kept[:] = [folder]


@functools.cache
def _folder() -> Path:
    """Parts that every kernel needs, compiled once: the header, whose includes take long, and the scheduling of
    threads.
    """
    texts = [(_HERE / name).read_text() for name in ("shim.h", "device.cpp")]
    built_by = subprocess.run([_compiler(), "--version"], capture_output=True, text=True, check=True).stdout
    key = hashlib.sha256("\0".join((*_FLAGS, built_by, *texts)).encode()).hexdigest()[:16]
    folder = (_kept[0] if _kept else _temporary()) / key
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in zip(("shim.h", "device.cpp"), texts, strict=True):
        _written(folder / name, text)
    _made(folder, "shim.h.gch", "-x", "c++-header", "shim.h")
    _made(folder, "device.o", "-c", "device.cpp")
    return folder


@functools.cache
def _temporary() -> Path:
    made = tempfile.TemporaryDirectory(prefix="ort-py-emulated-")
    atexit.register(made.cleanup)
    return Path(made.name)


def _written(path: Path, text: str) -> None:
    if not path.exists():
        made = _unfinished(path)
        made.write_text(text)
        made.replace(path)


def _made(folder: Path, name: str, *arguments: str) -> Path:
    """A file that the compiler makes where it is not there yet."""
    path = folder / name
    if not path.exists():
        made = _unfinished(path)
        command = [_compiler(), *_FLAGS, "-o", made.name, *arguments]
        ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stderr
        made.replace(path)
    return path


def _unfinished(path: Path) -> Path:
    """Others see all of a file or nothing."""
    return path.with_name(f"{os.getpid()}-{threading.get_ident()}-{path.name}")


def _compiler() -> str:
    found = shutil.which("g++")
    if found is None:
        raise NoCompiler
    return found


def compiled(source: str, *, name: str, arch: str, options: Sequence[str] = (), cache: object = None) -> bytes:
    """In place of `kernel.code_of`: the path of a library."""
    return _compiled(source, name, tuple(options))


@functools.cache
def _compiled(source: str, name: str, options: tuple[str, ...]) -> bytes:
    folder = _folder()
    half = (_HERE / "half.cuh").read_text()
    device_half = sources.text("half")
    assert device_half in source
    defines = [f"#define {one[2:].replace('=', ' ', 1)}" for one in options if one.startswith("-D")]
    text = "\n".join(['#include "shim.h"', *defines, source.replace(device_half, half), f"EMULATED({name})"])
    stem = hashlib.sha256(text.encode()).hexdigest()[:24]
    _written(folder / f"{stem}.cpp", text)
    return str(_made(folder, f"{stem}.so", "-shared", f"{stem}.cpp", "device.o")).encode()


def install(monkeypatch: pytest.MonkeyPatch) -> HostDriver:
    """Make kernels run on the host for a test, or skip it without a compiler."""
    if shutil.which("g++") is None:
        pytest.skip("there is no g++, which compiles generated code for the host")
    found = HostDriver()
    monkeypatch.setattr(modules, "_module", xp)
    monkeypatch.setattr(kernel, "code_of", compiled)
    monkeypatch.setattr(driver, "_driver", found)
    monkeypatch.setattr(arch, "target_of_device", lambda device: "host")
    monkeypatch.setattr(faults, "_records", {})
    return found
