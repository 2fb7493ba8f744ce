"""Regions that decline a run: it is answered by the kernels of the region's nodes, whatever the way it was begun."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import onnx.parser
import pytest
from onnx.reference import ReferenceEvaluator

import ort_py
from core.tests.given_provider import GivenFactory
from core.tests.small_models import HEADER, model_bytes
from ort_py.contracts import (
    CompiledRegion,
    FrameResources,
    GraphView,
    NodeSpec,
    ProviderFactory,
    RegionInstance,
    RegionProvider,
    RegionView,
    RunDeclined,
)
from ort_py.discovery import default_catalog
from ort_py.dtypes import numpy_dtype
from ort_py.execution.declined import MOST_PAUSED
from ort_py.hooks import DeclinedEvent, hookimpl

NAME = "ChoosyExecutionProvider"
TAKEN = {"Add", "Identity", "If", "Mul", "Relu"}
WRONG = -77.0
CHAIN = "g (float[N, 3] x) => (float[N, 3] y) <float[3] w = {1, 2, 3}> { a = Mul(x, w) b = Relu(a) y = Add(b, w) }"


class Choosy(RegionProvider):
    """Compiles what it knows; its regions give `WRONG` numbers, so that it is seen who answered, and decline NaN."""

    def __init__(self) -> None:
        self.asked = 0
        self.late = False

    @property
    def name(self) -> str:
        return NAME

    def refusal(self, node: NodeSpec, graph: GraphView) -> str | None:
        return None if node.op_type in TAKEN else "not mine"

    def compile(self, region: RegionView) -> CompiledRegion:
        return _Region(self, [numpy_dtype(value.data_type) for value in region.outputs if value.data_type is not None])


class _Region(CompiledRegion):
    def __init__(self, owner: Choosy, outputs: Sequence[Any]) -> None:
        self.owner = owner
        self.outputs = outputs

    def instantiate(self, frame: FrameResources) -> RegionInstance:
        return _Instance(self)


class _Instance(RegionInstance):
    def __init__(self, region: _Region) -> None:
        self._region = region
        self._inputs: Sequence[Any] = ()
        self._given: Sequence[Any] = ()

    def bind(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        self._region.owner.asked += 1
        self._inputs, self._given = inputs, outputs
        if not self._region.owner.late:
            self._look()

    def __call__(self) -> Sequence[Any]:
        for array in self._given:
            if array is not None:
                array[...] = WRONG  # what a run left behind when it declined
        self._look()
        return [np.full(self._inputs[0].shape, WRONG, dtype) for dtype in self._region.outputs]

    def _look(self) -> None:
        if any(np.isnan(array).any() for array in self._inputs):
            raise RunDeclined("an input is not a number")


@pytest.fixture
def choosy(register: Callable[[ProviderFactory], None]) -> Choosy:
    """The provider of the test's sessions."""
    provider = Choosy()
    register(GivenFactory(provider))
    return provider


def _open(text: str, **options: Any) -> ort_py.InferenceSession:
    settings = ort_py.SessionOptions()
    settings.cache_dir = ""
    for name, value in options.items():
        setattr(settings, name, value)
    return ort_py.InferenceSession(model_bytes(text), settings, providers=[NAME, "CPUExecutionProvider"])


def _feed(rows: int = 4, *, nan: bool = True) -> dict[str, Any]:
    x = np.random.default_rng(rows).standard_normal((rows, 3)).astype(np.float32)
    if nan:
        x[0, 1] = np.nan
    return {"x": x}


def _wanted(text: str, feed: Mapping[str, Any]) -> list[Any]:
    return list(ReferenceEvaluator(onnx.parser.parse_model(HEADER + text)).run(None, dict(feed)))


def _check(session: ort_py.InferenceSession, text: str, feed: Mapping[str, Any]) -> None:
    for found, wanted in zip(session.run(None, dict(feed)), _wanted(text, feed), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-6)


@pytest.mark.parametrize("late", [False, True], ids=["in bind", "in the call"])
def test_a_declined_run_is_answered_by_the_nodes(choosy: Choosy, late: bool) -> None:
    """With the specification's result; the next run goes to the region again, and nothing fell back."""
    choosy.late = late
    with _open(CHAIN) as session:
        assert session.placement.counts() == {NAME: 3}
        _check(session, CHAIN, _feed())
        assert (session.run(None, _feed(nan=False))[0] == WRONG).all()
        _check(session, CHAIN, _feed(5))
        assert not session.fallback_report
        assert "declined 2 run(s)" in session.plan
        assert "an input is not a number" in session.plan


def test_several_in_a_row_pause_the_region(choosy: Choosy) -> None:
    """It is asked ever more seldom, but at least once in `MOST_PAUSED` runs, and comes back with its first answer."""
    with _open(CHAIN) as session:
        for _ in range(400):
            session.run(None, _feed())
        assert choosy.asked < 20
        for _ in range(MOST_PAUSED + 1):
            found = session.run(None, _feed(nan=False))[0]
        assert (found == WRONG).all()
        choosy.asked = 0
        session.run(None, _feed(nan=False))
        session.run(None, _feed(nan=False))
        assert choosy.asked == 2


def test_a_pause_is_for_shapes_that_were_declined(choosy: Choosy) -> None:
    """Inputs of other shapes go to the region, so they give what they gave before."""
    with _open(CHAIN) as session:
        for _ in range(20):
            session.run(None, _feed())
        assert (session.run(None, _feed(5, nan=False))[0] == WRONG).all()


def test_bound_outputs_get_the_result(choosy: Choosy) -> None:
    """The result overwrites anything that the region wrote before it declined."""
    choosy.late = True
    text = "g (float[N] x) => (float[N] y) { a = Mul(x, x) y = Relu(a) }"
    size = 1 << 17
    x = np.random.default_rng(0).standard_normal(size).astype(np.float32)
    target = np.empty(size, np.float32)
    with _open(text) as session:
        for index in range(4):
            x[3] = np.nan if index in {0, 3} else 1
            binding = session.io_binding()
            binding.bind_cpu_input("x", x)
            binding.bind_output("y", "cpu", 0, np.float32, [size], target.ctypes.data)
            session.run_with_iobinding(binding)
        np.testing.assert_array_equal(target, np.maximum(x * x, 0))


def test_results_are_arrays_of_their_own(choosy: Choosy) -> None:
    """Kernels may hand on their inputs; a region's outputs never share memory with them or each other."""
    text = "g (float[N, 3] x) => (float[N, 3] y, float[N, 3] z) { y = Identity(x) z = Identity(y) }"
    feed = _feed()
    with _open(text, graph_optimization_level=ort_py.GraphOptimizationLevel.ORT_DISABLE_ALL) as session:
        y, z = session.run(None, feed)
    assert not np.may_share_memory(y, z)
    assert not np.may_share_memory(y, feed["x"])
    np.testing.assert_array_equal(y, feed["x"])


def test_regions_in_bodies_decline(choosy: Choosy) -> None:
    """A body's frame has its own instance; values of the outer graph reach the stand-in too."""
    text = """g (float[N, 3] x, int64 n) => (float[N, 3] y) {
        t = Constant<value = bool {1}>()
        y = Loop (n, t, x) <body = b (int64 i, bool c, float[N, 3] s) => (bool d, float[N, 3] r) {
            d = Identity(c)
            m = Mul(s, x)
            r = Relu(m)
        }>
    }"""
    feed = _feed() | {"n": np.int64(3)}
    with _open(text) as session:
        _check(session, text, feed)
        _check(session, text, feed)
        assert NAME in session.placement.counts()


def test_threads_decline_side_by_side(choosy: Choosy) -> None:
    """Each run has its frame; what the nodes are run by is made once."""
    feeds = [_feed(rows) for rows in range(2, 10)]
    with _open(CHAIN) as session, ThreadPoolExecutor(4) as pool:
        for feed, found in zip(feeds * 4, pool.map(lambda feed: session.run(None, feed)[0], feeds * 4), strict=True):
            np.testing.assert_allclose(found, _wanted(CHAIN, feed)[0], rtol=1e-6)


def test_the_parallel_executor_answers_too(choosy: Choosy) -> None:
    """Regions also decline where branches of the graph run at the same time."""
    text = """g (float[N, 3] x) => (float[N, 3] y) {
        a = Mul(x, x) b = Sin(a) c = Relu(x) d = Cos(c) e = Sub(b, d) y = Relu(e)
    }"""
    parallel = {"execution_mode": ort_py.ExecutionMode.ORT_PARALLEL, "inter_op_num_threads": 2}
    with _open(text, **parallel) as session:
        for _ in range(3):
            _check(session, text, _feed())


def test_profiled_runs_are_answered(choosy: Choosy, tmp_path: Any) -> None:
    """The loop that notes times runs the same instructions."""
    settings = {"enable_profiling": True, "profile_file_prefix": str(tmp_path / "p")}
    with _open(CHAIN, **settings) as session:
        _check(session, CHAIN, _feed())
        assert session.end_profiling()


def test_without_a_kernel_the_run_fails(choosy: Choosy) -> None:
    """The error names the node without another kernel, and contains the region's reason."""
    text = """g (float[N, 3] x, bool c) => (float[N, 3] y) {
        y = If (c) <
            then_branch = t () => (float[N, 3] p) { p = Relu(x) },
            else_branch = e () => (float[N, 3] q) { q = Neg(x) }>
    }"""
    with _open(text, strict="provider") as session:
        assert session.placement.counts() == {NAME: 1}
        assert (session.run(None, _feed(nan=False) | {"c": np.True_})[0] == WRONG).all()
        with pytest.raises(ort_py.EPFail, match="no other provider computes"):
            session.run(None, _feed() | {"c": np.True_})


class _Observer:
    def __init__(self) -> None:
        self.events: list[DeclinedEvent] = []

    @hookimpl
    def ort_py_run_declined(self, event: DeclinedEvent) -> None:
        self.events.append(event)


@pytest.fixture
def observer() -> Iterator[_Observer]:
    """A plug-in that observes the runs."""
    gc.collect()
    made = _Observer()
    default_catalog().hooks.register(made, "observer of declined runs")
    yield made
    default_catalog().hooks.unregister("observer of declined runs")


def test_observers_are_told(choosy: Choosy, observer: _Observer) -> None:
    """Observers are called for every run that the region left to others, and learn whether it was asked."""
    with _open(CHAIN) as session:
        for _ in range(5):
            session.run(None, _feed())
    assert [event.asked for event in observer.events] == [True, True, True, False, False]
    first = observer.events[0]
    assert (first.provider, first.reason) == (NAME, "an input is not a number")
    assert first.replacement == ("CPUExecutionProvider",)
