"""CuPy as it is installed: it has every name that the stand-in has, in the form that the provider uses it.

What needs a device is not done: without a driver CuPy constructs pools and allocators, and says what is missing.
"""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from ort_py.contracts import FailureKind, SessionContext
from ort_py.errors import EPFail
from ort_py_cuda import modules, opening
from ort_py_cuda.installed import CuPy, find_cupy
from ort_py_cuda.memory.failures import failure_kind, status_of
from ort_py_cuda.options import OPTIONS

from .stand_in.machine import Event, Machine, Stream
from .stand_in.module import Runtime, StandInModule

pytestmark = pytest.mark.skipif(not isinstance(find_cupy(), CuPy), reason="CuPy is not installed")


@pytest.fixture(scope="module")
def cupy() -> Any:
    """The module."""
    return modules.cupy()


def _public(thing: Any) -> list[str]:
    return [name for name in dir(thing) if not name.startswith("_")]


def test_it_has_what_the_stand_in_has(cupy: Any) -> None:
    """A name that only the stand-in had would pass all tests and fail on a device."""
    module = StandInModule(Machine())
    extra = {"machine", "arrays", "pools", "malloc"}  # the stand-in's own
    for name in {*_public(module), *_public(type(module))} - extra:
        assert hasattr(cupy, name), f"cupy.{name}"
    for name in {*_public(module.cuda), *_public(type(module.cuda))} - extra:
        assert hasattr(cupy.cuda, name), f"cupy.cuda.{name}"
    for name in set(_public(Runtime)) - {"CUDARuntimeError"}:
        assert hasattr(cupy.cuda.runtime, name), f"cupy.cuda.runtime.{name}"
    for name in ("ptr", "synchronize", "record", "wait_event", "__enter__", "__exit__", "from_external"):
        assert hasattr(cupy.cuda.Stream.null, name)
        assert name == "from_external" or hasattr(Stream(Machine(), 0, 0), name)
    for name in ("done", "record", "synchronize"):
        assert hasattr(cupy.cuda.Event, name)
        assert hasattr(Event(), name)
    for name in ("malloc", "set_limit", "used_bytes", "total_bytes", "free_all_blocks"):
        assert hasattr(cupy.cuda.MemoryPool, name)
        assert hasattr(cupy.cuda.MemoryAsyncPool, name)
    assert hasattr(cupy.cuda.MemoryAsyncPool, "memoryAsyncHasStat")
    for name in ("compute_capability", "attributes", "synchronize", "use"):
        assert hasattr(cupy.cuda.Device, name)


def test_pools_are_made_without_a_device(cupy: Any) -> None:
    """Constructing asks CUDA nothing; an allocator of functions takes two."""
    assert callable(cupy.cuda.MemoryPool().malloc)
    assert callable(cupy.cuda.PinnedMemoryPool().free_all_blocks)
    assert callable(cupy.cuda.PythonFunctionAllocator(lambda size, device: 0, lambda address, device: None).malloc)


def test_memory_of_others_can_be_wrapped(cupy: Any) -> None:
    """The parameters that an address is given by."""
    memory = cupy.cuda.UnownedMemory(4096, 64, None, 0)
    pointer = cupy.cuda.MemoryPointer(memory, 16)
    assert pointer.ptr == 4112
    assert pointer.device_id == 0


def test_allocators_are_current_for_a_while(cupy: Any) -> None:
    """A context manager over CuPy's form of an allocator, as streams use it."""
    pool = cupy.cuda.MemoryPool()
    before = cupy.cuda.get_allocator()
    with cupy.cuda.using_allocator(pool.malloc):
        assert cupy.cuda.get_allocator() == pool.malloc
    assert cupy.cuda.get_allocator() == before


def test_its_errors_are_understood(cupy: Any) -> None:
    """By their numbers; short memory is MemoryError's."""
    runtime = cupy.cuda.runtime.CUDARuntimeError
    assert status_of(runtime(700)) == 700
    assert failure_kind(runtime(2)) is FailureKind.OUT_OF_MEMORY
    assert failure_kind(runtime(719)) is FailureKind.DEVICE_LOST
    assert issubclass(cupy.cuda.memory.OutOfMemoryError, MemoryError)


def test_bfloat16_has_loops(cupy: Any) -> None:
    """`held_types` relies on arithmetic, comparison and casts of `ml_dtypes`' type."""
    import ml_dtypes
    import numpy as np

    wanted = np.dtype(ml_dtypes.bfloat16)
    for name in ("add", "multiply", "divide", "exp", "tanh", "maximum", "less", "sqrt", "isnan", "power"):
        loops = [loop for loop in getattr(cupy, name)._ops.ops if wanted in loop.in_types]
        assert loops, f"cupy.{name} has no loop for bfloat16"


def test_asarray_takes_an_order(cupy: Any) -> None:
    assert "order" in inspect.signature(cupy.asarray).parameters


def test_without_a_driver_the_error_says_so(cupy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session that asks for the provider past its probe: CUDA's words and the probe's fix."""
    from ort_py_cuda.provider import CUDAProvider

    monkeypatch.setattr(opening, "_started_by", None)
    if cupy.cuda.is_available():
        pytest.skip("this machine has a GPU")
    values = {spec.name: spec.default for spec in OPTIONS}
    with pytest.raises(EPFail, match=r"CUDA does not start") as caught:
        CUDAProvider("CUDAExecutionProvider", values, SessionContext())
    assert "driver" in caught.value.fix
