"""Launching: what is compiled when, geometry, and how arguments are laid out; with a driver that only notes."""

from __future__ import annotations

import ctypes
import struct
import threading
from typing import Any

import pytest

from ort_py.errors import EPFail
from ort_py_cuda.code import Kernel, arch, driver, kernel
from ort_py_cuda.code.cache import CodeCache


class NotingDriver:
    """Notes calls; copies a launch's arguments as the real one does."""

    MAJOR, MINOR, PROCESSORS, SHARED_OPT_IN = 75, 76, 16, 97

    def __init__(self) -> None:
        self.ordinal = 0
        self.loaded: list[tuple[bytes, str]] = []
        self.launches: list[tuple[Any, ...]] = []
        self.allowed: list[tuple[int, int, int]] = []
        self.caches: list[CodeCache | None] = []

    def device(self, stream: int = 0) -> int:
        return self.ordinal

    def attribute(self, attribute: int, device: int) -> int:
        return 100 << 10

    def load(self, image: bytes, name: str) -> int:
        self.loaded.append((image, name))
        return len(self.loaded)

    def allow_shared(self, handle: int, shared: int, device: int) -> None:
        self.allowed.append((handle, shared, device))

    def launch(self, *given: Any) -> None:
        handle, grid, block, shared, stream, extra, name = given
        listed = (ctypes.c_void_p * 5).from_address(extra)
        assert (listed[0], listed[2], listed[4]) == (1, 2, None)
        size = ctypes.c_size_t.from_address(listed[3] or 0).value
        self.launches.append((handle, grid, block, shared, stream, ctypes.string_at(listed[1] or 0, size), name))


@pytest.fixture
def noting(monkeypatch: pytest.MonkeyPatch) -> NotingDriver:
    """The driver of the process for a test, and a compiler that gives the architecture's name."""
    found = NotingDriver()
    monkeypatch.setattr(driver, "_driver", found)
    monkeypatch.setattr(arch, "target_of_device", lambda device: f"sm_{90 + device}")

    def code_of(source: str, *, name: str, arch: str, options: tuple[str, ...], cache: CodeCache | None) -> bytes:
        found.caches.append(cache)
        return f"{source} for {arch}".encode()

    monkeypatch.setattr(kernel, "code_of", code_of)
    monkeypatch.setattr(kernel, "_caches", {})
    return found


ONE = (1, 1, 1)


def test_arguments_are_a_c_structure(noting: NotingDriver) -> None:
    """Each on its own boundary, as the compiler lays out parameters."""
    Kernel("text", "f", "Pifq2qd")((2, 1, 1), (64, 1, 1), 5, 1000, -3, 0.5, 7, 8, 9, 0.25)
    (handle, grid, block, shared, stream, arguments, name) = noting.launches[0]
    assert (handle, grid, block, shared, stream, name) == (1, (2, 1, 1), (64, 1, 1), 0, 5, "f")
    assert arguments == struct.pack("@Pifq2qd", 1000, -3, 0.5, 7, 8, 9, 0.25)
    assert struct.unpack_from("=f", arguments, 12) == (0.5,)


def test_it_is_compiled_at_its_first_launch(noting: NotingDriver) -> None:
    """Once for each architecture; devices of one share what was loaded."""
    made = Kernel("text", "f", "P")
    assert noting.loaded == []
    for ordinal in (0, 0, 1, 0):
        noting.ordinal = ordinal
        made(ONE, ONE, 5, 1)
    assert noting.loaded == [(b"text for sm_90", "f"), (b"text for sm_91", "f")]
    assert [launch[0] for launch in noting.launches] == [1, 1, 2, 1]


def test_an_empty_grid_launches_nothing(noting: NotingDriver) -> None:
    Kernel("text", "f", "P")((0, 1, 1), ONE, 5, 1)
    assert noting.launches == []


def test_code_is_kept_where_the_streams_session_keeps_it(noting: NotingDriver) -> None:
    """Sessions share kernels; a stream of no session keeps its code where the environment says."""
    session = CodeCache(None)
    kernel.keep_code(5, session)
    Kernel("text", "f", "P")(ONE, ONE, 5, 1)
    Kernel("text", "f", "P")(ONE, ONE, 6, 1)
    assert noting.caches == [session, None]


@pytest.mark.parametrize("grid", [(2**31, 1, 1), (1, 65536, 1), (1, 1, 65536)])
def test_grids_that_no_device_takes(noting: NotingDriver, grid: tuple[int, int, int]) -> None:
    """Before the driver says so in other words."""
    with pytest.raises(EPFail, match="was asked for with a grid of"):
        Kernel("text", "f", "P")(grid, ONE, 5, 1)


@pytest.mark.parametrize("block", [(1025, 1, 1), (32, 33, 1), (1, 1, 65), (0, 1, 1)])
def test_blocks_that_no_device_takes(noting: NotingDriver, block: tuple[int, int, int]) -> None:
    with pytest.raises(EPFail, match="was asked for with blocks of"):
        Kernel("text", "f", "P")(ONE, block, 5, 1)


def test_much_shared_memory_is_asked_for_once(noting: NotingDriver) -> None:
    """Above 48 KiB a kernel needs leave, for the most that it was launched with."""
    made = Kernel("text", "f", "P")
    for shared in (48 << 10, 64 << 10, 60 << 10, 90 << 10):
        made(ONE, ONE, 5, 1, shared=shared)
    assert noting.allowed == [(1, 64 << 10, 0), (1, 90 << 10, 0)]


def test_threads_that_ask_for_shared_memory_at_once(noting: NotingDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last request counts, so a smaller size never follows a larger one."""
    made = Kernel("text", "f", "P")
    inside = False

    def attribute(_attribute: int, _device: int) -> int:
        nonlocal inside
        if not inside:  # between this thread's look and its call another one asks for more
            inside = True
            made(ONE, ONE, 6, 1, shared=90 << 10)
        return 100 << 10

    monkeypatch.setattr(noting, "attribute", attribute)
    made(ONE, ONE, 5, 1, shared=64 << 10)
    assert noting.allowed == [(1, 90 << 10, 0)]


def test_more_shared_memory_than_there_is(noting: NotingDriver) -> None:
    """Is refused with what the device has."""
    with pytest.raises(EPFail, match="204800 bytes of shared memory") as caught:
        Kernel("text", "f", "P")(ONE, ONE, 5, 1, shared=200 << 10)
    assert "102400" in str(caught.value)


@pytest.mark.parametrize("arguments", [(1,), (1, 2, 3), (1, "x"), (1, 2**40)])
def test_arguments_that_do_not_fit(noting: NotingDriver, arguments: tuple[Any, ...]) -> None:
    with pytest.raises(EPFail, match="do not fit the kernel's parameters"):
        Kernel("text", "f", "Pi")(ONE, ONE, 5, *arguments)


def test_more_arguments_than_a_launch_takes() -> None:
    """Found when the kernel is made."""
    with pytest.raises(EPFail, match="take 8000 bytes"):
        Kernel("text", "f", "1000q")


def test_threads_do_not_share_arguments(noting: NotingDriver) -> None:
    """Each has a block of its own."""
    made = Kernel("text", "f", "q")

    def launch(number: int) -> None:
        for _ in range(200):
            made(ONE, ONE, number, number)

    threads = [threading.Thread(target=launch, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(noting.launches) == 1600
    assert all(struct.unpack("q", launch[5]) == (launch[4],) for launch in noting.launches)
    assert len(noting.loaded) == 1
