"""Memory of a GPU for values that users make without a session: the pool that sessions share, and copies of its own.

Comes after `opening` and `interop`; the factory of `plugin` gives it to the core. It is independent of sessions: the
arrays are CuPy's, which kernels of every session on the GPU take.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ort_py.contracts import IAllocator, IDataTransfer, IDeviceMemory, IStream, SessionContext
from ort_py.contracts.graph_view import Array
from ort_py.devices import Device
from ort_py.errors import UsageError
from ort_py_cuda import interop
from ort_py_cuda.modules import cupy
from ort_py_cuda.opening import open_device
from ort_py_cuda.options import OPTIONS, wishes_of

__all__ = ["CudaMemory"]

_DLPACK_TYPES = frozenset({2, 13})
"""kDLCUDA and kDLCUDAManaged."""


class CudaMemory(IDeviceMemory):
    """Memory of one GPU.

    Args:
        device: The GPU.

    Raises:
        EPFail: CuPy does not import, CUDA does not start, or there is no GPU of this number.
    """

    def __init__(self, device: Device) -> None:
        options = {spec.name: spec.default for spec in OPTIONS} | {"device_id": device.index}
        self._opened = open_device(wishes_of(options, SessionContext()))

    @property
    def device(self) -> Device:
        """The GPU."""
        return self._opened.device

    @property
    def allocator(self) -> IAllocator:
        """The allocator of the pool that sessions without a limit share."""
        return self._opened.allocator

    @property
    def transfer(self) -> IDataTransfer:
        """Copies through locked memory."""
        return self._opened.transfer

    def create_stream(self) -> IStream:
        """Create a stream that does not synchronise with others."""
        return self._opened.new_stream()

    def address(self, array: Any) -> int:
        """CUDA's address of the first element."""
        return int(array.data.ptr)

    def at_address(self, address: int, shape: Sequence[int], dtype: Any) -> Array:
        """CuPy's array over memory of the caller's.

        Raises:
            UsageError: The address is null, or is none of this GPU's memory.
        """
        if address:
            self._expect_here(address)
        return interop.at_address(address, shape, dtype, self.device)

    @property
    def dlpack_types(self) -> frozenset[int]:
        """Device memory, and memory that CUDA moves by itself."""
        return _DLPACK_TYPES

    def from_dlpack(self, producer: Any) -> Array:
        """CuPy's array over the memory of another library's."""
        return interop.taken(producer)

    def synchronize(self) -> None:
        """Wait for all streams of the GPU, other libraries' too."""
        with cupy().cuda.Device(self.device.index) as device:
            device.synchronize()

    def _expect_here(self, address: int) -> None:
        try:
            attributes = cupy().cuda.runtime.pointerGetAttributes(address)
        except Exception as error:  # CUDARuntimeError: CUDA knows of no such memory
            raise self._elsewhere(address, str(error)) from error
        if not attributes.devicePointer or attributes.device != self.device.index:
            raise self._elsewhere(address, f"CUDA says that it is of device {attributes.device}")

    def _elsewhere(self, address: int, why: str) -> UsageError:
        return UsageError(
            f"There is no memory of {self.device} at address {address:#x}.",
            why=why,
            fix="Pass the address of memory on this GPU: tensor.data_ptr(), or array.data.ptr.",
        )
