"""The data transfers between two devices: directly, or through the host.

Providers' own transfers are asked first, then those that plug-ins contribute, each list in its given order.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ort_py.contracts import Array, IDataTransfer, IStream
from ort_py.devices import HOST, Device
from ort_py.errors import EngineError
from ort_py.lazy_dataclass import dataclass


class HostTransfer(IDataTransfer):
    """Copies on the host."""

    def can_copy(self, source: Device, target: Device) -> bool:
        return source == HOST and target == HOST

    def copy(self, array: Array, source: Device, target: Device, stream: IStream | None) -> Array:
        return np.array(array, order="C")


@dataclass(frozen=True, slots=True)
class Hop:
    """One copy of a route."""

    transfer: IDataTransfer
    source: Device
    target: Device


class TransferTable:
    """All copies a session can make."""

    def __init__(self, transfers: Iterable[IDataTransfer]) -> None:
        self._transfers = [*transfers, HostTransfer()]

    def route(self, source: Device, target: Device) -> tuple[Hop, ...]:
        """The copies that bring an array from one device to another; empty if they are the same.

        Raises:
            EngineError: Nothing copies between the two, directly or through the host.
        """
        if source == target:
            return ()
        direct = self._direct(source, target)
        if direct is not None:
            return (direct,)
        if HOST not in (source, target):
            first, second = self._direct(source, HOST), self._direct(HOST, target)
            if first is not None and second is not None:
                return (first, second)
        raise EngineError(
            f"No data transfer copies arrays from {source} to {target}.",
            why=f"asked: {', '.join(type(transfer).__name__ for transfer in self._transfers)}",
            fix="The provider of the device must return an IDataTransfer from data_transfers().",
        )

    def _direct(self, source: Device, target: Device) -> Hop | None:
        for transfer in self._transfers:
            if transfer.can_copy(source, target):
                return Hop(transfer, source, target)
        return None
