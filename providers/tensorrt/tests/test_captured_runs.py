"""Captured runs of TensorRT's engines, on streams that can be captured: the stand-in's engines, without the library.

A captured run of the stand-in repeats the very addresses and shapes that were enqueued, so that memory which was given
away, or a context whose shapes were changed, shows as wrong numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from ort_py.contracts import FrameResources
from ort_py_cuda.capture import Capturing
from ort_py_tensorrt.execution import ContextSettings, load_engine
from ort_py_tensorrt.region import Border, EngineRegion
from ort_py_tensorrt.toolkit import Toolkit
from ort_py_tensorrt.variants import TENSORRT
from providers.cuda.tests.capture.capturing import CapturingModule, CapturingStream
from providers.cuda.tests.stand_in.machine import Machine
from providers.tensorrt.tests.asking import request_of
from providers.tensorrt.tests.stand_in import StandInLibrary

TEXT = "g (float[N, 4] x) => (float[N, 4] y, float[N, 4] z) { y = Neg(x) z = Abs(x) }"
PLAN = b"an engine"


class _Gpu:
    """A machine, its module, the library and a stream."""

    def __init__(self, use_machine: Any) -> None:
        self.machine = Machine()
        self.xp = use_machine(self.machine, CapturingModule)
        self.library = StandInLibrary(self.machine)
        self.library.know(PLAN, request_of(TEXT))
        self.stream = self.xp.stream()

    def region(self) -> EngineRegion:
        toolkit = Toolkit(TENSORRT, self.library)
        capturing = Capturing("an engine", self.xp, lambda graph: None, signatures=1)
        made = EngineRegion(
            Border(("x",), ("y", "z")),
            lambda plan, weights: load_engine(toolkit, plan, ContextSettings(self.xp.empty), weights),
            None,
            0,
            {},
            capturing,
        )
        made.adopt(PLAN, None)
        return made

    def run(self, instance: Any, x: Any, stream: CapturingStream | None = None) -> list[Any]:
        with stream or self.stream:
            instance.bind([self.xp.asarray(x)], [None, None])
            return list(instance())

    def numbers(self, arrays: list[Any], stream: CapturingStream | None = None) -> list[Any]:
        with stream or self.stream:
            return [one.get() for one in arrays]

    @property
    def launches(self) -> int:
        return sum(graph.launches for graph in getattr(self.stream, "graphs", []))


@pytest.fixture
def gpu(use_machine: Any) -> _Gpu:
    return _Gpu(use_machine)


@pytest.fixture
def region(gpu: _Gpu) -> Iterator[EngineRegion]:
    made = gpu.region()
    yield made
    made.close()


class _Stream:
    """A frame's stream, as the engine of ort-py lends it."""

    def __init__(self, stream: CapturingStream) -> None:
        self.handle = stream.ptr
        self.synchronize = stream.synchronize


def _instance(region: EngineRegion, stream: CapturingStream) -> Any:
    return region.instantiate(FrameResources(stream=_Stream(stream)))  # type: ignore[arg-type]


def _x(seed: int, rows: int = 3) -> Any:
    return np.random.default_rng(seed).normal(0, 1, (rows, 4)).astype(np.float32)


def _check(found: list[Any], x: Any) -> None:
    np.testing.assert_array_equal(found[0], -x)
    np.testing.assert_array_equal(found[1], np.abs(x))


def test_runs_of_one_shape_are_replayed(gpu: _Gpu, region: EngineRegion) -> None:
    """The first is an ordinary one, the second is recorded; results belong to the caller."""
    instance = _instance(region, gpu.stream)
    held = [gpu.run(instance, _x(seed)) for seed in range(6)]
    for seed, found in enumerate(held):
        _check(gpu.numbers(found), _x(seed))
    assert gpu.launches == 5
    assert not region.remarks()
    instance.close()


def test_other_shapes_run_as_usual_and_leave_the_recording_alone(gpu: _Gpu, region: EngineRegion) -> None:
    """They have a context of their own: the recorded one keeps its shapes."""
    instance = _instance(region, gpu.stream)
    for seed in range(9):
        rows = 5 if seed % 3 == 2 else 3
        _check(gpu.numbers(gpu.run(instance, _x(seed, rows))), _x(seed, rows))
    assert gpu.launches == 5
    assert "more than 1 shape signatures" in region.remarks()[0]
    instance.close()


def test_outputs_whose_shapes_a_run_decides_are_not_captured(gpu: _Gpu, region: EngineRegion) -> None:
    gpu.library.hides_shapes = True
    instance = _instance(region, gpu.stream)
    for seed in range(4):
        _check(gpu.numbers(gpu.run(instance, _x(seed))), _x(seed))
    assert gpu.launches == 0
    assert "decide the shape of y, z cannot be repeated" in region.remarks()[0]
    instance.close()


def test_contexts_go_back_when_the_frame_ends(gpu: _Gpu, region: EngineRegion) -> None:
    """And lend themselves to another frame, which records again."""
    for _ in range(2):
        instance = _instance(region, gpu.stream)
        for seed in range(3):
            _check(gpu.numbers(gpu.run(instance, _x(seed))), _x(seed))
        assert instance.reserved_bytes() > 0
        instance.close()
        assert instance.reserved_bytes() == 0
    assert len(gpu.stream.graphs) == 2


def test_a_run_that_fails_gives_its_contexts_up(gpu: _Gpu, region: EngineRegion) -> None:
    """The next run begins anew, with contexts that work."""
    instance = _instance(region, gpu.stream)
    gpu.run(instance, _x(0))
    gpu.library.refuses = "execute_async_v3"
    with pytest.raises(Exception, match="was refused"):
        gpu.run(instance, _x(1))
    gpu.library.refuses = ""
    _check(gpu.numbers(gpu.run(instance, _x(2))), _x(2))
    instance.close()
