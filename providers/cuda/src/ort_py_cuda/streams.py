"""Streams: the order of a frame's work on a GPU.

Entering a stream makes its device, its stream and its memory the thread's current ones, so that kernels that know
nothing of it allocate and enqueue there. Comes after `memory`; the core knows these classes by their contracts.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from types import TracebackType
from typing import Any

from ort_py.contracts import IStream
from ort_py.devices import Device
from ort_py.errors import EPFail, Location
from ort_py_cuda.code import faults
from ort_py_cuda.code.cache import CodeCache
from ort_py_cuda.code.kernel import keep_code
from ort_py_cuda.memory.staging import Staging
from ort_py_cuda.modules import cupy

__all__ = ["PROVIDER", "CudaStream", "new_stream", "users_stream"]

PROVIDER = "CUDAExecutionProvider"
"""Whose failures are answered: what fails before a run's first step has no other place."""


class CudaStream(IStream):
    """One stream of one GPU.

    Args:
        device: The GPU.
        native: CuPy's stream.
        malloc: Where memory comes from while the stream is current: CuPy's form of an allocator.

    Attributes:
        native: CuPy's stream.
        staging: What its queued copies need on the host.
    """

    def __init__(self, device: Device, native: Any, malloc: Callable[[int], Any]) -> None:
        self._device = device
        self.native = native
        self.staging = Staging()
        self._malloc = malloc
        self._cuda = cupy().cuda
        self._entered: list[tuple[Any, Any]] = []
        self._handle = int(native.ptr)

    @property
    def device(self) -> Device:
        """The GPU."""
        return self._device

    @property
    def handle(self) -> int:
        """The ``cudaStream_t``."""
        return self._handle

    def synchronize(self) -> None:
        """Wait, finish what copies left for the host, and raise what failed."""
        try:
            self.native.synchronize()
        except BaseException:
            self.staging.drop()
            raise
        self.staging.finish()
        faults.raise_if_any(self._handle)  # errors that kernels found in their data

    def record(self) -> Any:
        """CuPy's event behind the work enqueued so far."""
        with self._cuda.Device(self._device.index):  # an event belongs to the device that is current when it is made
            event = self._cuda.Event(disable_timing=True)
            event.record(self.native)
        return event

    def __enter__(self) -> CudaStream:
        device = self._cuda.Device(self._device.index)
        try:
            device.__enter__()
            _bind(device)
        except Exception as error:  # CUDARuntimeError: a context that is broken says so to every call
            raise EPFail(
                f"GPU {self._device.index} does not answer: {error}.", where=Location(provider=PROVIDER)
            ) from error
        memory = self._cuda.using_allocator(self._malloc)
        memory.__enter__()
        self.native.__enter__()
        self._entered.append((device, memory))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        device, memory = self._entered.pop()
        self.native.__exit__(kind, error, trace)
        memory.__exit__(None, None, None)  # no error of ours: a generator would raise it once more
        device.__exit__(kind, error, trace)

    def __del__(self) -> None:
        # Work may still be queued after a run that failed: memory that it uses must not be handed to others, and CUDA
        # may give the handle of a stream that is gone to the next one, whose memory CuPy takes for the same.
        if getattr(self, "native", None) is not None:
            with contextlib.suppress(Exception):  # also at the end of the process, when CUDA is gone
                self.native.synchronize()
            self.staging.drop()


def _bind(device: Any) -> None:
    """Make the context of a device that was entered the thread's.

    Entering the device that is current anyway asks CUDA for nothing, and a thread that has not used CUDA yet has no
    context then: calls of the driver, which launch kernels, would find none.
    """
    try:
        device.use()
    except Exception:
        with contextlib.suppress(Exception):  # the first error is the one to tell
            device.__exit__(None, None, None)
        raise


class _Handle:
    """A stream of somebody else's, in the form CuPy takes."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self._handle


def new_stream(device: Device, malloc: Callable[[int], Any], code: CodeCache | None = None) -> CudaStream:
    """A stream that does not wait for the legacy default stream. For one frame.

    Args:
        device: The GPU.
        malloc: Where memory comes from.
        code: Where kernels that are compiled at a launch on it are kept; where the environment says, if None.
    """
    cuda = cupy().cuda
    with cuda.Device(device.index):
        native = cuda.Stream(non_blocking=True)
    made = CudaStream(device, native, malloc)
    faults.forget(made.handle)
    keep_code(made.handle, code)
    return made


def users_stream(
    device: Device, handle: int, malloc: Callable[[int], Any], code: CodeCache | None = None
) -> CudaStream:
    """A frame's view of the caller's stream, which the caller keeps alive; 0 is the legacy default stream.

    Args:
        device: The GPU.
        handle: The ``cudaStream_t``.
        malloc: Where memory comes from.
        code: As for `new_stream`; of the last session that uses the stream.
    """
    cuda = cupy().cuda
    with cuda.Device(device.index):
        native = cuda.Stream.from_external(_Handle(handle)) if handle else cuda.Stream(null=True)
    keep_code(handle, code)
    return CudaStream(device, native, malloc)
