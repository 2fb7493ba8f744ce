"""Constants where their readers are: each weight once on each device, however many plans read it.

One pool a session; a weight that is read on the host is the array of its `Weight`, never a copy.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ort_py.contracts import Array, IStream
from ort_py.devices import HOST, Device
from ort_py.graph.ir import Weight
from ort_py.memory.transfer import TransferTable

__all__ = ["ConstantPool"]


class ConstantPool:
    """Arrays of constants by device. Filled on the thread that plans."""

    def __init__(
        self, transfers: TransferTable, streams: Mapping[Device, Callable[[], IStream | None]] | None = None
    ) -> None:
        self._transfers = transfers
        self._streams = dict(streams or {})
        self._opened: dict[Device, IStream | None] = {}
        self._copies: dict[tuple[str, Device], Any] = {}

    def array(self, weight: Weight, device: Device) -> Array:
        """The weight on a device, copied there the first time it is asked for."""
        if device == HOST:
            return weight.array()
        key = (weight.key, device)
        if key not in self._copies:
            stream = self._stream(device)
            array: Array = weight.array()
            for hop in self._transfers.route(HOST, device):
                array = hop.transfer.copy(array, hop.source, hop.target, stream)
            if stream is not None:
                stream.synchronize()
            self._copies[key] = array
        return self._copies[key]

    @contextlib.contextmanager
    def current_streams(self) -> Iterator[None]:
        """Make the pool's streams the current ones, and wait for them at the end.

        Kernel factories may make arrays on their device: those must be there before any run reads them.
        """
        with contextlib.ExitStack() as stack:
            opened = [stream for stream in map(self._stream, self._streams) if stream is not None]
            for stream in opened:
                stack.enter_context(stream)
            yield
            for stream in opened:
                stream.synchronize()

    def _stream(self, device: Device) -> IStream | None:
        """One stream a device for all constants."""
        if device not in self._opened:
            maker = self._streams.get(device)
            self._opened[device] = maker() if maker is not None else None
        return self._opened[device]

    def device_bytes(self) -> dict[Device, int]:
        """Bytes of constants held on each device other than the host."""
        found: dict[Device, int] = {}
        for (_, device), array in self._copies.items():
            # Any module's arrays: the contract asks for no such attribute, though all have it.
            found[device] = found.get(device, 0) + int(getattr(array, "nbytes", 0))
        return found
