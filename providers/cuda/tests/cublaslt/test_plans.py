"""Plans and the binding: calls of the library, the lifetime of descriptors, and the messages of failures."""

from __future__ import annotations

import ctypes
import gc
import pickle
import threading
from typing import Any

import numpy as np
import pytest

from ort_py.errors import EPFail
from ort_py_cuda import libraries
from ort_py_cuda.cublaslt.binding import (
    CublasLt,
    CublasLtError,
    DescField,
    HeuristicResult,
    LayoutField,
    PreferenceField,
)
from ort_py_cuda.cublaslt.elements import Epilogue, arithmetic_of
from ort_py_cuda.cublaslt.layout import Problem, calls_of
from ort_py_cuda.cublaslt.plans import Operands, Plan, PlanKey, PlanStore, alignment_of

from .fake_library import FakeLt

_FLOAT32: Any = arithmetic_of("float32")


def _problem(m: int = 3, n: int = 5, epilogue: Epilogue = Epilogue.DEFAULT, batch: int = 1) -> Problem:
    shape = (batch, m, 4), (4 * m, 4, 1), (batch, 4, n), (4 * n, n, 1)
    calls = calls_of(*shape, epilogue=epilogue)
    assert calls is not None
    return calls[0].problem


def _key(**options: Any) -> PlanKey:
    return PlanKey(_problem(**options), _FLOAT32, (256, 128, 64, 16))


def _descriptors(library: FakeLt) -> int:
    return sum(thing.kind != "" for thing in library.alive.values())


@pytest.mark.parametrize(("pointer", "alignment"), [(0, 256), (256, 256), (512 + 64, 64), (4, 4), (3, 1)])
def test_alignment(pointer: int, alignment: int) -> None:
    """The power of two that divides an address, 256 at most."""
    assert alignment_of(pointer) == alignment


def test_what_choosing_is_told() -> None:
    """The library's A is our B, so their alignments change places."""
    library = FakeLt()
    Plan(CublasLt(library), 1, _key())
    assert library.alignments == [(128, 256, 64, 64)]


def test_batches_are_told_to_all_layouts() -> None:
    """Count and stride of each matrix."""
    library = FakeLt()
    plan = Plan(CublasLt(library), 1, _key(batch=7))
    layouts = [thing for thing in library.alive.values() if thing.kind == "MatrixLayout"]
    assert [int.from_bytes(one.fields[5], "little") for one in layouts] == [7, 7, 7]
    assert [int.from_bytes(one.fields[6], "little") for one in layouts] == [20, 12, 15]
    assert plan.workspace_size == 0


def test_descriptors_live_as_long_as_a_plan() -> None:
    library = FakeLt()
    plan = Plan(CublasLt(library), 1, _key())
    assert _descriptors(library) == 5
    del plan
    gc.collect()
    assert _descriptors(library) == 0


def test_what_was_made_is_freed_where_the_next_fails() -> None:
    """No algorithm: the error says so, and no descriptor is left."""
    library = FakeLt(algorithms=False)
    with pytest.raises(CublasLtError, match="cublasLtMatmulAlgoGetHeuristic failed") as caught:
        Plan(CublasLt(library), 1, _key())
    assert "CUBLAS_STATUS_NOT_SUPPORTED: as the fake says" in str(caught.value)
    assert "another element type" in str(caught.value)
    del caught
    gc.collect()
    assert _descriptors(library) == 0


def test_the_store_is_bounded_and_drops_the_least_used() -> None:
    """A plan that is used again stays; its descriptors go with the plan that is dropped."""
    library = FakeLt()
    store = PlanStore(CublasLt(library), 1, capacity=2)
    first = store.get(_key(n=1))
    store.get(_key(n=2))
    assert store.get(_key(n=1)) is first
    store.get(_key(n=3))
    assert len(store) == 2
    assert store.get(_key(n=1)) is first
    gc.collect()
    assert _descriptors(library) == 10


def test_a_plan_in_use_outlives_the_store() -> None:
    """Dropped by the store while a thread still runs it."""
    library = FakeLt()
    store = PlanStore(CublasLt(library), 1, capacity=1)
    held = store.get(_key(n=1))
    store.get(_key(n=2))
    gc.collect()
    assert _descriptors(library) == 10
    assert held.workspace_size == 0


def test_threads_share_a_plan_with_their_own_biases() -> None:
    """Address of the bias and product are set and used as one."""
    library = FakeLt()
    plan = Plan(CublasLt(library), 1, _key(m=2, n=3, epilogue=Epilogue.BIAS))
    wrong: list[int] = []

    def work(number: int) -> None:
        a, b = np.ones((2, 4), np.float32), np.ones((4, 3), np.float32)
        bias, y = np.full(3, number, np.float32), np.empty((2, 3), np.float32)
        for _ in range(50):
            plan.run(Operands(a.ctypes.data, b.ctypes.data, y.ctypes.data, y.ctypes.data, bias.ctypes.data), 5, 0)
            if not np.all(y == 4 + number):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize(
    ("status", "says"),
    [
        (1, ("CUBLAS_STATUS_NOT_INITIALIZED", "nvidia-smi")),
        (7, ("CUBLAS_STATUS_INVALID_VALUE", "Report this")),
        (8, ("CUBLAS_STATUS_ARCH_MISMATCH", "newer architecture")),
        (13, ("CUBLAS_STATUS_EXECUTION_FAILED", "CUDA_LAUNCH_BLOCKING")),
        (99, ("status 99", "ort-py doctor")),
    ],
)
def test_failures_say_what_to_do(status: int, says: tuple[str, str]) -> None:
    """The call, the status by name, the library's text, and a fix."""
    library = FakeLt()
    library.failing["cublasLtCreate"] = status
    with pytest.raises(EPFail, match="cublasLtCreate failed") as caught:
        CublasLt(library).create_handle()
    message = str(caught.value)
    assert all(part in message for part in (*says, "as the fake says", "cuBLASLt"))
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == message
    assert again.status == status


def test_short_memory_is_a_memory_error() -> None:
    """The core trims and runs again where it gets one."""
    library = FakeLt()
    library.failing["cublasLtMatmul"] = 3
    plan = Plan(CublasLt(library), 1, _key())
    with pytest.raises(MemoryError, match="CUBLAS_STATUS_ALLOC_FAILED"):
        plan.run(Operands(256, 256, 256, 256), 0, 0)


def test_the_version_is_read() -> None:
    assert CublasLt(FakeLt()).version == "13.10.0"


def test_structures_have_the_library_s_sizes() -> None:
    """The header's: an algorithm is 64 bytes, a result of the heuristic 96."""
    assert ctypes.sizeof(HeuristicResult) == 96
    assert HeuristicResult.workspace_size.offset == 64


@pytest.mark.skipif(libraries.find("cublasLt") is None, reason="needs libcublasLt: pip install ort-py-cuda[cuda13]")
def test_the_real_library_takes_our_descriptors() -> None:
    """Descriptions, layouts and preferences are memory of the host: the library makes them without a device."""
    library = CublasLt(libraries.load("cublasLt"))
    description = library.create_description(_FLOAT32.compute, _FLOAT32.scale)
    layout = library.create_layout(_FLOAT32.operand, 5, 3, 5)
    preference = library.create_preference()
    for field, value in (
        (DescField.TRANSA, 1),
        (DescField.EPILOGUE, Epilogue.GELU_BIAS),
        (DescField.BIAS_POINTER, 1 << 40),
        (DescField.A_SCALE_POINTER, 1 << 40),
    ):
        library.set_description(description, field, value)
    library.set_layout(layout, LayoutField.BATCH_COUNT, 7)
    library.set_layout(layout, LayoutField.STRIDED_BATCH_OFFSET, 15)
    for name in PreferenceField:
        library.set_preference(preference, name, 256)
    with pytest.raises(CublasLtError, match="CUBLAS_STATUS_INVALID_VALUE"):
        library.set_layout(layout, 99, 1)  # type: ignore[arg-type]  # no such field
    library.call("cublasLtMatmulPreferenceDestroy", preference)
    library.call("cublasLtMatrixLayoutDestroy", layout)
    library.call("cublasLtMatmulDescDestroy", description)
    assert int(library.version.split(".")[0]) >= 12
