"""Copies: what they read is kept, what they promise is there after the wait, and nothing waits early."""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ort_py.devices import HOST, Device
from ort_py.errors import EPFail
from ort_py_cuda.memory import transfer as room
from ort_py_cuda.streams import CudaStream

from .memory_rooms import opened
from .stand_in.machine import Machine

CUDA = Device("cuda", 0)


def stream_of(part: Any) -> CudaStream:
    stream = part.new_stream()
    assert isinstance(stream, CudaStream)
    return stream


def test_an_upload_waits_for_nothing(machine: Machine) -> None:
    """The call returns with the copy queued; the bytes are there when the stream gets to it."""
    part = opened()
    stream = stream_of(part)
    made = part.transfer.copy(np.arange(4, dtype=np.float32), HOST, CUDA, stream)
    assert np.isnan(made.raw).all(), "memory nobody has written to yet"
    assert not any(what == "synchronize" for what, _, _ in machine.log)
    stream.synchronize()
    assert made.raw.tolist() == [0, 1, 2, 3]


def test_an_upload_takes_what_was_there_when_it_was_asked(machine: Machine) -> None:
    """The caller may write to its array, or drop it, as soon as the call returns."""
    part = opened()
    stream = stream_of(part)
    source = np.arange(4, dtype=np.float32)
    made = part.transfer.copy(source, HOST, CUDA, stream)
    source[:] = -5
    del source
    stream.synchronize()
    assert made.raw.tolist() == [0, 1, 2, 3]


def test_locked_memory_is_kept_until_the_stream_has_passed(machine: Machine) -> None:
    """The block of a copy goes to the next one only when its event is done."""
    part = opened()
    stream = stream_of(part)
    first = part.transfer.copy(np.full(8, 1.0), HOST, CUDA, stream)
    second = part.transfer.copy(np.full(8, 2.0), HOST, CUDA, stream)
    assert len(stream.staging) == 2
    stream.synchronize()
    assert len(stream.staging) == 0
    assert first.raw.tolist() == [1.0] * 8
    assert second.raw.tolist() == [2.0] * 8


def test_a_download_is_there_after_the_wait(machine: Machine) -> None:
    """The array comes at once, in memory of NumPy's own; its bytes come with the wait, also after the source went."""
    part = opened()
    stream = stream_of(part)
    source = part.transfer.copy(np.arange(6, dtype=np.int64).reshape(2, 3), HOST, CUDA, stream)
    made = part.transfer.copy(source, CUDA, HOST, stream)
    del source
    gc.collect()
    stream.synchronize()
    assert made.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert made.flags.owndata
    assert made.flags.c_contiguous


def test_strided_arrays_arrive_contiguous(machine: Machine) -> None:
    part = opened()
    stream = stream_of(part)
    made = part.transfer.copy(np.arange(6.0).reshape(2, 3).T, HOST, CUDA, stream)
    stream.synchronize()
    assert made.flags.c_contiguous
    with stream:
        turned = made.T
        back = part.transfer.copy(turned, CUDA, HOST, stream)
    stream.synchronize()
    assert back.tolist() == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize("shape", [(), (0, 3)], ids=["no axes", "nothing"])
def test_shapes_without_axes_or_elements(machine: Machine, shape: tuple[int, ...]) -> None:
    """A number and an empty array keep their shapes both ways."""
    part = opened()
    stream = stream_of(part)
    made = part.transfer.copy(np.full(shape, 7, np.int32), HOST, CUDA, stream)
    back = part.transfer.copy(made, CUDA, HOST, stream)
    stream.synchronize()
    assert back.shape == shape
    assert (back == 7).all()


def test_large_arrays_go_in_parts_through_two_blocks(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies of any size use at most two parts of locked memory, and the result is complete."""
    monkeypatch.setattr(room, "_PART", 4096)
    monkeypatch.setattr(room, "_WHOLE", 8192)
    part = opened()
    stream = stream_of(part)
    machine.log = deque()
    source = np.arange(10_000, dtype=np.float64)
    made = part.transfer.copy(source, HOST, CUDA, stream)
    back = part.transfer.copy(made, CUDA, HOST, stream)
    stream.synchronize()
    sizes = [size for what, _, size in machine.log if what in {"upload", "download"}]
    assert max(sizes) == 4096
    assert len(sizes) == 40
    assert np.array_equal(back, source)


def test_without_locked_memory_copies_wait(machine: Machine, caplog: pytest.LogCaptureFixture) -> None:
    """Where the system locks nothing, copies are right, slow, and said so once."""
    machine.lockable = False
    part = opened()
    stream = stream_of(part)
    for _ in range(2):
        made = part.transfer.copy(np.arange(3.0), HOST, CUDA, stream)
        assert part.transfer.copy(made, CUDA, HOST, stream).tolist() == [0, 1, 2]
    assert [record.message for record in caplog.records if "cannot be locked" in record.message].__len__() == 1


def test_a_copy_between_gpus_waits_for_the_target(use_machine: Callable[[Machine], Any]) -> None:
    """The target's memory may still be read by the target's stream: the copy goes behind that, and arrives."""
    machine = Machine(devices=2)
    use_machine(machine)
    first, second = opened(), opened(device_id=1)
    here, there = stream_of(first), stream_of(second)
    source = first.transfer.copy(np.arange(5.0), HOST, CUDA, here)
    with there, here:
        made = first.transfer.copy(source, CUDA, Device("cuda", 1), here)
    here.synchronize()
    assert made.data.device_id == 1
    assert made.raw.tolist() == [0, 1, 2, 3, 4]
    order = [what for what, _, _ in machine.log]
    assert order.index("wait") < order.index("peer")


def test_without_a_stream_the_copy_is_done_when_it_returns(machine: Machine) -> None:
    """Neither side has streams, or the stream is another provider's: it has one of its own, and waits."""
    part = opened()
    made = part.transfer.copy(np.arange(3.0), HOST, CUDA, None)
    assert made.raw.tolist() == [0, 1, 2]
    assert part.transfer.copy(made, CUDA, HOST, None).tolist() == [0, 1, 2]


def test_types_that_cupy_lacks_are_refused(machine: Machine) -> None:
    """Texts have no place on a device; the error says so."""
    with pytest.raises(EPFail, match=r"cuda:0 holds no arrays of object"):
        opened().transfer.copy(np.array(["a"], object), HOST, CUDA, None)


def test_pairs_that_it_copies(machine: Machine) -> None:
    """The host and other GPUs, to and from its own; nothing else."""
    transfer = opened().transfer
    other = Device("cuda", 1)
    assert transfer.can_copy(HOST, CUDA)
    assert transfer.can_copy(CUDA, HOST)
    assert transfer.can_copy(CUDA, other)
    assert not transfer.can_copy(CUDA, CUDA)
    assert not transfer.can_copy(HOST, other)
    assert not transfer.can_copy(CUDA, Device("npu", 0))
