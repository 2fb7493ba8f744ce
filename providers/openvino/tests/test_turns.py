"""Requests are made while none of their compiled model runs: OpenVINO itself does not see to that."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import numpy as np
import pytest

from ort_py.contracts import FrameResources, RegionInstance, SessionContext
from ort_py_openvino.options import OPTIONS
from ort_py_openvino.properties import target_of
from ort_py_openvino.region import OpenVINORegion
from ort_py_openvino.runtime import core
from providers.openvino.tests.models import parsed

ENOUGH = 60.0
"""Seconds after which something that must happen has not happened."""


class Watched:
    """A compiled model that notes when a request is made while one runs.

    Args:
        together: Number of runs that wait for one another in the middle.
    """

    def __init__(self, together: int = 1) -> None:
        model = core().read_model(parsed("g (float[3] x) => (float[3] y) { y = Sin(x) }").SerializeToString())
        self._compiled = core().compile_model(model, "CPU")
        self.meeting = threading.Barrier(together)
        self.inside = threading.Event()
        self.go_on = threading.Event()
        self.running = 0
        self.made = self.made_beside_runs = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._compiled, name)

    def create_infer_request(self) -> WatchedRequest:
        self.made += 1
        self.made_beside_runs += self.running
        return WatchedRequest(self, self._compiled.create_infer_request())

    def region(self) -> OpenVINORegion:
        """A region of it."""
        return OpenVINORegion(self, ["x"], 1, target_of({one.name: one.default for one in OPTIONS}, SessionContext()))


class WatchedRequest:
    """A request that stops in the middle of a run until the test lets it go on."""

    def __init__(self, model: Watched, request: Any) -> None:
        self._model = model
        self._request = request

    def __getattr__(self, name: str) -> Any:
        return getattr(self._request, name)

    def infer(self) -> None:
        model = self._model
        model.running += 1
        model.meeting.wait(ENOUGH)
        model.inside.set()
        assert model.go_on.wait(ENOUGH)
        self._request.infer()
        model.running -= 1


def run(instance: RegionInstance) -> None:
    x = np.ones(3, np.float32)
    instance.bind([x], [None])
    np.testing.assert_allclose(instance()[0], np.sin(x), rtol=1e-5)


def test_a_request_is_made_after_the_runs() -> None:
    """A thread that wants one waits for the run of another thread."""
    model = Watched()
    region = model.region()
    first = region.instantiate(FrameResources())
    with ThreadPoolExecutor(2) as pool:
        running = pool.submit(run, first)
        assert model.inside.wait(ENOUGH)
        second = pool.submit(region.instantiate, FrameResources())
        wait([second], timeout=0.5)  # time in which a request would be made that does not wait
        model.go_on.set()
        running.result(ENOUGH)
        run(second.result(ENOUGH))
    assert (model.made, model.made_beside_runs) == (2, 0)


def test_no_run_begins_before_a_request_that_waits() -> None:
    """A model that always runs on some thread still gets more requests."""
    model = Watched()
    region = model.region()
    first, other = (region.instantiate(FrameResources()) for _ in range(2))
    with ThreadPoolExecutor(3) as pool:
        running = pool.submit(run, first)
        assert model.inside.wait(ENOUGH)
        third = pool.submit(region.instantiate, FrameResources())
        wait([third], timeout=0.5)
        later = pool.submit(run, other)
        wait([later], timeout=0.5)
        assert model.running == 1
        model.go_on.set()
        for one in (running, later):
            one.result(ENOUGH)
        run(third.result(ENOUGH))


def test_runs_are_side_by_side() -> None:
    """Those of two requests meet in the middle."""
    model = Watched(together=2)
    region = model.region()
    instances = [region.instantiate(FrameResources()) for _ in range(2)]
    model.go_on.set()
    with ThreadPoolExecutor(2) as pool:
        for one in [pool.submit(run, instance) for instance in instances]:
            one.result(ENOUGH)


def test_a_request_that_cannot_be_made() -> None:
    """Runs go on after it."""
    model = Watched()
    model.go_on.set()
    region = model.region()
    instance = region.instantiate(FrameResources())

    def fails() -> WatchedRequest:
        raise RuntimeError("no memory")

    model.create_infer_request = fails  # type: ignore[method-assign]
    with pytest.raises(RuntimeError, match="no memory"):
        region.instantiate(FrameResources())
    run(instance)
