"""The memory that transforms may keep beyond what they replace."""

from __future__ import annotations

import pytest

from ort_py.engine.preparation import KernelEvaluator
from ort_py.execution.row_splitter import RowSplitter
from ort_py.kernels.registry import KernelRegistry
from ort_py.kernels.services import KernelServices
from ort_py.limits import Limits

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
