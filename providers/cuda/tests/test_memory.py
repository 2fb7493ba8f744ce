"""Device memory: limits, pools shared and own, what is given back, the caller's functions, and short memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ort_py
from ort_py.contracts import FailureKind
from ort_py.errors import OptionError
from ort_py_cuda.memory.failures import failure_kind
from ort_py_kit.graphs import model_from_text

from .memory_rooms import opened, wishes
from .stand_in.machine import CUDARuntimeError, Machine, OutOfMemoryError

MIB = 1 << 20


def test_sessions_without_a_limit_share_a_pool(machine: Machine) -> None:
    """Memory that one releases is available to the other; a limit, another allocator or another GPU gives a session its
    own pool.
    """
    first = opened().pool
    assert opened().pool is first
    assert opened(allocator="async").pool is not first
    assert opened(gpu_mem_limit=MIB).pool is not opened(gpu_mem_limit=MIB).pool


def test_the_limit_holds(machine: Machine) -> None:
    """MemoryError, which the core knows how to go on from; within it memory is given."""
    part = opened(gpu_mem_limit=MIB)
    with part.new_stream():
        array = part.allocator.empty((MIB // 8,), np.float32)
        with pytest.raises(MemoryError):
            part.allocator.empty((MIB,), np.float32)
    assert part.allocator.stats().bytes_in_use == MIB // 2
    del array


def test_what_is_free_goes_back_when_trimmed(machine: Machine) -> None:
    """Dropped arrays are kept for reuse, counted as reserved, and given back on demand."""
    part = opened()
    with part.new_stream():
        array = part.allocator.empty((1000,), np.uint8)
        del array
    assert part.allocator.stats().bytes_in_use == 0
    assert part.allocator.stats().bytes_reserved == 1024
    assert part.allocator.trim() == 1024
    assert machine.held == [0]


def test_the_last_session_gives_back_what_is_free(machine: Machine) -> None:
    """Closing one of several leaves the shared pool as it is: the others go on with what is in it."""
    first, second = opened(), opened()
    with first.new_stream():
        array = first.allocator.empty((1000,), np.uint8)
        del array
    first.allocator.close()
    assert machine.held == [1024]
    second.allocator.close()
    assert machine.held == [0]


def test_a_full_device_is_a_memory_error(use_machine: Callable[[Machine], Any]) -> None:
    """CUDA's own error becomes the one that the core recovers from."""
    use_machine(Machine(capacity=MIB))
    part = opened()
    with part.new_stream(), pytest.raises(MemoryError):
        part.allocator.empty((2 * MIB,), np.uint8)


def test_memory_of_the_callers_functions(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """gpu_external_alloc and gpu_external_free are called for each array; nothing is kept."""
    import ctypes

    blocks: dict[int, Any] = {}
    freed: list[int] = []

    def allocate(size: int) -> int:
        block = machine.take(size, 0)
        blocks[block.address] = block
        return block.address

    give = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t)(allocate)
    take = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(freed.append)
    options = {
        "gpu_external_alloc": str(ctypes.cast(give, ctypes.c_void_p).value),
        "gpu_external_free": str(ctypes.cast(take, ctypes.c_void_p).value),
    }
    part = opened(**options)
    with part.new_stream():
        array = part.allocator.empty((16,), np.float32)
        address = array.data.ptr
        del array
    assert list(blocks) == [address]
    assert freed == [address]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"gpu_external_alloc": "1"}, "only one is given"),
        ({"gpu_external_alloc": "1", "gpu_external_free": "2", "gpu_mem_limit": 5}, "together with"),
        ({"gpu_external_alloc": "here"}, "must be an address"),
        ({"gpu_mem_limit": -1}, "gpu_mem_limit is -1"),
        ({"device_id": -1}, "device_id is -1"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, Any], says: str) -> None:
    """Each is an error that names the option."""
    with pytest.raises(OptionError) as caught:
        wishes(options)
    assert says in str(caught.value)


def test_errors_and_what_they_mean() -> None:
    """Short memory, a lost device, an error of the work; of libraries by their words, and through causes."""
    assert failure_kind(OutOfMemoryError()) is FailureKind.OUT_OF_MEMORY
    assert failure_kind(CUDARuntimeError(2)) is FailureKind.OUT_OF_MEMORY
    assert failure_kind(CUDARuntimeError(700)) is FailureKind.DEVICE_LOST
    assert failure_kind(CUDARuntimeError(1)) is FailureKind.FAILED
    assert failure_kind(RuntimeError("CUDNN_STATUS_ALLOC_FAILED in cudnnCreate")) is FailureKind.OUT_OF_MEMORY
    assert failure_kind(RuntimeError("something else")) is None
    wrapped = RuntimeError("a kernel failed")
    wrapped.__cause__ = CUDARuntimeError(719)
    assert failure_kind(wrapped) is FailureKind.DEVICE_LOST


def session(text: str, options: dict[str, Any] | None = None, **arguments: Any) -> ort_py.InferenceSession:
    """A session with the provider in front, in which islands need not pay."""
    settings = ort_py.SessionOptions()
    settings.cost_model = "always"
    settings.pin_cpu = True
    settings.cache_dir = "off"
    providers: list[Any] = [("CUDAExecutionProvider", options or {}), "CPUExecutionProvider"]
    return ort_py.InferenceSession(model_from_text(text).SerializeToString(), settings, providers, **arguments)


ADD = """
<ir_version: 10, opset_import: ["" : 21]>
add (float[n] x, float[n] y) => (float[n] z) { s = Add(x, y)  z = Tanh(s) }
"""


def test_a_run_that_finds_memory_short_frees_some_and_goes_on(use_machine: Callable[[Machine], Any]) -> None:
    """Memory of idle frames and of the pool is released, the run is repeated on the device, and the report records
    it.
    """
    machine = Machine(capacity=MIB)
    use_machine(machine)
    with session(ADD) as made:
        for size in (40_000, 60_000, 50_000, 55_000):
            feed = {name: np.ones(size, np.float32) for name in "xy"}
            assert np.allclose(made.run(None, feed)[0], np.tanh(2.0))
        assert {node.provider for node in made.placement.nodes} == {"CUDAExecutionProvider"}


def test_a_run_that_never_fits_goes_to_the_next_provider(use_machine: Callable[[Machine], Any]) -> None:
    """With an entry in the fallback report that names the cause."""
    use_machine(Machine(capacity=MIB))
    with session(ADD) as made:
        feed = {name: np.ones(MIB, np.float32) for name in "xy"}
        assert np.allclose(made.run(None, feed)[0], np.tanh(2.0))
        assert "Out of memory" in str(made.fallback_report)
        assert {node.provider for node in made.placement.nodes} == {"CPUExecutionProvider"}


def test_a_lost_gpu_is_left_for_the_next_one(use_machine: Callable[[Machine], Any]) -> None:
    """A context that is broken stays so; another GPU's is not, and the session goes on there."""
    machine = Machine(devices=2)
    use_machine(machine)
    with session(ADD) as made:
        feed = {name: np.ones(5, np.float32) for name in "xy"}
        made.run(None, feed)
        machine.broken[0] = 700
        assert np.allclose(made.run(None, feed)[0], np.tanh(2.0))
        assert {node.provider for node in made.placement.nodes} == {"CUDAExecutionProvider"}
        assert machine.held[1] > 0


def test_the_only_gpu_lost_leaves_the_cpu(machine: Machine) -> None:
    """No reset can restore a broken context, and there is no other GPU: the next provider takes over permanently."""
    with session(ADD) as made:
        feed = {name: np.ones(5, np.float32) for name in "xy"}
        made.run(None, feed)
        machine.broken[0] = 700
        assert np.allclose(made.run(None, feed)[0], np.tanh(2.0))
        assert {node.provider for node in made.placement.nodes} == {"CPUExecutionProvider"}
        machine.broken.clear()
