"""The memory that transforms may keep beyond what they replace, and calls that are cut while a model is loaded."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from core.tests.driving import HostProvider
from ort_py.contracts import KernelDef
from ort_py.engine.preparation import KernelEvaluator
from ort_py.execution.row_splitter import RowSplitter
from ort_py.kernels.registry import KernelRegistry
from ort_py.kernels.services import KernelServices
from ort_py.limits import Limits, checking_time
from ort_py_kit.kernel_runner import make_node_spec

_MIB = 1 << 20


@pytest.mark.parametrize(
    ("limits", "room"),
    [
        (Limits(), 256 * _MIB),
        (Limits(initializer_bytes=10 * _MIB), 10 * _MIB),
        (Limits(single_allocation_bytes=5 * _MIB), 5 * _MIB),
        (Limits(total_memory_bytes=140 * _MIB), 10 * _MIB),
        (Limits(total_memory_bytes=50 * _MIB), 0),
    ],
    ids=["default", "constants", "one array", "memory", "none left"],
)
def test_room_for_constants_follows_the_limits(limits: Limits, room: int) -> None:
    """For a model with 100 MiB of constants, the reservation is gone afterwards."""
    services = KernelServices(limits, RowSplitter(1), 0)
    context = KernelEvaluator([], KernelRegistry(), services, held=100 * _MIB)
    assert not context.reserve(room + 1)
    assert context.reserve(room)
    assert not context.reserve(1)


@pytest.mark.parametrize(("seconds", "cut"), [(10.0, True), (None, False)])
def test_folding_looks_at_the_clock(seconds: float | None, cut: bool) -> None:
    """A call on large constants is cut into blocks where loading has a limit."""
    x = np.arange(1 << 20, dtype=np.float32).reshape(1024, 1024)
    shapes: list[tuple[int, ...]] = []

    def root(array: Any) -> Any:
        shapes.append(array.shape)
        return np.sqrt(array)

    provider = HostProvider([KernelDef("Sqrt", lambda _ctx: root, since=13)])
    kernels = KernelRegistry()
    kernels.register(provider.name, provider.kernel_registry(), provider.name)
    evaluator = KernelEvaluator([provider], kernels, KernelServices(Limits(load_seconds=seconds)))
    with checking_time(lambda ahead=0.0: None):
        found = evaluator.evaluate(make_node_spec("Sqrt", [x]), [x])
    assert found is not None
    np.testing.assert_array_equal(found[0], np.sqrt(x))
    assert (len(shapes) > 1) == cut
