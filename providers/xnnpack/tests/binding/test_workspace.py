"""Workspaces: runtimes that share one follow when it grows, and are deleted when nothing computes in it."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from ort_py_xnnpack.binding._xnnpack import ffi
from ort_py_xnnpack.binding.constants import Unary
from ort_py_xnnpack.binding.library import open_library
from ort_py_xnnpack.binding.memory import Array, address, roomy
from ort_py_xnnpack.binding.packing import PackedWeights
from ort_py_xnnpack.binding.pool import Pools
from ort_py_xnnpack.binding.subgraph import Runtime, Subgraph
from ort_py_xnnpack.binding.workspace import Workspace, Workspaces


class _Unpacked:
    """Packed forms of a session that has none."""


def _negated_root(workspace: Workspace, size: int) -> tuple[Runtime, Array, Array]:
    """A runtime of two nodes with a value between them, and the arrays that it reads and writes."""
    library = open_library()
    subgraph = Subgraph(library, 2)
    given, made = subgraph.input(0, (size,)), subgraph.output(1, (size,))
    between = subgraph.value((size,))
    nothing = ffi.new("unary_parameters_t *", (0.0, 0.0))
    subgraph.define("unary", int(Unary.TANH), nothing, given, between, 0)
    subgraph.define("unary", int(Unary.ABS), nothing, between, made, 0)
    runtime = subgraph.runtime(PackedWeights(_Unpacked()), ffi.NULL, workspace)  # type: ignore[arg-type]
    runtime.reshape([(size,)])
    x, y = roomy((size,)), roomy((size,))
    runtime.set_up([int(ffi.cast("uintptr_t", address(one))) for one in (x, y)])
    return runtime, x, y


def _is_right(runtime: Runtime, x: Array, y: Array, seed: int) -> bool:
    x[...] = np.random.default_rng(seed).normal(0, 1, x.size)
    runtime.run()
    return np.allclose(y, np.abs(np.tanh(x)), atol=1e-6)


def test_runtimes_follow_a_workspace_that_grows() -> None:
    """Those that were set up before too, again and again."""
    workspace = Workspace(open_library())
    made = [_negated_root(workspace, 10**power) for power in (1, 2, 4, 6)]
    for number, one in enumerate([*made, *reversed(made)]):
        assert _is_right(*one, number)


def test_the_rest_stays_when_one_is_closed() -> None:
    workspace = Workspace(open_library())
    made = [_negated_root(workspace, size) for size in (1000, 10, 100_000)]
    made.pop(1)[0].close()
    made.append(_negated_root(workspace, 1_000_000))
    assert all(_is_right(*one, 3) for one in made)


def test_a_runtime_goes_when_nothing_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A runtime that is closed while another one computes is deleted before the next change."""
    workspace = Workspace(open_library())
    runtime, *_ = _negated_root(workspace, 10)
    with workspace.lock:
        runtime.close()
        assert workspace._discarded
    with workspace.changing():
        assert not workspace._discarded


def test_each_frame_has_one() -> None:
    """The first frame has that in which regions are compiled."""
    workspaces = Workspaces(open_library())
    compiled = workspaces.first()
    frames: list[dict[object, object]] = [{}, {}]
    found = [workspaces.of(shared) for shared in frames]
    assert found[0] is compiled
    assert found[1] is not compiled
    assert [workspaces.of(shared) for shared in frames] == found


def test_a_forked_child_has_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """No thread is left that would release its parent's."""
    pools = Pools()
    monkeypatch.setattr("ort_py_xnnpack.binding.workspace.pools", pools)
    workspaces, shared = Workspaces(open_library()), dict[object, object]()
    before = workspaces.of(shared)
    before.lock.acquire()
    pools.after_fork()
    assert workspaces.of(shared) is not before
    assert _is_right(*_negated_root(workspaces.of(shared), 10), 5)


def test_threads_take_turns() -> None:
    """Runs of two runtimes, and others that are made and closed beside them."""
    workspace = Workspace(open_library())
    made = [_negated_root(workspace, size) for size in (70_000, 90_000)]
    right: list[bool] = []

    def work(place: int) -> None:
        for seed in range(50):
            right.append(_is_right(*made[place], seed))
            if seed % 10 == 0:
                _negated_root(workspace, 100_000 * (seed + 1))[0].close()

    workers = [threading.Thread(target=work, args=(place,)) for place in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(right) == 100
    assert all(right)
