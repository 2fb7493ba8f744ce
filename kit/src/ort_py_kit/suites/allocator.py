"""A provider's allocator: arrays of the asked shape in one piece, apart from each other, and figures that follow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np
import pytest

from ort_py.contracts import IAllocator, IDataTransfer, IExecutionProvider
from ort_py.devices import HOST, Device
from ort_py_kit.subject import Subject
from ort_py_kit.suites.base import ProviderChecks, fail

_SHAPES: tuple[tuple[int, ...], ...] = ((), (0,), (1,), (7,), (3, 0, 2), (2, 3, 5), (1, 64, 33))
_TYPES = ("float32", "float64", "float16", "int8", "int64", "bool")
_HUGE = 1 << 60
_ALIGNMENT = 64


class DeviceUnderTest:
    """A bare provider's memory, copies and one stream, which is the current one."""

    def __init__(self, provider: IExecutionProvider) -> None:
        self.provider = provider
        self.device: Device = provider.device
        self.allocator: IAllocator | None = provider.allocator()
        self.transfers = tuple(provider.data_transfers())
        self.stream = provider.create_stream()

    def transfer(self, source: Device, target: Device) -> IDataTransfer:
        """The transfer between two devices.

        Raises:
            pytest.fail.Exception: Nothing does.
        """
        found = next((one for one in self.transfers if one.can_copy(source, target)), None)
        if found is None:
            fail(
                f"{self.provider.name} has no data transfer from {source} to {target}.",
                fix="return an IDataTransfer from `data_transfers` that copies both ways between host and device.",
            )
        return found

    def to_device(self, array: Any) -> Any:
        """A host array, on the device."""
        return self.transfer(HOST, self.device).copy(array, HOST, self.device, self.stream)

    def to_host(self, array: Any) -> Any:
        """An array of the device, on the host, finished."""
        result = self.transfer(self.device, HOST).copy(array, self.device, HOST, self.stream)
        self.wait()
        return result

    def wait(self) -> None:
        """Until the stream's work is done."""
        if self.stream is not None:
            self.stream.synchronize()

    def current(self) -> AbstractContextManager[Any]:
        """The stream as the current one of this thread."""
        return self.stream if self.stream is not None else nullcontext()


@contextmanager
def device_of(subject: Subject) -> Iterator[DeviceUnderTest]:
    """The provider's device, closed at the end."""
    provider = subject.create()
    try:
        device = DeviceUnderTest(provider)
        try:
            with device.current():
                yield device
        finally:
            if device.allocator is not None:
                device.allocator.close()
    finally:
        provider.close()


class AllocatorSuite(ProviderChecks):
    """The conformance tests of an allocator; a provider on the host that has none has nothing to show."""

    @pytest.fixture
    def device(self, usable: Subject) -> Iterator[DeviceUnderTest]:
        """The device, with its stream current."""
        with device_of(usable) as device:
            if device.allocator is None:
                if device.device != HOST:
                    fail(
                        f"{usable.name} computes on {device.device} and has no allocator.",
                        fix="return an IAllocator from `allocator`.",
                    )
                pytest.skip(f"{usable.name} uses the host's memory: it has no allocator")
            yield device

    def test_arrays_are_as_asked(self, device: DeviceUnderTest) -> None:
        """Shape and type are the asked ones, for scalars and arrays without elements too."""
        problems = []
        for shape in _SHAPES:
            for dtype in _TYPES:
                array = _allocator(device).empty(shape, np.dtype(dtype))
                if tuple(array.shape) != shape or np.dtype(array.dtype) != np.dtype(dtype):
                    problems.append(f"asked for {dtype}{shape}, it gives {array.dtype}{tuple(array.shape)}")
        if problems:
            fail(f"The allocator of {self.provider} gives other arrays.", problems, fix="correct `empty`.")

    def test_arrays_hold_what_is_written(self, device: DeviceUnderTest) -> None:
        """Arrays cut from a block of bytes, as frames do, are apart from each other: none shows another's numbers."""
        allocator = _allocator(device)
        block = allocator.empty((4 * 256,), np.dtype(np.uint8))
        parts = [block[start : start + 256].view(np.dtype(np.float32)).reshape((8, 8)) for start in range(0, 1024, 256)]
        wholes = [allocator.empty((8, 8), np.dtype(np.float32)) for _ in range(4)]
        written = [np.full((8, 8), number, np.float32) for number in range(8)]
        for array, numbers in zip([*parts, *wholes], written, strict=True):
            array[...] = device.to_device(numbers)
        problems = [
            f"array {number} of {len(written)} holds {np.unique(np.asarray(found))[:4]}"
            for number, (array, numbers) in enumerate(zip([*parts, *wholes], written, strict=True))
            if not np.array_equal(found := device.to_host(array), numbers)
        ]
        if problems:
            fail(
                f"Arrays of {self.provider}'s allocator share memory, or do not keep what is written.",
                problems,
                fix="hand out memory that nothing else uses while the array lives; slices, views and shapes of a block "
                "must refer to it.",
            )

    def test_memory_is_aligned(self, device: DeviceUnderTest) -> None:
        """Arrays begin at multiples of 64 bytes, where the address can be seen."""
        addresses = [
            array.__array_interface__["data"][0]
            for array in (_allocator(device).empty((size,), np.dtype(np.uint8)) for size in (1, 65, 1000))
            if hasattr(array, "__array_interface__")
        ]
        if not addresses:
            pytest.skip(f"arrays of {self.provider} do not show where they are")
        if any(address % _ALIGNMENT for address in addresses):
            fail(
                f"Arrays of {self.provider}'s allocator begin anywhere.",
                fix=f"align them to {_ALIGNMENT} bytes: kernels read them in vectors.",
            )

    def test_too_much_is_a_memory_error(self, device: DeviceUnderTest) -> None:
        """A size that no device has raises MemoryError, which the core answers by trimming and running once more."""
        try:
            _allocator(device).empty((_HUGE,), np.dtype(np.uint8))
        except MemoryError:
            return
        except Exception as error:
            fail(
                f"Asked for 2^60 bytes, the allocator of {self.provider} raises {type(error).__name__}: {error}.",
                fix="raise MemoryError (`raise MemoryError(...) from error`).",
            )
        pytest.skip(f"the device of {self.provider} reserves any size")

    def test_its_figures_follow(self, device: DeviceUnderTest) -> None:
        """Figures are not negative, and trimming gives a number of bytes."""
        allocator = _allocator(device)
        kept = allocator.empty((1 << 20,), np.dtype(np.uint8))
        stats = allocator.stats()
        given = allocator.trim()
        del kept
        problems = []
        if min(stats.bytes_in_use, stats.bytes_reserved) < 0:
            problems.append(f"a figure is negative: {stats}")
        if not isinstance(given, int) or given < 0:
            problems.append(f"trim() returns {given!r}")
        if problems:
            fail(f"Figures of {self.provider}'s allocator are wrong.", problems, fix="correct `stats` and `trim`.")


def _allocator(device: DeviceUnderTest) -> IAllocator:
    assert device.allocator is not None, "the fixture saw it"
    return device.allocator
