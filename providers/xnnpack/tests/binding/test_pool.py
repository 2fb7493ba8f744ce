"""Thread pools: one for each number of threads, none for one thread, new ones after a fork."""

from __future__ import annotations

from ort_py_xnnpack.binding._xnnpack import ffi
from ort_py_xnnpack.binding.library import open_library
from ort_py_xnnpack.binding.pool import Pools


def test_one_thread_needs_no_pool() -> None:
    assert Pools().of(open_library(), 1) == ffi.NULL


def test_sessions_share_a_pool() -> None:
    """For the same number of threads."""
    pools, library = Pools(), open_library()
    assert pools.of(library, 2) == pools.of(library, 2)
    assert library.pools is None or pools.of(library, 2) != pools.of(library, 3)


def test_a_forked_child_forgets_them() -> None:
    """Their threads are the parent's; runtimes that were made with them notice by the generation."""
    pools, library = Pools(), open_library()
    before, generation = pools.of(library, 2), pools.generation
    pools.after_fork()
    assert pools.generation == generation + 1
    assert library.pools is None or pools.of(library, 2) != before
