"""The memory of planned values: aligned, grown where it must, given up where it is too large."""

from __future__ import annotations

import numpy as np

from ort_py.devices import HOST
from ort_py.execution.arena import Arena
from ort_py.planning.memory_plan import ALIGNMENT, MemoryPlan, PlannedValue
from ort_py.planning.seen_value import SeenValue


def plan_of(*places: tuple[int, int]) -> MemoryPlan:
    """A plan of vectors of float64: (offset, length) of each."""
    values = tuple(
        PlannedValue(slot, HOST, offset, SeenValue((length,), np.dtype(np.float64), length * 8, True), slot, slot)
        for slot, (offset, length) in enumerate(places)
    )
    return MemoryPlan(values, {}, {}, {HOST: max(offset + length * 8 for offset, length in places)})


def test_arrays_lie_where_the_plan_says() -> None:
    """Aligned as the first byte is, in the form of the value; what has one form and one place is one array."""
    arena = Arena({})
    for _ in range(20):  # NumPy's own alignment is a matter of luck
        first, second, again = arena.cut(plan_of((0, 10), (128, 3), (0, 10)))
        assert first.ctypes.data % ALIGNMENT == 0
        assert second.ctypes.data - first.ctypes.data == 128
        assert (first.shape, first.dtype, first.flags.carray) == ((10,), np.dtype(np.float64), True)
        assert again is first
        arena = Arena({})


def test_one_block_serves_all_plans() -> None:
    """A smaller plan is cut from the block that is there, a larger one makes a new block."""
    arena = Arena({})
    small, large = plan_of((0, 100)), plan_of((0, 1000))
    (first,) = arena.cut(small)
    assert arena.cut(small)[0] is first
    (wide,) = arena.cut(large)
    assert arena.sizes == {HOST: 8000}
    assert np.shares_memory(arena.cut(small)[0], wide)
    assert not np.shares_memory(first, wide)


def test_a_plan_of_empty_arrays() -> None:
    """Arrays without elements take no bytes, and are there all the same."""
    (empty,) = Arena({}).cut(plan_of((0, 0)))
    assert empty.shape == (0,)


def test_a_block_nobody_needs_goes() -> None:
    """When the plan that needed it is forgotten, the block shrinks with the next cut."""
    arena = Arena({})
    small, large = plan_of((0, 100)), plan_of((0, 1000))
    arena.cut(large)
    arena.cut(small)
    arena.keep_only({small})
    arena.cut(small)
    assert arena.sizes == {HOST: 800}
    arena.keep_only({small})
    assert arena.sizes == {HOST: 800}


def test_poison_spoils_everything() -> None:
    """A value that is read too late spoils the result."""
    arena = Arena({})
    (array,) = arena.cut(plan_of((0, 5)))
    arena.poison()
    assert np.isnan(array).all()
