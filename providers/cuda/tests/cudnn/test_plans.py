"""Plans: built once, bounded, on the right stream, with scratch memory that outlives calls; what failures say."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ort_py_cuda.cudnn import graphs, plans
from ort_py_cuda.cudnn.choice import Choice
from ort_py_cuda.cudnn.errors import CudnnError, Unsupported
from ort_py_cuda.cudnn.graphs import Graph, Tensor, WindowOf, channels_first
from ort_py_cuda.cudnn.plans import Plan, Plans
from providers.cuda.tests.cudnn.host_module import to_device
from providers.cuda.tests.cudnn.on_host import Host, cudnn_on_host

_WINDOW = WindowOf((1, 1), (1, 1), (0, 0), (0, 0))


def _graph(dtype: str = "float32", *, tf32: bool = False, size: int = 4) -> Graph:
    def tensor(name: str, dims: tuple[int, ...]) -> Tensor:
        return Tensor(name, dims, channels_first(dims), dtype)

    x, w, y = tensor("x", (1, 2, size, size)), tensor("w", (3, 2, 2, 2)), tensor("y", (1, 3, size - 1, size - 1))
    return graphs.convolution(x, w, y, _WINDOW, tf32=tf32)


class _Arrays:
    def __init__(self, graph: Graph) -> None:
        self.all = [to_device(np.ones(one.dims, one.dtype)) for one in graph.in_memory]

    @property
    def addresses(self) -> list[int]:
        return [one.data.ptr for one in self.all]


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Host:
    """cuDNN on the host."""
    return cudnn_on_host(monkeypatch)


def _plan(host: Host, graph: Graph, choice: Choice | None = None) -> tuple[Plan, _Arrays]:
    arrays = _Arrays(graph)
    return plans.shared_plans().plan(host.xp, graph, 0, arrays.addresses, choice or Choice()), arrays


def test_the_stream_is_set_before_each_run(host: Host) -> None:
    """Each run goes to the stream that is current then, even where the one before went to another."""
    plan, arrays = _plan(host, _graph())
    for stream in (11, 12):
        host.xp.stream = stream
        plan(host.xp, 0, arrays.addresses)
    runs = [place for place, what in enumerate(host.xp.order) if what[0] == "execute"]
    assert [host.xp.order[place][2] for place in runs] == [11, 12]
    for place, stream in zip(runs, (11, 12), strict=True):
        assert ("stream", 0, stream) in host.xp.order[:place]


def test_scratch_memory_lives_until_the_run_is_enqueued(host: Host) -> None:
    """It is allocated with the run's stream current, and dropped only behind the call."""
    plan, arrays = _plan(host, _graph())
    host.xp.order.clear()
    plan(host.xp, 0, arrays.addresses)
    assert [what[0] for what in host.xp.order if what[0] != "stream"] == ["allocated", "execute", "freed"]
    assert host.xp.order[1] == ("allocated", host.frontend.workspace)


def test_a_plan_without_scratch_memory_allocates_none(host: Host) -> None:
    host.frontend.workspace = 0
    plan, arrays = _plan(host, _graph())
    plan(host.xp, 0, arrays.addresses)
    assert not any(what[0] == "allocated" for what in host.xp.order)


def test_equal_graphs_share_a_plan(host: Host) -> None:
    """Two nodes of the same shapes build one; another device, type or way of choosing builds its own."""
    plan, arrays = _plan(host, _graph())
    assert _plan(host, _graph())[0] is plan
    assert host.frontend.builds == 1
    assert _plan(host, _graph("float16"))[0] is not plan
    assert plans.shared_plans().plan(host.xp, _graph(), 1, arrays.addresses) is not plan
    assert _plan(host, _graph(), Choice(deterministic=True))[0] is not plan


def test_the_cache_is_bounded(host: Host) -> None:
    kept = Plans(limit=2)
    for size in (4, 5, 4, 6, 4):
        graph = _graph(size=size)
        kept.plan(host.xp, graph, 0, _Arrays(graph).addresses)
    assert len(kept) == 2
    assert host.frontend.builds == 3
    graph = _graph(size=5)
    kept.plan(host.xp, graph, 0, _Arrays(graph).addresses)
    assert host.frontend.builds == 4


def test_two_threads_build_one_plan(host: Host) -> None:
    """A shape that two threads meet at once is built once."""
    found: list[Plan] = []
    threads = [threading.Thread(target=lambda: found.append(_plan(host, _graph())[0])) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(plan) for plan in found}) == 1
    assert host.frontend.builds == 1


def test_what_has_no_plan_is_remembered(host: Host) -> None:
    """The answer names the operations and the shapes, and the front end is not asked twice."""
    host.frontend.refused = {"conv_fprop"}
    for _ in range(2):
        with pytest.raises(Unsupported, match=r"no plan for conv_fprop[\s\S]*x: float32 \[1, 2, 4, 4\]"):
            _plan(host, _graph())
    assert len(host.frontend.graphs) == 1


@pytest.mark.parametrize(
    ("graph", "barred"),
    [
        (_graph(), ["DOWN_CONVERT_INPUTS", "TENSOR_CORE"]),
        (_graph(tf32=True), ["DOWN_CONVERT_INPUTS"]),
        (_graph("float16"), ["REDUCED_PRECISION_REDUCTION"]),
    ],
)
def test_precision_is_kept(graph: Graph, barred: list[str], host: Host) -> None:
    """float32 keeps away from tensor cores unless TF32 is allowed; halves are summed in float32."""
    _plan(host, graph)
    assert host.frontend.graphs[0].barred == barred


def test_bounds_of_a_session_are_passed_on(host: Host) -> None:
    """Determinism and the most scratch memory."""
    _plan(host, _graph("float16"), Choice(workspace=1 << 20, deterministic=True))
    assert host.frontend.graphs[0].barred == ["REDUCED_PRECISION_REDUCTION", "NONDETERMINISTIC", 1 << 20]


def test_timing_takes_the_fastest(host: Host) -> None:
    """Each candidate runs on the first run's arrays; one that does not build is left out."""
    host.frontend.plans, host.frontend.broken_plans = 4, {0}
    host.xp.times = [5.0] * 3 + [2.0] * 3 + [3.0] * 3
    plan, arrays = _plan(host, _graph(), Choice(timed=True))
    host.xp.order.clear()
    plan(host.xp, 0, arrays.addresses)
    assert host.executed == [2]


def test_the_first_plan_that_builds_is_taken(host: Host) -> None:
    """cuDNN front ends stop at a plan that is barred or does not build; our own walk continues."""
    host.frontend.plans, host.frontend.broken_plans = 4, {0, 1}
    plan, arrays = _plan(host, _graph())
    plan(host.xp, 0, arrays.addresses)
    assert host.executed == [2]
    assert host.frontend.builds == 1


def test_nothing_is_timed_while_a_stream_is_captured(host: Host) -> None:
    """Waiting is forbidden then: the heuristics choose."""
    host.xp.capturing = True
    plan, arrays = _plan(host, _graph(), Choice(timed=True))
    plan(host.xp, 0, arrays.addresses)
    assert host.executed == [0]


def test_where_no_candidate_works_all_reasons_are_told(host: Host) -> None:
    host.frontend.plans, host.frontend.broken_plans = 2, {0, 1}
    with pytest.raises(Unsupported, match=r"plan 0 does not build[\s\S]*plan 1 does not build"):
        _plan(host, _graph(), Choice(timed=True))


def test_a_failed_run_says_what_cudnn_says(host: Host) -> None:
    """The error has the exception's words and those of cuDNN's last error."""
    plan, arrays = _plan(host, _graph())
    host.frontend.fails = True
    with pytest.raises(CudnnError, match=r"the stand-in's kernel failed[\s\S]*in the stand-in's words"):
        plan(host.xp, 0, arrays.addresses)


def test_short_memory_is_a_memory_error(host: Host) -> None:
    """The engine trims its pools and runs once more on that."""
    plan, arrays = _plan(host, _graph())
    host.xp.short_of_memory = True
    with pytest.raises(MemoryError):
        plan(host.xp, 0, arrays.addresses)


def test_a_front_end_that_cannot_begin(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """No handle: the error says what to look at."""

    def refuse() -> Any:
        raise RuntimeError("no device")

    monkeypatch.setattr(host.frontend, "create_handle", refuse)
    with pytest.raises(CudnnError, match=r"cannot be initialised[\s\S]*no device[\s\S]*nvidia-smi"):
        _plan(host, _graph())


def test_scalars_are_read_from_the_host(host: Host) -> None:
    """An epsilon is part of the graph and is given to each run."""
    dims = (1, 2, 3, 3)
    x, y = (Tensor(name, dims, channels_first(dims), "float32") for name in "xy")
    scale, bias = (Tensor(name, (1, 2, 1, 1), (2, 1, 1, 1), "float32") for name in ("scale", "bias"))
    graph = graphs.instance_norm(x, scale, bias, y, 0.25)
    plan, arrays = _plan(host, graph)
    arrays.all[0][...] = np.arange(18).reshape(dims)
    plan(host.xp, 0, arrays.addresses)
    row = np.arange(9.0)
    expected = (row - 4) / np.sqrt(row.var() + 0.25) + 1
    np.testing.assert_allclose(np.asarray(arrays.all[3])[0, 0].reshape(-1), expected, rtol=1e-5)
    assert replace(graph, tf32=True) != graph
