"""Plug-ins that observe sessions are told what happened, and cannot harm them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from core.tests.api.small_models import RELU, open_model
from ort_py import InvalidArgument
from ort_py.discovery import default_catalog
from ort_py.hooks import RunEvent, SessionEvent, hookimpl

X = np.ones((2, 3), np.float32)


class Observer:
    """Writes down what it is told."""

    def __init__(self) -> None:
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


def test_raising_observer_harms_nobody(caplog: pytest.LogCaptureFixture, observer: Observer) -> None:
    """What an observer raises is logged; the session and other observers go on."""
    default_catalog().hooks.register(Raising(), "raising under test")
    try:
        with caplog.at_level(logging.WARNING, "ort_py"):
            assert open_model(RELU).run(None, {"x": X})
    finally:
        default_catalog().hooks.unregister("raising under test")
    assert "an observer that raises" in caplog.text
    assert observer.events[0][0] == "created"
