"""Real providers that fail in a run: their region is made to raise, and NumPy takes over with right results.

What every provider owes is tested with fakes (`core/tests/fallback`); here are the regions, frames and memory of those
that are installed.
"""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

import ort_py
from ort_py.contracts import RegionInstance
from ort_py.errors import ExecutionError
from ort_py.fallback.circuits import Circuits
from ort_py.fallback.policy import SessionState
from ort_py_kit.tolerances import assert_close

CPU = "CPUExecutionProvider"
PROVIDERS = ["DnnlExecutionProvider", "OpenVINOExecutionProvider"]
TEXT = """<ir_version: 10, opset_import: ["" : 21]>
g (float[N, 3, 16, 16] x) => (float[N, 10] y) {
    a = Conv <pads = [1, 1, 1, 1]> (x, first)
    b = Relu (a)
    c = Conv <pads = [1, 1, 1, 1]> (b, second)
    d = Add (c, b)
    pooled = GlobalAveragePool (d)
    flat = Flatten (pooled)
    y = Gemm <transB = 1> (flat, matrix, bias)
}"""
SHAPES = {"first": (16, 3, 3, 3), "second": (16, 16, 3, 3), "matrix": (10, 16), "bias": (10,)}


def content() -> bytes:
    """The network with seeded weights."""
    rng = np.random.default_rng(0)
    model = onnx.parser.parse_model(TEXT)
    for name, shape in SHAPES.items():
        weight = (rng.standard_normal(shape) * 0.2).astype(np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(weight, name))
    return bytes(model.SerializeToString())


def images(count: int, seed: int = 0) -> np.ndarray[Any, Any]:
    """Seeded inputs."""
    return np.random.default_rng(seed).standard_normal((count, 3, 16, 16)).astype(np.float32)


class Regions:
    """A session's compiled regions, whose instances raise to order.

    Attributes:
        calls: Calls so far.
        fails: Whether a call, given its number from 1 on and its inputs' bytes, raises; returns what, or None.
    """

    def __init__(self, session: ort_py.InferenceSession, patch: pytest.MonkeyPatch) -> None:
        self.calls = 0
        self.fails: Callable[[int, int], Exception | None] = lambda number, size: None
        self._lock = threading.Lock()
        assembled = session.engine.assembled
        assert assembled is not None
        for kind in {type(region) for region in assembled.compiled.values()}:
            self._watch(kind, patch)

    def _watch(self, kind: type[Any], patch: pytest.MonkeyPatch) -> None:
        original = kind.instantiate
        patch.setattr(kind, "instantiate", lambda region, frame: _Watched(self, original(region, frame)))

    def before(self, size: int) -> None:
        """Count a call, and raise what is due."""
        with self._lock:
            self.calls += 1
            error = self.fails(self.calls, size)
        if error is not None:
            raise error


class _Watched(RegionInstance):
    def __init__(self, regions: Regions, inner: RegionInstance) -> None:
        self._regions = regions
        self._inner = inner
        self._size = 0

    def bind(self, inputs: Any, outputs: Any) -> None:
        self._size = sum(value.nbytes for value in inputs)
        self._inner.bind(inputs, outputs)

    def __call__(self) -> Any:
        self._regions.before(self._size)
        return self._inner()

    def reserved_bytes(self) -> int:
        return self._inner.reserved_bytes()

    def close(self) -> None:
        self._inner.close()


@pytest.fixture(params=PROVIDERS)
def provider(request: pytest.FixtureRequest) -> str:
    """A real provider that compiles regions."""
    name: str = request.param
    if name not in ort_py.get_available_providers():
        pytest.skip(f"{name} is not usable here: its package or its library is not installed")
    return name


@pytest.fixture(scope="module")
def expected() -> Iterator[Callable[[np.ndarray[Any, Any]], Any]]:
    """The function computed by NumPy."""
    options = ort_py.SessionOptions()
    options.pin_cpu = True
    with ort_py.InferenceSession(content(), options, providers=[CPU]) as session:
        yield lambda x: session.run(None, {"x": x})[0]


@pytest.fixture
def session(provider: str) -> Iterator[ort_py.InferenceSession]:
    """A session of the provider, with NumPy behind it."""
    options = ort_py.SessionOptions()
    options.cost_model = "always"
    options.intra_op_num_threads = 2
    with ort_py.InferenceSession(content(), options, providers=[provider, CPU]) as made:
        yield made


@pytest.fixture
def regions(session: ort_py.InferenceSession, monkeypatch: pytest.MonkeyPatch) -> Regions:
    """Its regions; there is at least one."""
    found = Regions(session, monkeypatch)
    session.run(None, {"x": images(2)})
    assert found.calls >= 1
    return found


Expected = Callable[[np.ndarray[Any, Any]], Any]


def test_a_region_that_fails(
    session: ort_py.InferenceSession, regions: Regions, provider: str, expected: Expected
) -> None:
    """Another provider takes its nodes, and the caller gets the right result."""
    regions.fails = lambda number, size: RuntimeError("the driver has failed")
    for count in (2, 3):
        assert_close(session.run(None, {"x": images(count)})[0], expected(images(count)))
    (record,) = session.fallback_report
    assert (record.kind, record.provider, record.action) == ("run", provider, "left out")
    assert record.reason == "RuntimeError: the driver has failed"
    assert session.state is SessionState.DEGRADED
    assert provider not in session.placement.counts()


def test_it_comes_back(session: ort_py.InferenceSession, regions: Regions, provider: str, expected: Expected) -> None:
    """After the pause the provider compiles its regions again, and runs them."""
    now = [0.0]
    session.engine.recovery.circuits = Circuits(1, 60, lambda: now[0])
    before = session.placement.counts()
    calls = regions.calls
    regions.fails = lambda number, size: RuntimeError("for once") if number == calls + 1 else None
    assert_close(session.run(None, {"x": images(2)})[0], expected(images(2)))
    assert provider not in session.placement.counts()
    now[0] += 61
    assert_close(session.run(None, {"x": images(2)})[0], expected(images(2)))
    assert session.placement.counts()[provider] == before[provider]
    assert session.state is SessionState.READY


def test_short_memory_splits_the_batch(
    session: ort_py.InferenceSession, regions: Regions, provider: str, expected: Expected
) -> None:
    """Parts that fit run where the whole did not; the provider keeps its nodes."""
    limit = 3 * images(1).nbytes + 16 * 16 * 4
    regions.fails = lambda number, size: MemoryError(f"{size} bytes") if size > limit else None
    options = ort_py.RunOptions()
    options.batch_axis = 0
    assert_close(session.run(None, {"x": images(10)}, options)[0], expected(images(10)))
    assert session.placement.counts().get(provider)
    assert [one.action for one in session.fallback_report] == ["memory freed", "batch split"]


def test_eight_threads(session: ort_py.InferenceSession, regions: Regions, provider: str, expected: Expected) -> None:
    """All results are right, whoever met the failure; the session planned once."""
    wanted = [expected(images(2, seed)) for seed in range(8)]
    first = regions.calls + 11
    regions.fails = lambda number, size: RuntimeError("under load") if number >= first else None
    failures: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            for _ in range(5):
                assert_close(session.run(None, {"x": images(2, seed)})[0], wanted[seed])
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive(), "a thread hangs"
    assert failures == []
    (record,) = session.fallback_report
    assert (record.action, record.count) == ("left out", 1)
    assert len(session.engine.retired) == 0


def test_streams_and_awaited_runs(session: ort_py.InferenceSession, regions: Regions, expected: Expected) -> None:
    """Runs in the background recover as others do."""
    first = regions.calls + 3
    regions.fails = lambda number, size: RuntimeError("meanwhile") if number >= first else None
    feeds = [{"x": images(1, seed)} for seed in range(6)]
    for feed, (result,) in zip(feeds, session.run_stream(feeds), strict=True):
        assert_close(result, expected(feed["x"]))

    async def main() -> Any:
        return await asyncio.gather(*[session.run_asyncio(None, feed) for feed in feeds])

    for feed, (result,) in zip(feeds, asyncio.run(main()), strict=True):
        assert_close(result, expected(feed["x"]))
    assert session.state is SessionState.DEGRADED


def test_alone_it_raises(provider: str, monkeypatch: pytest.MonkeyPatch, expected: Expected) -> None:
    """A list without the CPU provider gets the error; the next run works again."""
    options = ort_py.SessionOptions()
    options.cost_model = "always"
    with ort_py.InferenceSession(content(), options, providers=[provider]) as session:
        regions = Regions(session, monkeypatch)
        regions.fails = lambda number, size: RuntimeError("the driver has failed") if number == 1 else None
        with pytest.raises(ExecutionError, match="the driver has failed"):
            session.run(None, {"x": images(2)})
        assert session.state == "failed"
        assert_close(session.run(None, {"x": images(2)})[0], expected(images(2)))
        assert session.state == "ready"


def test_a_stand_in_fails_over_to_numpy(monkeypatch: pytest.MonkeyPatch, expected: Expected) -> None:
    """`CPUExecutionProvider` is a role: when the one who fills it fails, the plain provider is still there."""
    if "DnnlExecutionProvider" not in ort_py.get_available_providers():
        pytest.skip("no stand-in for the CPU's provider is installed")
    with ort_py.InferenceSession(content(), providers=[CPU]) as session:
        regions = Regions(session, monkeypatch)
        regions.fails = lambda number, size: OSError("illegal instruction")
        for _ in range(2):
            assert_close(session.run(None, {"x": images(8)})[0], expected(images(8)))
        if regions.calls:  # it took nodes: whether that pays is the cost model's answer
            (record,) = session.fallback_report
            assert record.provider == "DnnlExecutionProvider"
            assert record.replacement in {CPU, "OpenVINOExecutionProvider"}  # the next stand-in, where there is one
        assert session.get_providers() == [CPU]


def test_strict_raises(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In strict mode the region's failure is the run's."""
    options = ort_py.SessionOptions()
    options.cost_model = "always"
    options.strict = "provider"
    with ort_py.InferenceSession(content(), options, providers=[provider, CPU]) as session:
        regions = Regions(session, monkeypatch)
        regions.fails = lambda number, size: RuntimeError("the driver has failed")
        with pytest.raises(ExecutionError, match="the driver has failed"):
            session.run(None, {"x": images(2)})
        assert (session.state, session.fallback_report) == ("ready", [])


def test_recoveries_keep_no_memory(session: ort_py.InferenceSession, regions: Regions, provider: str) -> None:
    """Left out and tried again, over and over: the packed weights of the programs before are gone."""
    now = [0.0]
    session.engine.recovery.circuits = Circuits(1, 1, lambda: now[0])
    sizes: list[int] = []
    for _ in range(6):
        regions.fails = lambda number, size: RuntimeError("again")
        session.run(None, {"x": images(2)})
        assert provider not in session.placement.counts()
        regions.fails = lambda number, size: None
        now[0] += 100 * math.e
        session.run(None, {"x": images(2)})
        assert provider in session.placement.counts()
        sizes.append(session.memory_report().total)
    assert sizes[-1] <= sizes[1]


def test_a_session_restored_from_the_cache_recovers(
    provider: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expected: Expected
) -> None:
    """The data for planning again come from the cache, or from the model."""
    options = ort_py.SessionOptions()
    options.cost_model = "always"
    options.cache_dir = str(tmp_path / "cache")
    model = tmp_path / "model.onnx"
    model.write_bytes(content())
    for _ in range(2):
        with ort_py.InferenceSession(model, options, providers=[provider, CPU]) as session:
            regions = Regions(session, monkeypatch)
            regions.fails = lambda number, size: RuntimeError("the driver has failed")
            assert_close(session.run(None, {"x": images(2)})[0], expected(images(2)))
            assert [one.action for one in session.fallback_report] == ["left out"]
            monkeypatch.undo()
