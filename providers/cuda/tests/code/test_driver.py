"""The driver's calls: arguments, statuses and the context of a thread; with a library of Python functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ort_py.errors import DeviceReset, EPFail
from ort_py_cuda.code.driver import Driver

_FUNCTIONS = (
    *("cuInit", "cuGetErrorName", "cuGetErrorString", "cuCtxSetCurrent", "cuCtxGetDevice", "cuStreamGetCtx"),
    *("cuDeviceGetAttribute", "cuLibraryLoadData", "cuLibraryGetKernel", "cuKernelSetAttribute", "cuLaunchKernel"),
)


class FakeLibrary:
    """The functions of libcuda that the driver calls, with a status for each."""

    def __init__(self, **statuses: int) -> None:
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        self.statuses = statuses
        self.context = 1
        for name in _FUNCTIONS:
            setattr(self, name, self._function(name))

    def _function(self, name: str) -> Callable[..., int]:
        def call(*given: Any) -> int:
            self.calls.append((name, given))
            status = self.statuses.get(name, 0)
            if name == "cuGetErrorString":
                given[1]._obj.value = b"what went wrong"
            elif name == "cuGetErrorName":
                given[1]._obj.value = b"CUDA_ERROR_OF_A_TEST"
            elif name == "cuCtxGetDevice":
                if not self.context:
                    return 201
                given[0]._obj.value = 3
            elif name == "cuStreamGetCtx":
                given[1]._obj.value = 77
            elif name == "cuCtxSetCurrent":
                self.context = given[0].value
            elif name == "cuDeviceGetAttribute":
                given[0]._obj.value = 10 * given[1]
            elif name in ("cuLibraryLoadData", "cuLibraryGetKernel"):
                given[0]._obj.value = 11 if name == "cuLibraryLoadData" else 12
            return status

        return call

    def named(self, name: str) -> list[tuple[Any, ...]]:
        """Arguments of the calls of one function."""
        return [given for called, given in self.calls if called == name]


def test_the_current_device() -> None:
    library = FakeLibrary()
    assert Driver(library).device(5) == 3
    assert library.named("cuStreamGetCtx") == []


def test_a_thread_without_a_context_gets_the_streams() -> None:
    """A worker thread that has not used the device yet."""
    library = FakeLibrary()
    library.context = 0
    assert Driver(library).device(5) == 3
    assert library.context == 77
    assert library.named("cuStreamGetCtx")[0][0] == 5


def test_without_a_context_and_a_stream() -> None:
    library = FakeLibrary()
    library.context = 0
    with pytest.raises(EPFail, match="No CUDA device is current on this thread"):
        Driver(library).device()


def test_attributes() -> None:
    assert Driver(FakeLibrary()).attribute(Driver.MAJOR, 0) == 750


def test_loading_gives_a_kernel() -> None:
    library = FakeLibrary()
    assert Driver(library).load(b"\x7fELF", "f") == 12
    assert library.named("cuLibraryLoadData")[0][1] == b"\x7fELF"
    _, loaded, name = library.named("cuLibraryGetKernel")[0]
    assert (loaded.value, name) == (11, b"f")


def test_a_launch() -> None:
    """Geometry first, then shared memory, stream, and the list of arguments."""
    library = FakeLibrary()
    Driver(library).launch(12, (4, 5, 6), (32, 2, 1), 128, 9, 1234, "f")
    assert library.named("cuLaunchKernel") == [(12, 4, 5, 6, 32, 2, 1, 128, 9, None, 1234)]


def test_an_error_has_the_drivers_words() -> None:
    """Its name, its text, the call and what it was called with."""
    library = FakeLibrary(cuLaunchKernel=1)
    with pytest.raises(EPFail, match=r"refused cuLaunchKernel with grid \(4, 1, 1\)") as caught:
        Driver(library).launch(12, (4, 1, 1), (32, 1, 1), 0, 9, 1234, "softmax")
    text = str(caught.value)
    assert "CUDA_ERROR_OF_A_TEST: what went wrong" in text
    assert "softmax" in text


def test_short_memory() -> None:
    """Is Python's error for that, which the core answers by trimming."""
    with pytest.raises(MemoryError, match="cuLibraryLoadData"):
        Driver(FakeLibrary(cuLibraryLoadData=2)).load(b"x", "f")


@pytest.mark.parametrize("status", [700, 709, 999])
def test_a_lost_context(status: int) -> None:
    with pytest.raises(DeviceReset, match="cuLaunchKernel"):
        Driver(FakeLibrary(cuLaunchKernel=status)).launch(12, (1, 1, 1), (1, 1, 1), 0, 9, 1, "f")


def test_a_driver_that_is_too_old() -> None:
    library = FakeLibrary()
    del library.cuLibraryLoadData  # type: ignore[attr-defined]  # set by name
    with pytest.raises(EPFail, match="has no function cuLibraryLoadData") as caught:
        Driver(library)
    assert "older than CUDA 12" in str(caught.value)
