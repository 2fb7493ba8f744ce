"""A tensor on a device, as an `OrtValue` holds it: the device's array with the memory it is in.

After `device_memory`, before `held_value`. Every question that needs the content copies it; nothing is copied behind
one's back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from ort_py.devices import Device
from ort_py.dtypes import DataType, numpy_dtype
from ort_py.errors import EngineError, UsageError
from ort_py.values.device_memory import DeviceMemory, memory_of


class DeviceTensor:
    """An array of a device.

    Args:
        array: An array of it, C-contiguous.
    """

    __slots__ = ("_memory", "array")

    def __init__(self, memory: DeviceMemory, array: Any) -> None:
        self._memory = memory
        self.array = array

    @classmethod
    def of_host(cls, device: Device, array: np.ndarray[Any, Any]) -> DeviceTensor:
        """A copy of an array of the host.

        Raises:
            UsageError: Strings are on the host only.
        """
        if array.dtype.hasobject:
            raise _no_strings(device)
        memory = _memory(device)
        return cls(memory, memory.from_host(np.ascontiguousarray(array).reshape(array.shape)))

    @classmethod
    def empty(cls, device: Device, data_type: DataType, shape: Sequence[int]) -> DeviceTensor:
        """An uninitialised tensor.

        Raises:
            UsageError: Strings are on the host only.
        """
        if data_type is DataType.STRING:
            raise _no_strings(device)
        memory = _memory(device)
        return cls(memory, memory.empty(shape, numpy_dtype(data_type)))

    @classmethod
    def at_address(cls, device: Device, address: int, data_type: DataType, shape: Sequence[int]) -> DeviceTensor:
        """A tensor over C-contiguous memory of the device."""
        memory = _memory(device)
        return cls(memory, memory.at_address(address, shape, numpy_dtype(data_type)))

    @property
    def device(self) -> Device:
        return self._memory.device

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.array.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        dtype: np.dtype[Any] = np.dtype(self.array.dtype)
        return dtype

    @property
    def size(self) -> int:
        return int(self.array.size)

    def to_host(self) -> np.ndarray[Any, Any]:
        """A copy on the host."""
        return self._memory.to_host(self.array)

    def address(self) -> int:
        """Address of the first byte, of use on the device only."""
        return self._memory.address(self.array)

    def write(self, source: np.ndarray[Any, Any] | DeviceTensor, what: str) -> None:
        """Write a tensor of the same element type and as many elements into this memory.

        Args:
            source: An array of the host, of any byte order and strides, or a tensor of any device.

        Raises:
            UsageError: Element types or numbers of elements differ.
        """
        expect_same_elements(source, self, what)
        if isinstance(source, DeviceTensor) and source.device == self.device and source.shape == self.shape:
            self._memory.write(self.array, source.array)
            return
        host = source.to_host() if isinstance(source, DeviceTensor) else source
        whole = np.ascontiguousarray(host, self.dtype).reshape(self.shape)
        self._memory.write(self.array, self._memory.from_host(whole))

    def dlpack(self, **options: Any) -> Any:
        """The array's own DLPack capsule.

        Raises:
            BufferError: Arrays of this device have none.
        """
        given = {key: value for key, value in options.items() if value is not None}
        try:
            export = self.array.__dlpack__
        except AttributeError:
            raise BufferError(f"Arrays of {self.device} are not exported by DLPack: use numpy().") from None
        try:
            return export(**given)
        except TypeError:  # a library of the protocol's first generation knows the stream only
            if given.get("copy") or "dl_device" in given:
                raise
            return export(**{key: value for key, value in given.items() if key == "stream"})

    def dlpack_device(self) -> tuple[int, int]:
        """DLPack's kind and number of the device.

        Raises:
            BufferError: Arrays of this device have none.
        """
        try:
            kind, number = self.array.__dlpack_device__()
        except AttributeError:
            raise BufferError(f"Arrays of {self.device} are not exported by DLPack: use numpy().") from None
        return int(kind), int(number)

    def __reduce__(self) -> NoReturn:
        raise UsageError(
            f"A value on {self.device} cannot be pickled.",
            why="its memory belongs to this process",
            fix="Pickle its copy on the host: value.numpy().",
        )


def _memory(device: Device) -> DeviceMemory:
    memory = memory_of(device)
    if memory is None:  # it was there when the device was looked up
        raise EngineError(f"The memory of {device} is no longer available.", fix="Register its provider again.")
    return memory


def _no_strings(device: Device) -> UsageError:
    return UsageError(
        f"{device} cannot hold strings.",
        why="strings are Python objects and exist only on the host",
        fix="Use device_type='cpu' for strings.",
    )


def expect_same_elements(
    source: np.ndarray[Any, Any] | DeviceTensor, target: np.ndarray[Any, Any] | DeviceTensor, what: str
) -> None:
    """Check that one tensor can be written into the memory of another, whatever their byte orders and shapes.

    Raises:
        UsageError: Element types or numbers of elements differ.
    """
    if source.dtype.newbyteorder("=") != target.dtype or source.size != target.size:
        place = f" on {target.device}" if isinstance(target, DeviceTensor) else ""
        raise UsageError(
            f"{what} needs an array of the same element type and number of elements.",
            why=f"{source.dtype} {source.shape} into {target.dtype} {target.shape}{place}",
            fix="Convert the array with astype() or reshape() first.",
        )
