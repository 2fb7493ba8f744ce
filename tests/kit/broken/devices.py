"""Devices that are wrong in one way each: their allocators and their copies, on the fake device."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ort_py.contracts import (
    Availability,
    IAllocator,
    IDataTransfer,
    IExecutionProvider,
    IStream,
    ProviderFactory,
    SessionContext,
)
from ort_py.devices import HOST, Device
from ort_py.hooks import hookimpl
from ort_py_kit.fake_device import FakeAllocator, FakeDevice, FakeProvider, FakeTransfer

__all__ = ["PROVIDERS", "ort_py_providers"]


class WrongShape(FakeAllocator):
    """Arrays lie the other way round."""

    def empty(self, shape: Sequence[int], dtype: Any) -> Any:
        return super().empty(shape[::-1], dtype)


class OneBlock(FakeAllocator):
    """The same memory is handed out again and again."""

    def empty(self, shape: Sequence[int], dtype: Any) -> Any:
        if not hasattr(self, "_kept"):
            self._kept: dict[Any, Any] = {}
        key = (tuple(shape), np.dtype(dtype))
        if key not in self._kept:
            self._kept[key] = super().empty(shape, dtype)
        return self._kept[key]


class WrongError(FakeAllocator):
    """Raises a ValueError for artifacts that do not fit."""

    def empty(self, shape: Sequence[int], dtype: Any) -> Any:
        if shape and shape[0] > 1 << 40:
            raise ValueError("out of memory")
        return super().empty(shape, dtype)


class OddFigures(FakeAllocator):
    """Trimming says nothing."""

    def trim(self) -> int:
        return None  # type: ignore[return-value] # the mistake is meant


class CopiesAnything(FakeTransfer):
    """Every pair of devices is said to be served."""

    def can_copy(self, source: Device, target: Device) -> bool:
        return True


class OneWay(FakeTransfer):
    """Copies in one direction only."""

    def can_copy(self, source: Device, target: Device) -> bool:
        return source == HOST and super().can_copy(source, target)


class Narrows(FakeTransfer):
    """Doubles become floats on the way."""

    def copy(self, array: Any, source: Device, target: Device, stream: IStream | None) -> Any:
        wide = source == HOST and array.dtype == np.float64
        return super().copy(array.astype(np.float32) if wide else array, source, target, stream)


class SharesHost(FakeTransfer):
    """One copy on the host for all who ask."""

    def copy(self, array: Any, source: Device, target: Device, stream: IStream | None) -> Any:
        if target != HOST or stream is None:
            return super().copy(array, source, target, stream)
        if not hasattr(self, "_kept"):
            self._kept: dict[Any, Any] = {}
        key = (id(array), array.shape)
        if key not in self._kept:
            self._kept[key] = super().copy(array, source, target, stream)
        return self._kept[key]


class OneBuffer(FakeTransfer):
    """All threads' copies go through one host buffer."""

    _buffer = np.zeros(1 << 12, np.float32)

    def copy(self, array: Any, source: Device, target: Device, stream: IStream | None) -> Any:
        if source != HOST or array.dtype != np.float32 or array.size > self._buffer.size:
            return super().copy(array, source, target, stream)
        staged = self._buffer[: array.size].reshape(array.shape)
        staged[...] = array
        time.sleep(0)  # a library would start its copy here
        return super().copy(staged, source, target, stream)


class _Device(FakeProvider):
    def __init__(self, name: str, kind: Callable[[FakeDevice], Any]) -> None:
        super().__init__(FakeDevice(largest=1 << 40), name=name)
        made = kind(self.owner)
        self._own = made if isinstance(made, IAllocator) else FakeAllocator(self.owner)
        if isinstance(made, IDataTransfer):
            self.transfer = made  # type: ignore[assignment] # all are fake transfers

    def allocator(self) -> IAllocator:
        return self._own


class _Factory(ProviderFactory):
    def __init__(self, kind: Callable[[FakeDevice], Any]) -> None:
        self._kind = kind

    @property
    def name(self) -> str:
        return f"{getattr(self._kind, '__name__', '')}ExecutionProvider"

    def probe(self) -> Availability:
        return Availability(True, devices=(Device("fake", 0),))

    def create(self, options: Mapping[str, Any], context: SessionContext) -> IExecutionProvider:
        return _Device(self.name, self._kind)


_KINDS: tuple[Callable[[FakeDevice], Any], ...] = (
    WrongShape,
    OneBlock,
    WrongError,
    OddFigures,
    CopiesAnything,
    OneWay,
    Narrows,
    SharesHost,
    OneBuffer,
)

PROVIDERS: dict[str, ProviderFactory] = {factory.name: factory for factory in map(_Factory, _KINDS)}
"""The providers by name."""


@hookimpl
def ort_py_providers() -> Iterable[ProviderFactory]:
    """All of them: the kit asks for one by name."""
    return list(PROVIDERS.values())
