"""The fake device keeps its word: nothing happens before a wait, and what was dropped is poison."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from ort_py.devices import HOST
from ort_py_kit.fake_device import (
    FakeAllocator,
    FakeArray,
    FakeDevice,
    FakeModule,
    FakeStream,
    FakeTransfer,
    module_of,
)


@pytest.fixture
def device() -> FakeDevice:
    """A device."""
    return FakeDevice()


@pytest.fixture
def stream(device: FakeDevice) -> Iterator[FakeStream]:
    """A current stream."""
    with device.create_stream() as current:
        yield current


@pytest.fixture
def xp(device: FakeDevice) -> FakeModule:
    """The device's array module."""
    return module_of(device)


def fetch(array: FakeArray) -> Any:
    """The content, properly waited for."""
    stream = array.owner.current_stream
    host = FakeTransfer(array.owner).copy(array, array.owner.device, HOST, stream)
    stream.synchronize()
    return host


REFUSED: list[tuple[str, Callable[[FakeArray], Any]]] = [
    ("__array__", np.asarray),
    ("bool()", bool),
    ("int()", int),
    ("float()", float),
    ("iteration", list),
    ("len()", len),
    ("use as an index", lambda array: [1, 2][array]),
]


@pytest.mark.parametrize(("what", "use"), REFUSED)
def test_arrays_do_not_leave_the_device(
    what: str, use: Callable[[FakeArray], Any], stream: FakeStream, xp: FakeModule
) -> None:
    with pytest.raises(TypeError) as caught:
        use(xp.zeros((), np.int64) if what == "use as an index" else xp.zeros((2,)))
    assert what in str(caught.value)


def test_numpy_and_device_arrays_do_not_mix(stream: FakeStream, xp: FakeModule) -> None:
    """Neither side takes the other's arrays."""
    array = xp.zeros((2,))
    calls: list[Callable[[], Any]] = [
        lambda: array + np.ones(2),
        lambda: np.ones(2) + array,
        lambda: np.add(array, 1),
    ]
    for mixed in calls:
        with pytest.raises(TypeError):
            mixed()


def test_arrays_of_two_devices_do_not_mix(stream: FakeStream, xp: FakeModule) -> None:
    """An array of another device is refused by name."""
    other = FakeDevice(1)
    with other.create_stream():
        foreign = module_of(other).zeros((2,))
        with pytest.raises(TypeError, match="fake:1 was mixed with arrays on fake:0"):
            xp.add(xp.zeros((2,)), foreign)


def test_unknown_names_are_refused(xp: FakeModule) -> None:
    """The module has what NumPy and device libraries share, no more."""
    with pytest.raises(AttributeError, match="has no 'save'"):
        _ = xp.save


def test_work_needs_a_current_stream(xp: FakeModule) -> None:
    """A kernel outside of its frame's stream raises."""
    with pytest.raises(RuntimeError, match="No stream of fake:0 is current"):
        xp.zeros((2,))


def test_nothing_happens_before_a_wait(stream: FakeStream, xp: FakeModule) -> None:
    """A copy to the host holds poison until its stream is waited for."""
    total = xp.add(xp.ones((3,), np.float32), 1)
    host = FakeTransfer(stream.owner).copy(total, stream.device, HOST, stream)
    assert np.isnan(host).all()
    stream.synchronize()
    assert host.tolist() == [2, 2, 2]


def test_shapes_and_types_are_known_at_once(stream: FakeStream, xp: FakeModule) -> None:
    """Results have shape and dtype before they have content."""
    a = xp.zeros((2, 3), np.float32)
    product = xp.matmul(a, a.T)
    assert (product.shape, product.dtype, product.ndim, product.size) == ((2, 2), np.float32, 2, 4)
    assert (product.nbytes, product.itemsize, product.strides) == (16, 4, (8, 4))


def test_two_streams_have_no_order_without_an_event(device: FakeDevice) -> None:
    """Waiting for one stream leaves the other's work undone; an event orders them."""
    done: list[str] = []
    first, second = device.create_stream(), device.create_stream()
    first.enqueue(lambda: done.append("first"))
    second.enqueue(lambda: done.append("second"))
    second.synchronize()
    assert done == ["second"]
    second.wait_event(first.record_event())
    second.synchronize()
    assert done == ["second", "first"]


def test_an_event_covers_only_what_was_before_it(device: FakeDevice) -> None:
    """Work enqueued after an event waits on."""
    done: list[int] = []
    stream = device.create_stream()
    stream.enqueue(lambda: done.append(1))
    event = stream.record_event()
    stream.enqueue(lambda: done.append(2))
    event.synchronize()
    assert done == [1]
    assert stream.pending == 1


def test_a_failure_is_raised_at_the_wait(device: FakeDevice) -> None:
    """Work that raises is reported by `synchronize`, once, and later work goes on."""
    done: list[int] = []
    stream = device.create_stream()
    stream.enqueue(lambda: dict[int, None]()[0])
    stream.enqueue(lambda: done.append(1))
    with pytest.raises(KeyError):
        stream.synchronize()
    assert done == [1]
    stream.synchronize()


def test_dropped_memory_is_poisoned_in_stream_order(stream: FakeStream, xp: FakeModule) -> None:
    """Work queued before an array was dropped still sees it; a view of it kept by its bytes alone does not."""
    array = xp.ones((4,), np.float32)
    doubled = xp.add(array, array)
    raw = array.raw
    del array
    assert fetch(doubled).tolist() == [2, 2, 2, 2]
    assert np.isnan(raw).all()


def test_dropped_memory_is_reused_by_the_next_allocation(stream: FakeStream, xp: FakeModule) -> None:
    """The same block serves the next array of its size; results stay right because the stream is in order."""
    first = xp.full((4,), 3, np.float32)
    result = xp.multiply(first, 2)
    block = first.memory.block
    del first
    second = xp.zeros((4,), np.float32)
    assert second.memory.block is block
    assert fetch(result).tolist() == [6, 6, 6, 6]


def test_a_view_keeps_its_memory(stream: FakeStream, xp: FakeModule) -> None:
    """Reshaped, transposed and sliced arrays hold on to what they look at."""
    array = xp.asarray(np.arange(6, dtype=np.float32))
    view = xp.transpose(xp.reshape(array, (2, 3)))[1:, 0]
    del array
    xp.zeros((6,), np.float32)
    assert fetch(view).tolist() == [1, 2]


def test_rearranging_copies_where_the_layout_asks_for_it(stream: FakeStream, xp: FakeModule) -> None:
    """A reshape of a transposed array is work on the stream, as NumPy copies there."""
    array = xp.asarray(np.arange(6, dtype=np.float32).reshape(2, 3))
    flat = xp.reshape(array.T, (6,))
    assert flat.memory is not array.memory
    assert fetch(flat).tolist() == [0, 3, 1, 4, 2, 5]
    assert xp.ascontiguousarray(array) is array
    assert [part.shape for part in xp.split(array, 3, axis=1)] == [(2, 1)] * 3


def test_writing_happens_in_stream_order(stream: FakeStream, xp: FakeModule) -> None:
    """Assignments, in-place functions and `out` are queued like all work."""
    array = xp.zeros((3,), np.float32)
    before = array.copy()
    array[1] = 5
    array[xp.asarray([2])] = 7
    xp.add.at(array, xp.asarray([0]), 1)
    xp.multiply(array, 2, out=array)
    xp.negative(array, array)
    assert fetch(array).tolist() == [-2, -10, -14]
    assert fetch(before).tolist() == [0, 0, 0]


def test_the_waits_that_may_be_written(stream: FakeStream, xp: FakeModule) -> None:
    """`item` and the functions whose shape the content decides wait for the stream."""
    array = xp.asarray(np.array([0, 3, 0, 4]))
    assert array[1].item() == 3
    (places,) = xp.nonzero(array)
    assert fetch(places).tolist() == [1, 3]


def test_the_host_may_change_its_array_after_a_copy(stream: FakeStream, device: FakeDevice) -> None:
    """A copy to the device has read the host when it returns."""
    host = np.ones(3, np.float32)
    array = FakeTransfer(device).copy(host, HOST, device.device, stream)
    host[:] = 9
    assert fetch(array).tolist() == [1, 1, 1]


def test_copies_ask_for_the_right_stream_and_side(stream: FakeStream, device: FakeDevice) -> None:
    """A missing stream, a foreign stream and an array on the wrong side are refused."""
    transfer = FakeTransfer(device)
    with pytest.raises(AssertionError, match="was given no stream"):
        transfer.copy(np.ones(2), HOST, device.device, None)
    with pytest.raises(AssertionError, match="was given a stream of fake:1"):
        transfer.copy(np.ones(2), HOST, device.device, FakeDevice(1).create_stream())
    with pytest.raises(AssertionError, match="ndarray is not on fake:0"):
        transfer.copy(np.ones(2), device.device, HOST, stream)
    with pytest.raises(AssertionError, match="FakeArray is not on the host"):
        transfer.copy(module_of(device).zeros((2,)), HOST, device.device, stream)


def test_strings_stay_on_the_host(stream: FakeStream, device: FakeDevice) -> None:
    with pytest.raises(TypeError, match="holds no arrays of object"):
        FakeTransfer(device).copy(np.array(["a"], object), HOST, device.device, stream)


def test_memory_runs_out() -> None:
    """A capacity counts what is in use; free memory of other sizes is given up first."""
    device = FakeDevice(capacity=1024)
    with device.create_stream():
        allocator = FakeAllocator(device)
        kept = allocator.empty((512,), np.int8)
        for _ in range(3):
            allocator.empty((256,), np.int8)
        allocator.empty((512,), np.int8)
        with pytest.raises(MemoryError, match="fake:0 is full: 512 of 1024 bytes"):
            allocator.empty((1024,), np.int8)
        assert kept.shape == (512,)


def test_one_allocation_may_be_too_large() -> None:
    device = FakeDevice(largest=100)
    with device.create_stream(), pytest.raises(MemoryError, match="cannot give 400 bytes"):
        FakeAllocator(device).empty((100,), np.float32)


def test_figures_follow_use(device: FakeDevice, stream: FakeStream) -> None:
    """Bytes in use fall when an array is dropped, reserved ones when the pool is trimmed."""
    allocator = FakeAllocator(device)
    array = allocator.empty((64,), np.float32)
    assert (allocator.stats().bytes_in_use, allocator.stats().bytes_reserved) == (256, 256)
    del array
    assert (allocator.stats().bytes_in_use, allocator.stats().bytes_reserved) == (0, 256)
    assert allocator.trim() == 256
    assert allocator.stats().bytes_reserved == 0


@pytest.mark.usefixtures("stream")
def test_namespaces_below_the_module(xp: FakeModule) -> None:
    """Fourier transforms and linear algebra are queued like the rest; a matrix without inverse raises nothing."""
    x = xp.asarray(np.array([[2.0, 0.0], [0.0, 4.0]]))
    np.testing.assert_allclose(fetch(xp.fft.rfft(x)), [[2, 2], [4, -4]])
    np.testing.assert_allclose(fetch(xp.linalg.inv(x)), [[0.5, 0], [0, 0.25]])
    np.testing.assert_allclose(fetch(xp.linalg.det(x)), 8)
    assert np.isnan(fetch(xp.linalg.inv(xp.zeros((2, 2))))).all()


@pytest.mark.usefixtures("stream")
def test_taking_places_and_copying_in_an_order(xp: FakeModule) -> None:
    """`take` is a method too; `array` copies in the order that is asked for."""
    x = xp.asarray(np.arange(6.0).reshape(2, 3))
    assert fetch(x.take(xp.asarray(np.array([2, 0])), 1)).tolist() == [[2, 0], [5, 3]]
    assert xp.array(x.T, order="C").flags.c_contiguous
