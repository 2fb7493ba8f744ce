"""The part of NVIDIA's driver that loads and launches kernels, by ctypes.

Works in the context that is current on the calling thread, which CuPy's streams make so; where a thread has none yet,
that of the stream is taken. Code is loaded as a library, which belongs to no context, so that one serves all devices of
an architecture. Every status is checked. It does not depend on CuPy or compilers; before `arch` and `kernel`.
"""

from __future__ import annotations

from ctypes import POINTER, byref, c_char_p, c_int, c_uint, c_void_p
from typing import Any

from ort_py.errors import DeviceReset, EPFail
from ort_py_cuda import libraries
from ort_py_cuda.memory.failures import LOST, OUT_OF_MEMORY

__all__ = ["Driver", "driver"]

_SIGNATURES: dict[str, list[Any]] = {
    "cuInit": [c_uint],
    "cuGetErrorName": [c_int, POINTER(c_char_p)],
    "cuGetErrorString": [c_int, POINTER(c_char_p)],
    "cuCtxSetCurrent": [c_void_p],
    "cuCtxGetDevice": [POINTER(c_int)],
    "cuStreamGetCtx": [c_void_p, POINTER(c_void_p)],
    "cuDeviceGetAttribute": [POINTER(c_int), c_int, c_int],
    "cuLibraryLoadData": [POINTER(c_void_p), c_char_p, c_void_p, c_void_p, c_uint, c_void_p, c_void_p, c_uint],
    "cuLibraryGetKernel": [POINTER(c_void_p), c_void_p, c_char_p],
    "cuKernelSetAttribute": [c_int, c_int, c_void_p, c_int],
    "cuLaunchKernel": [c_void_p, *(c_uint,) * 7, c_void_p, c_void_p, c_void_p],
}

_NO_CONTEXT = 201

_MAX_DYNAMIC_SHARED = 8
"""CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES"""


class Driver:
    """Calls of the driver that kernels need.

    Args:
        library: The loaded driver library.

    Raises:
        EPFail: It is too old, or cannot start.
    """

    MAJOR, MINOR, PROCESSORS, SHARED_OPT_IN = 75, 76, 16, 97
    """Attributes of devices, for `attribute`."""

    def __init__(self, library: Any) -> None:
        self._library = library
        for name, arguments in _SIGNATURES.items():
            function = getattr(library, name, None)
            if function is None:
                raise EPFail(
                    f"NVIDIA's driver has no function {name}.",
                    why="it is older than CUDA 12",
                    fix="Install a newer driver: https://www.nvidia.com/drivers",
                )
            function.argtypes = arguments
            function.restype = c_int
        self._launch = library.cuLaunchKernel
        self._check(library.cuInit(0), "cuInit")

    def device(self, stream: int = 0) -> int:
        """Ordinal of the current device; makes the context of `stream` current where the thread has none."""
        found = c_int()
        status = self._library.cuCtxGetDevice(byref(found))
        if status == _NO_CONTEXT:
            if not stream:
                raise EPFail(
                    "No CUDA device is current on this thread.",
                    fix="Enter a stream of the device, or use the device, before kernels are launched.",
                )
            context = c_void_p()
            self._check(self._library.cuStreamGetCtx(stream, byref(context)), "cuStreamGetCtx")
            self._check(self._library.cuCtxSetCurrent(context), "cuCtxSetCurrent")
            status = self._library.cuCtxGetDevice(byref(found))
        self._check(status, "cuCtxGetDevice")
        return found.value

    def attribute(self, attribute: int, device: int) -> int:
        """One of the device's numbers, e.g. `Driver.MAJOR`."""
        found = c_int()
        self._check(self._library.cuDeviceGetAttribute(byref(found), attribute, device), "cuDeviceGetAttribute")
        return found.value

    def load(self, image: bytes, name: str) -> int:
        """A kernel of a cubin or of PTX; loaded code stays for the life of the process, as its users do.

        Args:
            image: What the compiler gave.
            name: Name of the kernel in it.

        Returns:
            Handle, for `launch`.
        """
        library, kernel = c_void_p(), c_void_p()
        self._check(
            self._library.cuLibraryLoadData(byref(library), image, None, None, 0, None, None, 0),
            "cuLibraryLoadData",
            name,
        )
        self._check(self._library.cuLibraryGetKernel(byref(kernel), library, name.encode()), "cuLibraryGetKernel", name)
        return kernel.value or 0

    def allow_shared(self, kernel: int, shared: int, device: int) -> None:
        """Let a kernel use more dynamic shared memory than the 48 KiB that need no permission."""
        self._check(
            self._library.cuKernelSetAttribute(_MAX_DYNAMIC_SHARED, shared, kernel, device), "cuKernelSetAttribute"
        )

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
        """Enqueue a kernel.

        Args:
            kernel: From `load`.
            grid: Blocks along x, y and z.
            block: Threads of a block along x, y and z.
            shared: Bytes of dynamic shared memory.
            stream: Native handle.
            extra: Address of the list that names the buffer of arguments, see `kernel`.
            name: For messages.
        """
        status = self._launch(kernel, *grid, *block, shared, stream, None, extra)
        if status:
            self._check(status, f"cuLaunchKernel with grid {grid}, block {block}, {shared} bytes shared", name)

    def _check(self, status: int, call: str, name: str = "") -> None:
        if status == 0:
            return
        short, text = c_char_p(), c_char_p()
        self._library.cuGetErrorName(status, byref(short))
        self._library.cuGetErrorString(status, byref(text))
        told = f"{_decoded(short) or status}: {_decoded(text) or 'no text'}"
        what = f"The CUDA driver refused {call}."
        if status in OUT_OF_MEMORY:
            raise MemoryError(f"{what} {told}")
        if status in LOST:
            raise DeviceReset(what, where=name, why=told, fix="Create the session again: the device accepts no work.")
        raise EPFail(what, where=name, why=told, fix="See the CUDA driver's documentation of this status.")


def _decoded(text: c_char_p) -> str:
    return text.value.decode(errors="replace") if text.value else ""


_driver: Driver | None = None


def driver() -> Driver:
    """The driver of this process.

    Raises:
        EPFail: There is none, it is too old, or it does not start.
    """
    global _driver  # noqa: PLW0603 - one per process; two that are made at once are equal
    if _driver is None:
        _driver = Driver(libraries.load("cuda"))
    return _driver
