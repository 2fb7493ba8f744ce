"""`cupy`, as far as this provider and the array library use it, on the stand-in machine."""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np

from .arrays import ArrayFunctions, DeviceArray
from .machine import CUDARuntimeError, Event, Machine, Stream
from .pools import MemoryPointer, MemoryPool, PinnedMemory, PinnedMemoryPool, function_allocator

__all__ = ["StandInModule"]

_AT = frozenset(("add", "subtract", "maximum", "minimum", "bitwise_and", "bitwise_or", "bitwise_xor"))


class StandInModule:
    """The module: `cuda` and NumPy's functions over device arrays."""

    ndarray: Any

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.cuda = Cuda(machine)
        self.arrays = ArrayFunctions(machine, self.cuda.malloc, self.cuda.Device)
        self.ndarray = _ndarray_class(self.arrays)
        self.empty = self.arrays.empty
        self.fft = _Functions(self.arrays, np.fft)
        self.linalg = _Functions(self.arrays, np.linalg)
        self.lib = SimpleNamespace(stride_tricks=_Functions(self.arrays, np.lib.stride_tricks))

    def asarray(self, value: Any, dtype: Any = None, order: str = "K") -> Any:
        """Also the way from the host that kernels may write: waits, as CuPy does for memory that is not locked."""
        if isinstance(value, DeviceArray):
            value = self.ascontiguousarray(value) if order == "C" else value
            return value if dtype is None or value.dtype == np.dtype(dtype) else value.astype(dtype)
        host = np.asarray(value, dtype)
        made = self.arrays.empty(host.shape, host.dtype)
        self.machine.stream.drain()
        made.raw[...] = host
        return made

    array = asarray

    def ascontiguousarray(self, value: DeviceArray) -> Any:
        return value if value.flags.c_contiguous else self.arrays.wrapped(np.ascontiguousarray)(value)

    def from_dlpack(self, value: Any) -> Any:
        return value.__dlpack__()

    def __getattr__(self, name: str) -> Any:
        found = getattr(np, name)
        if isinstance(found, type) or not callable(found):
            return found
        call = self.arrays.wrapped(found)
        if isinstance(found, np.ufunc):
            ufunc = _Ufunc(call, self.arrays.wrapped(found.at) if name in _AT else None)
            setattr(self, name, ufunc)
            return ufunc
        setattr(self, name, call)
        return call


class _Ufunc:
    def __init__(self, call: Callable[..., Any], at: Callable[..., Any] | None) -> None:
        self._call = call
        if at is not None:
            self.at = at

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        return self._call(*args, **keywords)


class _Functions:
    def __init__(self, arrays: ArrayFunctions, module: Any) -> None:
        self._arrays, self._module = arrays, module

    def __getattr__(self, name: str) -> Any:
        return self._arrays.wrapped(getattr(self._module, name))


def _ndarray_class(arrays: ArrayFunctions) -> Any:
    class Meta(type):
        def __instancecheck__(cls, value: Any) -> bool:
            return isinstance(value, DeviceArray)

        def __call__(cls, shape: Any, dtype: Any, memptr: Any) -> Any:
            return arrays.over(memptr, tuple(shape), dtype)

    return Meta("ndarray", (), {})


class Cuda:
    """`cupy.cuda`."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._allocators = threading.local()
        self._default = MemoryPool(machine)
        self.runtime = Runtime(machine)
        self.Stream = _Streams(machine)
        self.MemoryPointer = MemoryPointer
        self.pools: list[MemoryPool] = []

    # CuPy's names are classes and functions; here they are made for one machine.

    def Device(self, index: int | None = None) -> Device:  # noqa: N802
        return Device(self._machine, self._machine.device if index is None else index)

    def Event(self, disable_timing: bool = False) -> Event:  # noqa: N802
        assert disable_timing, "events that time cost more, and nobody reads the times"
        return Event()

    def MemoryPool(self) -> MemoryPool:  # noqa: N802
        pool = MemoryPool(self._machine)
        self.pools.append(pool)
        return pool

    MemoryAsyncPool = MemoryPool

    def PinnedMemoryPool(self) -> PinnedMemoryPool:  # noqa: N802
        return PinnedMemoryPool(self._machine)

    def alloc_pinned_memory(self, nbytes: int) -> PinnedMemory:
        return PinnedMemoryPool(self._machine).malloc(nbytes)

    def PythonFunctionAllocator(self, malloc: Any, free: Any) -> Any:  # noqa: N802
        return SimpleNamespace(malloc=function_allocator(self._machine, malloc, free))

    def Memory(self, nbytes: int) -> Any:  # noqa: N802
        return self._default.malloc(nbytes)

    def UnownedMemory(self, ptr: int, size: int, owner: Any, device_id: int = -1) -> Any:  # noqa: N802
        del size
        return SimpleNamespace(ptr=ptr, owner=owner, device_id=device_id)

    def get_current_stream(self) -> Stream:
        return self._machine.stream

    @contextlib.contextmanager
    def using_allocator(self, malloc: Callable[[int], Any]) -> Iterator[None]:
        stack = self._stack()
        stack.append(malloc)
        yield
        stack.pop()

    def malloc(self, nbytes: int) -> Any:
        """Allocate with the allocator that is current on this thread."""
        stack = self._stack()
        return (stack[-1] if stack else self._default.malloc)(nbytes)

    def _stack(self) -> list[Any]:
        stack: list[Any] | None = getattr(self._allocators, "stack", None)
        if stack is None:
            stack = self._allocators.stack = []
        return stack


class _Streams:
    """`cupy.cuda.Stream`."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def __call__(self, null: bool = False, non_blocking: bool = False) -> Stream:
        machine = self._machine
        if null:
            return machine.default[machine.device]
        assert non_blocking, "a stream that waits for the default stream waits for everybody's"
        return Stream(machine, machine.device, machine.new_handle())

    def from_external(self, given: Any) -> Stream:
        """Another object for the same stream."""
        version, handle = given.__cuda_stream__()
        assert version == 0
        return self._machine.streams[handle]


class Device:
    """`cupy.cuda.Device`."""

    def __init__(self, machine: Machine, index: int) -> None:
        self._machine = machine
        self.id = index
        self.compute_capability = str(machine.capability)
        self.attributes: dict[str, int] = {"MemoryPoolsSupported": 1}

    def __enter__(self) -> Device:
        self._machine.enter_device(self.id)
        return self

    def __exit__(self, *_error: object) -> None:
        self._machine.leave_device()

    def use(self) -> Device:
        self._machine.bind(self.id)
        return self

    def synchronize(self) -> None:
        self._machine.check(self.id)
        known = [one() for one in self._machine.streams.valuerefs()]  # at once: other threads make streams meanwhile
        for stream in [self._machine.default[self.id], *known]:
            if stream is not None and stream.device == self.id:
                stream.drain()


class Runtime:
    """`cupy.cuda.runtime`."""

    memcpyHostToDevice = 1  # noqa: N815 - CuPy's names
    memcpyDeviceToHost = 2  # noqa: N815
    CUDARuntimeError = CUDARuntimeError

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def getDeviceCount(self) -> int:  # noqa: N802
        if not self._machine.devices:
            raise CUDARuntimeError(100, "cudaErrorNoDevice: no CUDA-capable device is detected")
        return self._machine.devices

    def getDevice(self) -> int:  # noqa: N802
        return self._machine.device

    def memcpyAsync(self, dst: int, src: int, nbytes: int, kind: int, stream: int) -> None:  # noqa: N802
        """Queued: neither side is touched before the stream gets there."""
        machine = self._machine
        host, device = (src, dst) if kind == self.memcpyHostToDevice else (dst, src)
        assert machine.at(device, nbytes)[1] >= 0, "the device's side is no memory of a device"
        try:
            locked = machine.at(host, nbytes)[1] == -1
        except CUDARuntimeError:
            locked = False
        queue = machine.stream_of(stream)
        if not locked:  # CUDA may wait, or not: here it does, and whoever relies on it has said so
            queue.drain()
            source = _bytes(host, nbytes) if kind == self.memcpyHostToDevice else machine.at(device, nbytes)[0]
            target = machine.at(device, nbytes)[0] if kind == self.memcpyHostToDevice else _bytes(host, nbytes)
            target[:] = source
            machine.log.append(("pageable", stream, nbytes))
            return

        def move() -> None:
            machine.at(dst, nbytes)[0][:] = machine.at(src, nbytes)[0]

        queue.enqueue("upload" if kind == self.memcpyHostToDevice else "download", move, nbytes)

    def memcpyPeerAsync(  # noqa: N802
        self, dst: int, dst_device: int, src: int, src_device: int, nbytes: int, stream: int
    ) -> None:
        machine = self._machine
        assert machine.at(dst, nbytes)[1] == dst_device
        assert machine.at(src, nbytes)[1] == src_device

        def move() -> None:
            machine.at(dst, nbytes)[0][:] = machine.at(src, nbytes)[0]

        machine.stream_of(stream).enqueue("peer", move, nbytes)

    def memset(self, address: int, value: int, nbytes: int) -> None:
        self._machine.at(address, nbytes)[0].fill(value)

    def pointerGetAttributes(self, address: int) -> Any:  # noqa: N802
        device = self._machine.at(address, 1)[1]
        return SimpleNamespace(device=device, devicePointer=address if device >= 0 else 0)


def _bytes(address: int, nbytes: int) -> np.ndarray[Any, Any]:
    memory: Any = (ctypes.c_uint8 * nbytes).from_address(address)
    found: np.ndarray[Any, Any] = np.frombuffer(memory, np.uint8)
    return found
