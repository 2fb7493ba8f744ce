"""Thread pools: one for each number of threads, none for one thread, new ones after a fork."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ort_py_kit.tolerances import assert_close
from ort_py_xnnpack.binding._xnnpack import ffi
from ort_py_xnnpack.binding.library import open_library
from ort_py_xnnpack.binding.pool import Pools
from providers.xnnpack.tests.cases import CASES
from providers.xnnpack.tests.models import run_here


def test_one_thread_needs_no_pool() -> None:
    assert Pools().of(open_library(), 1) == ffi.NULL


def test_sessions_share_a_pool() -> None:
    """For the same number of threads."""
    pools, library = Pools(), open_library()
    assert pools.of(library, 2) == pools.of(library, 2)
    assert not library.makes_pools or pools.of(library, 2) != pools.of(library, 3)


def test_a_forked_child_forgets_them() -> None:
    """Their threads are the parent's; runtimes that were made with them notice by the generation."""
    pools, library = Pools(), open_library()
    before, generation = pools.of(library, 2), pools.generation
    pools.after_fork()
    assert pools.generation == generation + 1
    assert not library.makes_pools or pools.of(library, 2) != before


def test_a_library_that_makes_no_pools_has_one() -> None:
    """On macOS, for one: it has the threads of the first session that wants several; who may have fewer gets none."""
    pools, library = Pools(), replace(open_library(), makes_pools=False)
    assert pools.of(library, 1) == ffi.NULL
    three = pools.of(library, 3)
    count = open_library().pools.pthreadpool_get_threads_count
    assert count(three) == 3
    assert pools.of(library, 4) == three
    assert pools.of(library, 2) == ffi.NULL
    assert count(three) == 3


def test_runs_of_the_one_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    """The numbers are those of one thread."""
    one = replace(open_library(), makes_pools=False)
    monkeypatch.setattr("ort_py_xnnpack.binding.library._found", one)
    monkeypatch.setattr("ort_py_xnnpack.execution.region.pools", Pools())
    case = CASES[next(name for name in CASES if "Conv" in name)]
    data, feeds = case.model(), case.feeds()
    assert_close(run_here(data, feeds, threads=3), run_here(data, feeds))
