"""OrtMemoryInfo and OrtArenaCfg: descriptions of memory and allocators that onnxruntime's applications pass around.

ort-py's allocators belong to providers and need no description from outside: what is registered here is checked as
onnxruntime checks it, and has no further effect.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

from ort_py.errors import UsageError
from ort_py.suggestions import did_you_mean
from ort_py.value_enums import OrtAllocatorType, OrtDeviceMemoryType, OrtMemoryInfoDeviceType, OrtMemType
from ort_py.values.device_table import MEMORY_NAMES


class OrtMemoryInfo:
    """A description of memory: its device, its kind and its allocator. Read-only.

    Args:
        name: One of onnxruntime's names, e.g. ``"Cpu"``; others are described with `create_v2`.
        alloc_type: Kind of allocator.
        id: Number of the device; the host has the number 0.
        mem_type: Use of the memory.

    Raises:
        UsageError: No such name.
        TypeError: An argument has the wrong type.
    """

    __slots__ = (
        "_allocator_type",
        "_device_id",
        "_device_mem_type",
        "_device_vendor_id",
        "_is_host",
        "_mem_type",
        "_name",
    )

    def __init__(
        self,
        name: str,
        alloc_type: OrtAllocatorType,
        id: int,  # noqa: A002 - onnxruntime's name
        mem_type: OrtMemType,
        /,
    ) -> None:
        _expect(name, str, "name")
        _expect(alloc_type, OrtAllocatorType, "alloc_type")
        _expect(mem_type, OrtMemType, "mem_type")
        row = MEMORY_NAMES.get(name)
        if row is None:
            raise UsageError(
                f"There is no memory named '{name}'.",
                why=f"known: {', '.join(MEMORY_NAMES)}",
                fix=did_you_mean(name, MEMORY_NAMES) or "Describe other memory with OrtMemoryInfo.create_v2.",
            )
        self._name = row.shown
        self._is_host = row.shown == "Cpu"
        self._allocator_type = alloc_type
        self._device_id = 0 if self._is_host else operator.index(id)
        self._mem_type = mem_type
        self._device_mem_type = row.memory
        self._device_vendor_id = int(row.vendor_id)

    @staticmethod
    def create_v2(
        name: str,
        device_type: OrtMemoryInfoDeviceType,
        vendor_id: int,
        device_id: int,
        device_mem_type: OrtDeviceMemoryType,
        alignment: int,
        alloc_type: OrtAllocatorType,
        /,
    ) -> OrtMemoryInfo:
        """Memory of any device.

        Args:
            name: Any name.
            device_type: Kind of the device.
            vendor_id: Number of its maker.
            device_id: Number of the device among those of its kind.
            device_mem_type: Kind of memory.
            alignment: In bytes; accepted for compatibility.
            alloc_type: Kind of allocator.

        Raises:
            TypeError: An argument has the wrong type.
        """
        _expect(name, str, "name")
        _expect(device_type, OrtMemoryInfoDeviceType, "device_type")
        _expect(device_mem_type, OrtDeviceMemoryType, "device_mem_type")
        _expect(alloc_type, OrtAllocatorType, "alloc_type")
        operator.index(alignment)
        made = object.__new__(OrtMemoryInfo)
        made._name = name
        made._is_host = device_type is OrtMemoryInfoDeviceType.CPU
        made._allocator_type = alloc_type
        made._device_id = operator.index(device_id)
        host_accessible = device_mem_type is OrtDeviceMemoryType.HOST_ACCESSIBLE
        made._mem_type = OrtMemType.CPU if host_accessible else OrtMemType.DEFAULT
        made._device_mem_type = device_mem_type
        made._device_vendor_id = operator.index(vendor_id)
        return made

    @property
    def name(self) -> str:
        return self._name

    @property
    def allocator_type(self) -> OrtAllocatorType:
        return self._allocator_type

    @property
    def device_id(self) -> int:
        """Index of the device among those of its kind."""
        return self._device_id

    @property
    def mem_type(self) -> OrtMemType:
        """Purpose of the memory."""
        return self._mem_type

    @property
    def device_mem_type(self) -> OrtDeviceMemoryType:
        """Kind of memory."""
        return self._device_mem_type

    @property
    def device_vendor_id(self) -> int:
        """Number of the device's maker."""
        return self._device_vendor_id

    @property
    def is_host(self) -> bool:
        """True if it is the host's memory, the only one that exists without a provider."""
        return self._is_host

    def __repr__(self) -> str:
        return f"OrtMemoryInfo(name={self._name!r}, device_id={self._device_id}, allocator_type={self._allocator_type})"


_ARENA_KEYS = {
    "max_mem": 0,
    "arena_extend_strategy": -1,
    "initial_chunk_size_bytes": -1,
    "max_dead_bytes_per_chunk": -1,
    "initial_growth_chunk_size_bytes": -1,
    "max_power_of_two_extend_bytes": -1,
}


class OrtArenaCfg:
    """The growth of an arena: `OrtArenaCfg(max_mem, strategy, initial_chunk, max_dead)`, or a dict of its attributes.

    Attributes:
        max_mem: Bytes at most, 0 for no bound.
        arena_extend_strategy: 0 for powers of two, 1 for what was asked for, -1 for the default.
        initial_chunk_size_bytes, max_dead_bytes_per_chunk, initial_growth_chunk_size_bytes,
            max_power_of_two_extend_bytes: -1 for the default.

    Raises:
        UsageError: An unknown key, or a value that is not an integer.
        TypeError: Other arguments.
    """

    __slots__ = tuple(_ARENA_KEYS)

    max_mem: int
    arena_extend_strategy: int
    initial_chunk_size_bytes: int
    max_dead_bytes_per_chunk: int
    initial_growth_chunk_size_bytes: int
    max_power_of_two_extend_bytes: int

    def __init__(self, *arguments: Any) -> None:
        if len(arguments) == 1 and isinstance(arguments[0], dict):
            given: dict[str, Any] = arguments[0]
        elif len(arguments) == 4:
            values = [operator.index(argument) for argument in arguments]
            given = dict(zip(_ARENA_KEYS, values, strict=False))
        else:
            raise TypeError("OrtArenaCfg takes (max_mem, strategy, initial_chunk, max_dead) or a dict.")
        for key, default in _ARENA_KEYS.items():
            setattr(self, key, default)
        for key, value in given.items():
            if key not in _ARENA_KEYS:
                raise UsageError(
                    f"OrtArenaCfg has no key '{key}'.",
                    why=f"known: {', '.join(_ARENA_KEYS)}",
                    fix=did_you_mean(str(key), _ARENA_KEYS) or "Remove it.",
                )
            try:
                setattr(self, key, operator.index(value))
            except TypeError:
                raise UsageError(
                    f"OrtArenaCfg's '{key}' is an integer, not {value!r}.", fix="Pass a number of bytes."
                ) from None

    def __repr__(self) -> str:
        return f"OrtArenaCfg({', '.join(f'{key}={getattr(self, key)}' for key in _ARENA_KEYS)})"


def create_and_register_allocator(mem_info: OrtMemoryInfo, arena_cfg: OrtArenaCfg | None, /) -> None:
    """Do nothing, for compatibility: sessions already share the memory of their providers' allocators.

    Raises:
        UsageError: The memory is not the host's.
        TypeError: An argument has the wrong type.
    """
    _expect(mem_info, OrtMemoryInfo, "mem_info")
    _expect(arena_cfg, OrtArenaCfg | None, "arena_cfg")
    if not mem_info.is_host:
        raise UsageError(
            f"An allocator for memory '{mem_info.name}' cannot be registered here.",
            why="without a provider, only the memory of the host is known",
            fix="Do not register one: the provider brings its own allocator.",
        )


def create_and_register_allocator_v2(
    provider_type: str, mem_info: OrtMemoryInfo, options: Mapping[str, str], arena_cfg: OrtArenaCfg | None, /
) -> None:
    """`create_and_register_allocator` for a provider's memory.

    Args:
        provider_type: Name of the provider.
        mem_info: Its memory.
        options: The provider's options; accepted for compatibility.
        arena_cfg: Parameters for the growth of the arena.

    Raises:
        UsageError: Another provider than the host's.
        TypeError: An argument has the wrong type.
    """
    _expect(provider_type, str, "provider_type")
    _expect(options, Mapping, "options")
    if provider_type != "CPUExecutionProvider":
        raise UsageError(
            f"An allocator for '{provider_type}' cannot be registered here.",
            why="providers bring their own allocators",
            fix="Remove the call.",
        )
    create_and_register_allocator(mem_info, arena_cfg)


def _expect(value: Any, kind: Any, name: str) -> None:
    if not isinstance(value, kind):
        raise TypeError(f"'{name}' is {getattr(kind, '__name__', kind)}, not {type(value).__name__}.")
