"""A provider's copies: bytes arrive as they were, in arrays of their own, also where several threads copy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ort_py.devices import HOST, Device
from ort_py_kit.subject import Subject
from ort_py_kit.suites.allocator import DeviceUnderTest, device_of
from ort_py_kit.suites.base import Problem, ProviderChecks, fail
from ort_py_kit.suites.threads import on_threads

_SHAPES: tuple[tuple[int, ...], ...] = ((), (0, 3), (1,), (5, 7), (2, 3, 4))
_TYPES = (np.float32, np.float64, np.float16, ml_dtypes.bfloat16, np.int8, np.uint8, np.int32, np.int64, np.bool_)
_ELSEWHERE = Device("nowhere", 0)


class DataTransferSuite(ProviderChecks):
    """The conformance tests of copies between a device and the host; a provider on the host has nothing to show."""

    @pytest.fixture
    def device(self, usable: Subject) -> Iterator[DeviceUnderTest]:
        """The device, with its stream current."""
        with device_of(usable) as device:
            if device.device == HOST and not device.transfers:
                pytest.skip(f"{usable.name} computes on the host: nothing is copied")
            yield device

    def test_it_knows_its_pairs(self, device: DeviceUnderTest) -> None:
        """Both ways between host and device, and no device it has never heard of."""
        device.transfer(HOST, device.device)
        device.transfer(device.device, HOST)
        strange = [(HOST, _ELSEWHERE), (_ELSEWHERE, device.device)]
        wrong = [pair for one in device.transfers for pair in strange if one.can_copy(*pair)]
        if wrong:
            fail(
                f"A data transfer of {self.provider} says that it copies between devices it does not know.",
                [f"{source} to {target}" for source, target in wrong],
                fix="compare both devices in `can_copy`: the core takes the first transfer that says yes.",
            )

    def test_bytes_arrive(self, device: DeviceUnderTest) -> None:
        """To the device and back, numbers of every type and shape are the same, strided ones too."""
        problems = []
        for dtype in _TYPES:
            for shape in _SHAPES:
                array = _numbers(shape, dtype)
                problems += _round_trip(device, array, f"{np.dtype(dtype).name}{shape}")
        problems += _round_trip(device, _numbers((6, 8), np.float32)[::2, ::-1], "a float32 slice")
        problems += _round_trip(device, _numbers((6, 8), np.float32).T, "a transposed float32 array")
        if problems:
            fail(
                f"Copies of {self.provider} change arrays.",
                problems,
                fix="copy C-contiguously, keep shape and type, and order the copy on the stream that is given.",
            )

    def test_copies_are_no_views(self, device: DeviceUnderTest) -> None:
        """Overwriting or dropping the source after the call changes nothing of the copy."""
        array = _numbers((16, 16), np.float32)
        expected = array.copy()
        there = device.to_device(array)
        array[...] = -1
        del array
        back = device.to_host(there)
        again = device.to_host(there)
        problems = []
        if not np.array_equal(back, expected):
            problems.append("overwriting the host's array changed the copy on the device")
        if isinstance(back, np.ndarray) and isinstance(there, np.ndarray) and np.may_share_memory(back, there):
            problems.append("the copy on the host is a view of the device's array")
        if isinstance(back, np.ndarray) and back.flags.writeable:
            back[...] = -2
            if not np.array_equal(again, expected):
                problems.append("two copies on the host share memory")
        del there
        if not np.array_equal(again, expected):
            problems.append("dropping the device's array changed the copy on the host")
        if problems:
            fail(
                f"The copies that {self.provider} makes share memory with the original.",
                problems,
                fix="the caller may overwrite a host array as soon as `copy` returns: take a snapshot, or wait.",
            )

    def test_threads_copy_at_once(self, usable: Subject, device: DeviceUnderTest) -> None:
        """Eight threads, each with a stream of its own, get their own numbers back."""

        def work(number: int) -> None:
            own = DeviceUnderTest.__new__(DeviceUnderTest)
            own.provider, own.device, own.transfers = device.provider, device.device, device.transfers
            own.allocator, own.stream = device.allocator, device.provider.create_stream()
            with own.current():
                for turn in range(20):
                    array = np.full((32, 32), 100 * number + turn, np.float32)
                    if not np.array_equal(own.to_host(own.to_device(array)), array):
                        raise Problem(f"thread {number} got other numbers back in turn {turn}")

        try:
            on_threads(work)
        except Problem as problem:
            fail(
                f"Copies of {usable.name} on several threads mix.",
                [str(problem)],
                fix="keep buffers between the two sides per stream or per call, or lock them.",
            )


def _numbers(shape: tuple[int, ...], dtype: Any) -> Any:
    return np.random.default_rng(len(shape)).integers(0, 2 if dtype is np.bool_ else 99, shape).astype(dtype)


def _round_trip(device: DeviceUnderTest, array: Any, title: str) -> list[str]:
    try:
        back = device.to_host(device.to_device(array))
    except Exception as error:
        return [f"{title}: {type(error).__name__}: {error}"]
    found = []
    if back.shape != array.shape or back.dtype != array.dtype:
        return [f"{title}: comes back as {back.dtype}{back.shape}"]
    if not back.flags.c_contiguous:
        found.append(f"{title}: comes back with strides {back.strides}")
    if back.tobytes() != np.ascontiguousarray(array).tobytes():
        found.append(f"{title}: comes back with other numbers")
    return found
