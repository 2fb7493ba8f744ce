"""Plug-ins that observe sessions are notified of events and cannot harm the sessions."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import ort_py
from core.tests.small_models import RELU, model_bytes, open_model
from ort_py import InvalidArgument
from ort_py.contracts import ProviderFactory
from ort_py.discovery import default_catalog
from ort_py.hooks import CompileEvent, FallbackEvent, RunEvent, SessionEvent, hookimpl
from ort_py_kit.fake_device import FakeBehaviour, FakeFactory

X = np.ones((2, 3), np.float32)


class Observer:
    """Records the events it receives."""

    def __init__(self) -> None:
        gc.collect()  # sessions that earlier tests dropped are closed now, not while we listen
        self.events: list[tuple[str, Any]] = []

    @hookimpl
    def ort_py_session_created(self, event: SessionEvent) -> None:
        """Note it."""
        self.events.append(("created", event))

    @hookimpl
    def ort_py_session_closed(self, event: SessionEvent) -> None:
        """Note it."""
        self.events.append(("closed", event))

    @hookimpl
    def ort_py_run_finished(self, event: RunEvent) -> None:
        """Note it."""
        self.events.append(("run", event))

    @hookimpl
    def ort_py_fallback(self, event: FallbackEvent) -> None:
        """Note it."""
        self.events.append(("fallback", event))

    @hookimpl
    def ort_py_region_compiled(self, event: CompileEvent) -> None:
        """Note it."""
        self.events.append(("compiled", event))


class Raising:
    """An observer that is broken."""

    @hookimpl
    def ort_py_session_created(self) -> None:
        """Raise."""
        raise RuntimeError("an observer that raises")


@pytest.fixture
def observer() -> Iterator[Observer]:
    """An observer, registered for one test."""
    found = Observer()
    default_catalog().hooks.register(found, "observer under test")
    yield found
    default_catalog().hooks.unregister("observer under test")


def test_creation_runs_and_closing_are_told(observer: Observer) -> None:
    """Events come in order and carry the session's number."""
    with open_model(RELU) as session:
        session.run(None, {"x": X})
    assert [kind for kind, _ in observer.events] == ["created", "run", "closed"]
    assert len({event.session_id for _, event in observer.events}) == 1


def test_creation_says_who_runs_what(observer: Observer) -> None:
    """The event of creation has providers, node counts and seconds."""
    open_model(RELU)
    (_, event) = observer.events[0]
    assert event.providers == ("CPUExecutionProvider",)
    assert event.node_counts == {"CPUExecutionProvider": 1}
    assert event.seconds > 0


def test_failed_runs_are_told_with_their_error(observer: Observer) -> None:
    """A run that fails is finished too."""
    session = open_model(RELU)
    with pytest.raises(InvalidArgument):
        session.run(None, {})
    (_, event) = observer.events[-1]
    assert isinstance(event.error, InvalidArgument)


def test_fallbacks_are_told(observer: Observer, register: Callable[[ProviderFactory], None]) -> None:
    """An observer receives the failed provider, the reason and the replacement."""
    register(FakeFactory(behaviour=FakeBehaviour(cost_us=-1e9, fail_runs=[1])))
    session = ort_py.InferenceSession(model_bytes(RELU))
    session.run(None, {"x": X})
    (event,) = [event for kind, event in observer.events if kind == "fallback"]
    assert (event.kind, event.provider, event.replacement) == ("run", "FakeExecutionProvider", "CPUExecutionProvider")
    assert "set to fail in run 1" in event.reason


def test_compiled_regions_are_told(observer: Observer, register: Callable[[ProviderFactory], None]) -> None:
    """An observer receives the region's provider, size and time."""
    register(FakeFactory(behaviour=FakeBehaviour(cost_us=-1e9, compiles=True)))
    ort_py.InferenceSession(model_bytes(RELU))
    (event,) = [event for kind, event in observer.events if kind == "compiled"]
    assert (event.provider, event.nodes, event.from_cache) == ("FakeExecutionProvider", 1, False)
    assert event.seconds >= 0


def test_raising_observer_harms_nobody(caplog: pytest.LogCaptureFixture, observer: Observer) -> None:
    """The exception is logged; the session and other observers continue."""
    default_catalog().hooks.register(Raising(), "raising under test")
    try:
        with caplog.at_level(logging.WARNING, "ort_py"):
            assert open_model(RELU).run(None, {"x": X})
    finally:
        default_catalog().hooks.unregister("raising under test")
    assert "an observer that raises" in caplog.text
    assert observer.events[0][0] == "created"
