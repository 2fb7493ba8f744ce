"""A kernel as an object: compiled when it is first launched on a device, then launched with checked arguments.

Comes after `nvrtc`, `cache`, `arch` and `driver`. It is independent of operators and arrays: arguments are numbers,
arrays their addresses, the stream its handle.

Arguments travel as one block of memory laid out as a C structure, which the driver copies at the launch; each thread
has its own block, so that kernels may be launched by several threads at once.
"""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Sequence
from typing import Any

from ort_py.errors import EPFail
from ort_py_cuda.code import arch as _arch
from ort_py_cuda.code import driver as _driver
from ort_py_cuda.code import nvrtc
from ort_py_cuda.code.cache import CodeCache, code_key, default_folder

__all__ = ["MAX_BLOCKS", "Kernel", "code_of", "keep_code"]

MAX_BLOCKS = (2**31 - 1, 65535, 65535)
"""Of a grid, along x, y and z, on every architecture."""

_MAX_BLOCK = (1024, 1024, 64)
_MAX_THREADS = 1024
_FREE_SHARED = 48 << 10
"""Bytes of dynamic shared memory that need no permission."""

_MAX_ARGUMENTS = 4096
"""Bytes that arguments may take on every driver."""

_images: dict[str, bytes] = {}
_lock = threading.Lock()
_caches: dict[int, CodeCache | None] = {}


def keep_code(stream: int, cache: CodeCache | None) -> None:
    """Keep there what launches on a stream have to compile: kernels are shared by sessions, streams are not.

    Args:
        stream: Native handle; CUDA gives those of streams that are gone again, so each new stream says it again.
        cache: The session's; None for what the environment says.
    """
    _caches[stream] = cache


def code_of(source: str, *, name: str, arch: str, options: Sequence[str] = (), cache: CodeCache | None = None) -> bytes:
    """`nvrtc.compile`, once for each (source, options, architecture): in memory, and on disk between processes.

    Args:
        source: The program.
        name: Its name.
        arch: What for.
        options: Options of NVRTC.
        cache: Where it is kept on disk; where the environment says, if None.
    """
    key = code_key((source, name, arch, "\n".join(options), "{}.{}".format(*nvrtc.version())))
    found = _images.get(key)
    if found is None:
        with _lock:  # two threads that need the same kernel: the second waits for the first
            found = _images.get(key)
            if found is None:
                kept = CodeCache(default_folder()) if cache is None else cache
                found = kept.get(key)
                if found is None:
                    found = nvrtc.compile(source, name=name, arch=arch, options=options)
                    kept.put(key, found)
                _images[key] = found
    return found


class _Block(threading.local):
    """A thread's block of arguments of one kernel, and the list that points the driver to it."""

    def __init__(self, size: int) -> None:
        self.buffer = ctypes.create_string_buffer(size)
        self._size = ctypes.c_size_t(size)
        # CU_LAUNCH_PARAM_BUFFER_POINTER, its address, CU_LAUNCH_PARAM_BUFFER_SIZE, its address, CU_LAUNCH_PARAM_END
        self._extra = (ctypes.c_void_p * 5)(1, ctypes.addressof(self.buffer), 2, ctypes.addressof(self._size), 0)
        self.extra = ctypes.addressof(self._extra)


class Kernel:
    """One kernel of a program.

    Args:
        source: The whole program, CUDA C++.
        name: The kernel, declared ``extern "C" __global__``.
        arguments: Parameters in the letters of `struct`: ``P`` a pointer, ``i`` and ``q`` ``int`` and ``long long``,
            ``I`` and ``Q`` unsigned ones, ``f`` and ``d`` a float and a double; ``8q`` an array inside a structure.
        options: Options of NVRTC.

    Raises:
        EPFail: The parameters take more than a launch may have.
    """

    def __init__(self, source: str, name: str, arguments: str, options: Sequence[str] = ()) -> None:
        self.source = source
        self.name = name
        self.options = tuple(options)
        self._layout = struct.Struct("@" + arguments)
        if self._layout.size > _MAX_ARGUMENTS:
            raise EPFail(
                f"The arguments of the kernel take {self._layout.size} bytes.",
                where=name,
                why=f"a launch takes at most {_MAX_ARGUMENTS}",
                fix="Report it: the region should have been made smaller.",
            )
        self._block = _Block(max(1, self._layout.size))
        self._loaded: dict[str, int] = {}  # by what was compiled for
        self._allowed: dict[tuple[int, str], int] = {}  # most shared memory asked for on a device

    def image(self, arch: str, cache: CodeCache | None = None) -> bytes:
        """The compiled program for an architecture (``sm_90``); needs no device."""
        return code_of(self.source, name=self.name, arch=arch, options=self.options, cache=cache)

    def __call__(
        self,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        stream: int,
        *arguments: Any,
        shared: int = 0,
    ) -> None:
        """Enqueue it; compiles and loads it first where this is the first launch on this kind of device.

        Args:
            grid: Blocks along x, y and z; nothing is launched where one is 0.
            block: Threads of a block.
            stream: Native handle of the stream.
            *arguments: Numbers, as declared.
            shared: Bytes of dynamic shared memory.

        Raises:
            EPFail: A geometry or arguments that no device takes; or the driver refuses the launch.
            NvrtcError: The program does not compile.
        """
        driver = _driver.driver()
        device = driver.device(stream)
        target = _arch.target_of_device(device)
        handle = self._loaded.get(target)
        if handle is None:
            handle = self._load(driver, target, stream)
        if 0 in grid:
            return
        if grid[0] > MAX_BLOCKS[0] or grid[1] > MAX_BLOCKS[1] or grid[2] > MAX_BLOCKS[2]:
            raise self._geometry(f"a grid of {grid} blocks", f"{MAX_BLOCKS} are allowed")
        if (
            block[0] * block[1] * block[2] > _MAX_THREADS
            or min(block) < 1
            or any(asked > most for asked, most in zip(block, _MAX_BLOCK, strict=True))
        ):
            raise self._geometry(f"blocks of {block} threads", f"{_MAX_BLOCK} and {_MAX_THREADS} together are allowed")
        if shared > _FREE_SHARED and shared > self._allowed.get((device, target), 0):
            self._allow(driver, handle, shared, device, target)
        arguments_ = self._block
        try:
            self._layout.pack_into(arguments_.buffer, 0, *arguments)
        except struct.error as error:
            raise EPFail(
                f"{len(arguments)} arguments do not fit the kernel's parameters.",
                where=self.name,
                why=str(error),
                fix="Report it: the kernel is called in another form than it was declared.",
            ) from error
        driver.launch(handle, grid, block, shared, stream, arguments_.extra, self.name)

    def _load(self, driver: _driver.Driver, target: str, stream: int) -> int:
        image = self.image(target, _caches.get(stream))
        with _lock:
            handle = self._loaded.get(target)
            if handle is None:
                handle = self._loaded[target] = driver.load(image, self.name)
        return handle

    def _allow(self, driver: _driver.Driver, handle: int, shared: int, device: int, target: str) -> None:
        most = driver.attribute(driver.SHARED_OPT_IN, device)
        if shared > most:
            raise self._geometry(f"{shared} bytes of shared memory", f"the device has {most} for a block")
        with _lock:  # another thread may have asked for more meanwhile, and what is set last counts
            if shared > self._allowed.get((device, target), 0):
                driver.allow_shared(handle, shared, device)
                self._allowed[(device, target)] = shared

    def _geometry(self, asked: str, allowed: str) -> EPFail:
        return EPFail(
            f"The kernel was asked for with {asked}.",
            where=self.name,
            why=allowed,
            fix="Report it with the shapes of the node's inputs.",
        )
