"""Generated CUDA C++ run without a device: compiled by g++ with a header that stands in for CUDA, threads as fibers.

What runs is the text that NVRTC gets, half-precision conversions excepted, launched by the code that launches it on a
device, with the same blocks of arguments; so expressions, indices, reductions, barriers, geometry and packing are all
proven, and what is not is the device itself. Arrays are NumPy's with the addresses that CuPy's have.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ort_py_cuda import modules
from ort_py_cuda.code import arch, driver, faults, kernel, sources

__all__ = ["STREAM", "HostArray", "HostDriver", "NoCompiler", "install", "on_host", "xp"]

STREAM = 7
"""The handle of the one stream there is."""

_HERE = Path(__file__).parent
_FLAGS = ("-std=c++17", "-O1", "-fwrapv", "-fno-strict-aliasing", "-ffp-contract=off", "-w", "-fPIC")


class NoCompiler(RuntimeError):
    """There is no g++."""


class HostArray(np.ndarray[Any, Any]):
    """A NumPy array with ``data.ptr``."""

    @property
    def data(self) -> Any:
        return SimpleNamespace(ptr=self.ctypes.data)


def on_host(array: Any) -> HostArray:
    """An array as the device's would look, on memory of 256-byte alignment, as CuPy's pool gives it."""
    given = np.asarray(array)
    made = _aligned(given.shape, given.dtype)
    made[...] = given
    return made


def _aligned(shape: Any, dtype: Any) -> HostArray:
    dtype = np.dtype(dtype)
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    memory = np.full(size + 256, 0xA5, np.uint8)  # what nobody wrote is seen
    start = -memory.ctypes.data % 256
    found: HostArray = memory[start : start + size].view(dtype).reshape(shape).view(HostArray)
    return found


class _HostModule:
    """NumPy whose new arrays are `HostArray`s."""

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    @staticmethod
    def empty(shape: Any, dtype: Any = np.float64) -> HostArray:
        """As CuPy's."""
        return _aligned(shape, dtype)

    @staticmethod
    def asarray(array: Any, dtype: Any = None) -> HostArray:
        """As CuPy's, for arrays of NumPy."""
        return on_host(np.asarray(array, dtype))

    array = asarray


xp = _HostModule()


class _Pinned(np.ndarray[Any, Any]):
    @property
    def ptr(self) -> int:
        return int(self.ctypes.data)


class HostDriver:
    """What `driver.Driver` does, on the host.

    Attributes:
        launched: Names of the kernels that were launched, with grid and block.
        seed: In which order threads take turns.
    """

    MAJOR, MINOR, PROCESSORS, SHARED_OPT_IN = 75, 76, 16, 97

    def __init__(self) -> None:
        self.launched: list[tuple[str, tuple[int, int, int], tuple[int, int, int]]] = []
        self.seed = 0

    def device(self, stream: int = 0) -> int:
        """The one there is."""
        assert stream == STREAM
        return 0

    def attribute(self, attribute: int, device: int) -> int:
        """Of a device that has much."""
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
        status = _functions[kernel](listed[1], three(*grid), three(*block), self.seed)
        assert status == 0, f"{name}: threads wait for each other"
        self.launched.append((name, grid, block))


_functions: list[Any] = []


@functools.cache
def _loaded(path: str) -> int:
    function = ctypes.CDLL(path).launch
    function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint]
    function.restype = ctypes.c_int
    _functions.append(function)
    return len(_functions) - 1


@functools.cache
def _folder() -> tuple[tempfile.TemporaryDirectory[str], Path]:
    kept = tempfile.TemporaryDirectory(prefix="ort-py-emulated-")
    folder = Path(kept.name)
    shutil.copy(_HERE / "shim.h", folder / "shim.h")
    # A header that is compiled once: its own includes take most of the time of a small kernel.
    subprocess.run([_compiler(), *_FLAGS, "-x", "c++-header", "shim.h"], cwd=folder, check=True)
    return kept, folder


def _compiler() -> str:
    found = shutil.which("g++")
    if found is None:
        raise NoCompiler
    return found


def compiled(source: str, *, name: str, arch: str, options: Sequence[str] = ()) -> bytes:
    """In place of `kernel.code_of`: the path of a library."""
    return _compiled(source, name, tuple(options))


@functools.cache
def _compiled(source: str, name: str, options: tuple[str, ...]) -> bytes:
    _, folder = _folder()
    half = (_HERE / "half.cuh").read_text()
    device_half = sources.text("half")
    assert device_half in source
    defines = [f"#define {one[2:].replace('=', ' ', 1)}" for one in options if one.startswith("-D")]
    stem = hashlib.sha256(f"{name}{options}{source}".encode()).hexdigest()[:24]
    text = "\n".join(['#include "shim.h"', *defines, source.replace(device_half, half), f"EMULATED({name})"])
    (folder / f"{stem}.cpp").write_text(text)
    ran = subprocess.run(
        [_compiler(), *_FLAGS, "-shared", "-o", f"{stem}.so", f"{stem}.cpp"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return str(folder / f"{stem}.so").encode()


def install(monkeypatch: pytest.MonkeyPatch) -> HostDriver:
    """Make kernels run on the host for a test; skips it where there is no compiler."""
    if shutil.which("g++") is None:
        pytest.skip("there is no g++, which compiles generated code for the host")
    stream = SimpleNamespace(ptr=STREAM)
    cuda = SimpleNamespace(
        get_current_stream=lambda: stream,
        alloc_pinned_memory=lambda size: np.zeros(size, np.uint8).view(_Pinned),
    )
    found = HostDriver()
    monkeypatch.setattr(modules, "_module", SimpleNamespace(cuda=cuda))
    monkeypatch.setattr(kernel, "code_of", compiled)
    monkeypatch.setattr(driver, "_driver", found)
    monkeypatch.setattr(arch, "target_of_device", lambda device: "host")
    monkeypatch.setattr(faults, "_records", {})
    return found
