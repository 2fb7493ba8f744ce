"""Streams: what is current while one is entered, order between them, whose they are, and what is left when one goes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ort_py.contracts import SessionContext
from ort_py.devices import HOST, Device
from ort_py.errors import EPFail, OptionError
from ort_py_cuda.code import kernel
from ort_py_cuda.opening import open_device
from ort_py_cuda.streams import CudaStream

from .memory_rooms import opened, wishes
from .stand_in.machine import CUDARuntimeError, Machine

CUDA = Device("cuda", 0)


def test_entering_makes_device_stream_and_memory_current(use_machine: Callable[[Machine], Any]) -> None:
    """Kernels know none of the three; leaving brings the former ones back, also when entered twice."""
    machine = Machine(devices=2)
    module = use_machine(machine)
    part = opened(device_id=1)
    stream = part.new_stream()
    with stream, stream:
        assert machine.device == 1
        assert machine.stream.ptr == stream.handle
        made = module.empty((4,), np.float32)
        assert part.pool.used_bytes() >= 16
    assert machine.device == 0
    assert machine.stream is machine.default[0]
    del made
    assert part.pool.used_bytes() == 0


def test_entering_on_a_fresh_thread_binds_the_context(machine: Machine) -> None:
    """CuPy asks CUDA for nothing where the device is current anyway; driver calls need the context all the same."""
    stream = opened().new_stream()
    seen: list[int | None] = []

    def look() -> None:
        seen.append(machine.context)
        with stream:
            seen.append(machine.context)

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert seen == [None, 0]


def test_a_device_that_cannot_be_bound_is_left_again(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = opened().new_stream()

    def lost(_index: int) -> None:
        raise CUDARuntimeError(46, "cudaErrorDevicesUnavailable: in use")

    monkeypatch.setattr(machine, "bind", lost)
    with pytest.raises(EPFail, match="GPU 0 does not answer"), stream:
        pass
    assert machine._stack("device") == []


def test_a_new_stream_says_where_its_code_is_kept(machine: Machine, tmp_path: Path) -> None:
    """In the folder that the session names; faults of an earlier stream of the same handle are gone."""
    part = open_device(wishes(context=SessionContext(cache_folder=str(tmp_path))))
    stream = part.new_stream()
    kept = kernel._caches[stream.handle]
    assert kept is not None
    assert kept.folder == tmp_path / "cuda"
    assert kept is part.code
    off = open_device(wishes(context=SessionContext(caches=False))).new_stream()
    none = kernel._caches[off.handle]
    assert none is not None
    assert none.folder is None


def test_each_frame_has_a_stream_of_its_own(machine: Machine) -> None:
    """Two of one session are two."""
    part = opened()
    assert part.new_stream().handle != part.new_stream().handle


def test_runs_go_on_the_users_stream(use_machine: Callable[[Machine], Any]) -> None:
    """Its handle as text, as onnxruntime passes it; each frame has its own view of it."""
    machine = Machine()
    module = use_machine(machine)
    theirs = module.cuda.Stream(non_blocking=True)
    part = opened(user_compute_stream=hex(theirs.ptr))
    streams = [part.new_stream(), part.new_stream()]
    assert {stream.handle for stream in streams} == {theirs.ptr}
    assert streams[0] is not streams[1]


@pytest.mark.parametrize("value", ["stream", "-1", str(2**64)])
def test_a_stream_that_is_no_address(value: str) -> None:
    """The error names the option and its value."""
    with pytest.raises(OptionError, match=r"user_compute_stream is '.*'.") as caught:
        wishes({"user_compute_stream": value})
    assert "must be an address" in str(caught.value)


def test_a_stream_that_is_announced_and_not_given() -> None:
    """onnxruntime's pair of options, half of it."""
    with pytest.raises(OptionError, match=r"has_user_compute_stream is set, and user_compute_stream is not"):
        wishes({"has_user_compute_stream": True})


def test_a_dropped_stream_ends_its_work_first(machine: Machine) -> None:
    """After a failed run, the locked memory of queued copies is not reused before they are done."""
    part = opened()
    stream = part.new_stream()
    assert isinstance(stream, CudaStream)
    native = stream.native
    made = part.transfer.copy(np.arange(3.0), HOST, CUDA, stream)
    assert native.pending
    del stream
    assert not native.pending
    assert made.raw.tolist() == [0, 1, 2]


def test_an_error_of_the_stream_drops_what_waited_for_it(machine: Machine) -> None:
    """Results that will never come are not waited for any more, and the error is raised."""
    part = opened()
    stream = part.new_stream()
    assert isinstance(stream, CudaStream)
    part.transfer.copy(np.arange(3.0), HOST, CUDA, stream)
    machine.broken[0] = 700
    with pytest.raises(RuntimeError, match="cudaErrorIllegalAddress"):
        stream.synchronize()
    assert len(stream.staging) == 0
    machine.broken.clear()


def test_threads_do_not_see_each_others_streams(machine: Machine) -> None:
    """Eight at once, each on its own, many times over."""
    part = opened()
    wrong: list[str] = []

    def work(seed: int) -> None:
        stream = part.new_stream()
        rng = np.random.default_rng(seed)
        for _ in range(50):
            source = rng.standard_normal(17)
            with stream:
                made = part.transfer.copy(source, HOST, CUDA, stream)
                doubled = made + made
                back = part.transfer.copy(doubled, CUDA, HOST, stream)
            stream.synchronize()
            if not np.array_equal(back, source + source):
                wrong.append(f"thread {seed}")

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
