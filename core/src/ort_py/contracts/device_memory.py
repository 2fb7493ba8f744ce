"""Memory of one device outside of sessions: where values live that users make there, and that runs read in place.

A provider's factory gives it, as values are made before a session, or without one. Comes after `memory`, of whose
allocator and copies it is put together; the sessions of the provider take its arrays for their own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ort_py.errors import UsageError

if TYPE_CHECKING:
    from ort_py.contracts.graph_view import Array
    from ort_py.contracts.memory import IAllocator, IDataTransfer, IStream
    from ort_py.devices import Device


class IDeviceMemory(ABC):
    """Arrays on one device that hold users' values. There is one instance per device and process. Any thread may call
    it, one thread at a time, with a stream of `create_stream` current; the core synchronises that stream before
    anything else sees the arrays.

    The arrays are those that the provider's kernels take: with ``shape``, ``dtype``, ``flags.c_contiguous``,
    ``view(dtype)``, ``copy()`` and ``array[...] = other``.
    """

    @property
    @abstractmethod
    def device(self) -> Device:
        """Required. The device."""

    @property
    @abstractmethod
    def allocator(self) -> IAllocator:
        """Required. Makes arrays there."""

    @property
    @abstractmethod
    def transfer(self) -> IDataTransfer:
        """Required. Copies between the device and the host, both ways."""

    @abstractmethod
    def address(self, array: Array) -> int:
        """Required. Address of the first byte of an array, as native code on the device takes it."""

    @abstractmethod
    def at_address(self, address: int, shape: Sequence[int], dtype: Any) -> Array:
        """Required. Wrap C-contiguous memory that the caller owns and keeps alive in an array. Raise `UsageError` if
        the memory is not on this device.
        """

    def create_stream(self) -> IStream | None:
        """Optional. A stream for the work on values; None where the device runs in the caller's order."""
        return None

    @property
    def dlpack_types(self) -> frozenset[int]:
        """Optional. DLPack's numbers of the kinds of device whose arrays `from_dlpack` takes."""
        return frozenset()

    def from_dlpack(self, producer: Any) -> Array:
        """Optional. An array over the memory of another library's, which it keeps alive, after the work that the
        library has queued for it.

        Args:
            producer: Has ``__dlpack__`` and ``__dlpack_device__``, which says one of `dlpack_types` and this device.
        """
        raise UsageError(f"{self.device} takes no arrays of other libraries.", fix="Bring it to the host first.")

    def synchronize(self) -> None:  # noqa: B027 - optional, doing nothing is right without queues
        """Optional. Block until all work of the process on the device is done, that of other libraries included."""
