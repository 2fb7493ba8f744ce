"""Memory and order on a device: allocators, copies between devices, streams.

A provider whose device is the host needs none of this: the host has defaults. The engine keeps the bare arrays of a
device in its slots and frees one by dropping it. Arrays are made by kernels and data transfers; the engine asks an
allocator for memory that runs of known shapes use again, for figures and to give memory back, and waits for
whole streams.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ort_py.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from ort_py.contracts.graph_view import Array
    from ort_py.devices import Device


@dataclass(frozen=True, slots=True)
class AllocatorStats:
    """Bytes an allocator has handed out and holds. Zero where it cannot tell."""

    bytes_in_use: int = 0
    bytes_reserved: int = 0


class IAllocator(ABC):
    """Makes arrays on one device. One instance a provider instance; called from any thread.

    A kernel that finds memory short raises MemoryError: the core then trims, runs once more, and falls back.
    """

    @abstractmethod
    def empty(self, shape: Sequence[int], dtype: Any) -> Array:
        """Required. An uninitialised C-contiguous array, at least 64-byte aligned where the device allows.

        For the provider's own kernels, for plug-ins that share its device, and for the engine: a frame asks for a block
        of ``uint8``, on the thread that runs it with its streams current, and cuts arrays from it with ``block[a:b]``,
        ``.view(dtype)`` and ``.reshape(shape)``; only its kernels that declare `out` write there. Raise MemoryError
        where memory is short: the run then does without.
        """

    def trim(self) -> int:
        """Optional. Give unused memory back to the system; returns the bytes given back. Any thread."""
        return 0

    def stats(self) -> AllocatorStats:
        """Optional. Figures for `session.memory_report()`. Any thread; must be cheap."""
        return AllocatorStats()

    def close(self) -> None:  # noqa: B027 - optional, doing nothing is a right answer
        """Optional. Called once when the session closes, before its provider; no array is used after it. An exception
        is logged."""


class IStream(ABC):
    """An order of work on one device. A frame has one stream a device and is used by one thread at a time.

    Entering it makes it the current stream of the calling thread, so that kernels enqueue there.
    """

    @property
    @abstractmethod
    def device(self) -> Device:
        """Required. The device the work runs on."""

    @abstractmethod
    def synchronize(self) -> None:
        """Required. Block until all work enqueued so far is done; raise what failed there."""

    @property
    def handle(self) -> int:
        """Optional. The native stream as an integer, or 0 if there is none. Kernels pass it to foreign libraries; the
        core does not ask for it."""
        return 0

    def __enter__(self) -> IStream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None


class IDataTransfer(ABC):
    """Copies arrays between devices. Contributed by a provider or by a plug-in; called from any thread."""

    @abstractmethod
    def can_copy(self, source: Device, target: Device) -> bool:
        """Required. Return whether `copy` works for this pair. Called while planning; must be cheap and pure."""

    @abstractmethod
    def copy(self, array: Array, source: Device, target: Device, stream: IStream | None) -> Array:
        """Required. A copy of `array` on `target`, C-contiguous.

        Args:
            array: Array of `source`.
            source: Device that it is on.
            target: Device of the copy.
            stream: The frame's stream of the non-host side. The copy is ordered after what was enqueued there. A
                copy to the host may return before the data are there: the core waits on the stream before the host
                reads. None where neither side has streams.

        Returns:
            A new array of the target's module. Never a view of `array`. It must stay valid when `array` is dropped.
        """
