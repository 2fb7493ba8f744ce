"""Regions that a provider is still making: others answer until they are ready, and then the provider does."""

from __future__ import annotations

import gc
import pickle
import threading
import weakref
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest

import ort_py
from core.tests.driving import floats, model_of
from core.tests.engine.recovery.faulty_sessions import HOST, HostFactory
from core.tests.given_provider import GivenFactory
from ort_py.contracts import (
    CompiledRegion,
    FrameResources,
    GraphView,
    NodeSpec,
    RegionInstance,
    RegionNotReady,
    RegionProvider,
    RegionView,
)
from ort_py.discovery import default_catalog
from ort_py.errors import EPFail, PluginError
from ort_py.fallback.awaited import AwaitedRegions, Settled

NAME = "SlowlyMadeExecutionProvider"
WRONG = -77.0
TWO_REGIONS = "g (float[N, 3] x) => (float[N, 3] y) { a = Neg(x) b = Abs(a) y = Neg(b) }"
X = floats(4, 3)


class SlowlyMade(RegionProvider):
    """Compiles `Neg` when the test says so. Its regions give `WRONG` numbers, so that it is seen who answered.

    Attributes:
        made: Whether regions can be had.
        gives_up: Whether they will never be.
        asked: Number of regions that were wanted.
        known: Numbers of rows that regions can run; None for all.
        lies: Whether it says that regions for all rows are ready although they are not.
        fails: Whether regions fail when they run.
    """

    def __init__(self) -> None:
        self.made = False
        self.gives_up = False
        self.asked = 0
        self.known: set[int] | None = None
        self.lies = False
        self.fails = False

    @property
    def name(self) -> str:
        return NAME

    def refusal(self, node: NodeSpec, graph: GraphView) -> str | None:
        return None if node.op_type == "Neg" else "not mine"

    def ready(self) -> bool:
        if self.gives_up:
            raise EPFail("There is no such kernel.")
        return self.made

    def ready_for_all(self) -> bool:
        return self.known is None or self.lies

    def compile(self, region: RegionView) -> CompiledRegion:
        self.asked += 1
        if not self.made:
            raise RegionNotReady("A region is being made.", ready=self.ready)
        return _Region(self)


class _Region(CompiledRegion):
    def __init__(self, owner: SlowlyMade) -> None:
        self._owner = owner

    def instantiate(self, frame: FrameResources) -> RegionInstance:
        return _Instance(self._owner)


class _Instance(RegionInstance):
    def __init__(self, owner: SlowlyMade) -> None:
        self._owner = owner
        self._inputs: Sequence[Any] = ()

    def bind(self, inputs: Sequence[Any], outputs: Sequence[Any | None]) -> None:
        self._inputs = inputs

    def __call__(self) -> Sequence[Any]:
        owner = self._owner
        if owner.fails:
            raise EPFail("It broke.")
        if owner.known is not None and len(self._inputs[0]) not in owner.known:
            raise RegionNotReady("A region for other shapes is being made.", ready=owner.ready_for_all)
        return [np.full_like(one, WRONG) for one in self._inputs]


@pytest.fixture
def provider() -> Iterator[SlowlyMade]:
    """The provider; another one on the host can take over."""
    catalog = default_catalog()
    catalog.reset()
    made = SlowlyMade()
    catalog.register_provider(GivenFactory(made))
    catalog.register_provider(HostFactory())
    yield made
    catalog.reset()


def _open(others: tuple[str, ...] = (HOST,), *, strict: str | None = None) -> ort_py.InferenceSession:
    options = ort_py.SessionOptions()
    options.cost_model = "always"
    options.strict = strict
    return ort_py.InferenceSession(model_of(TWO_REGIONS).SerializeToString(), options, [NAME, *others])


def _who(session: ort_py.InferenceSession, x: Any = X) -> str:
    (y,) = session.run(None, {"x": x})
    if np.all(y == WRONG):
        return NAME
    np.testing.assert_array_equal(y, -np.abs(x))
    return HOST


def test_another_provider_answers_until_the_regions_are_ready(provider: SlowlyMade) -> None:
    """Then the session is as if they had been ready at first, on the path without any looks."""
    with _open() as session:
        assert provider.asked == 2, "each of the regions was begun"
        assert [_who(session) for _ in range(3)] == [HOST] * 3
        assert session.state == "degraded"
        provider.made = True
        assert [_who(session) for _ in range(3)] == [NAME] * 3
        assert session.state == "ready"
        assert session.placement.counts() == {NAME: 2, HOST: 1}
        assert not session.engine.observed
        assert [one.action for one in session.fallback_report] == ["left out", "left out", "tried again"]


def test_shapes_for_which_a_region_is_being_made_are_answered_elsewhere(provider: SlowlyMade) -> None:
    """The run that finds it out loses nothing."""
    provider.made = True
    with _open() as session:
        assert _who(session) == NAME
        provider.made, provider.known = False, {4}
        wide = floats(5, 3)
        assert _who(session, wide) == HOST
        assert _who(session) == HOST, "the former region is gone"
        provider.made, provider.known = True, None
        assert _who(session, wide) == NAME


def test_a_region_that_is_not_ready_is_no_failure(provider: SlowlyMade) -> None:
    """No breaker counts it."""
    provider.made, provider.known = True, {4}
    with _open() as session:
        provider.made = False
        assert _who(session, floats(5, 3)) == HOST
        assert not session.fallback_report.circuits


def test_a_region_that_will_never_be_ready_leaves_the_session_as_it_is(provider: SlowlyMade) -> None:
    """With its reason in the report, and without any further looks."""
    with _open() as session:
        provider.gives_up = True
        assert _who(session) == HOST
        assert "There is no such kernel" in str(session.fallback_report)
        assert not session.engine.observed
        provider.gives_up, provider.made = False, True
        assert _who(session) == HOST


def test_a_region_that_is_made_again_is_awaited_again(provider: SlowlyMade) -> None:
    """The provider said that it is ready, and is not."""
    with _open() as session:
        provider.made = True
        ready, provider.compile = provider.compile, _not_yet(provider)  # type: ignore[method-assign]
        assert _who(session) == HOST
        provider.compile = ready  # type: ignore[method-assign]
        assert _who(session) == NAME
        assert session.state == "ready"


def _not_yet(provider: SlowlyMade) -> Any:
    def compile_region(region: RegionView) -> CompiledRegion:
        raise RegionNotReady("Once more.", ready=provider.ready)

    return compile_region


def test_a_region_that_fails_in_its_first_run_costs_no_result(provider: SlowlyMade) -> None:
    with _open() as session:
        provider.made = provider.fails = True
        assert _who(session) == HOST
        assert session.fallback_report.circuits[0].state == "open"


def test_shapes_that_the_ready_region_does_not_know_either(provider: SlowlyMade) -> None:
    """The program of the others comes back, and waits for the next region."""
    wide = floats(5, 3)
    with _open() as session:
        provider.made, provider.known = True, {4}
        assert _who(session, wide) == HOST
        assert not session.fallback_report.circuits
        provider.known = None
        assert _who(session, wide) == NAME


def test_a_provider_that_says_ready_and_is_not_has_failed(provider: SlowlyMade) -> None:
    """The run ends, with a result."""
    wide = floats(5, 3)
    provider.made = True
    with _open() as session:
        provider.known, provider.lies = {4}, True
        assert _who(session, wide) == HOST
        assert session.fallback_report.circuits[0].state == "open"


def test_a_session_that_may_not_fall_back_says_what_is_not_ready(provider: SlowlyMade) -> None:
    with pytest.raises(PluginError, match="A region is being made"):
        _open(strict="provider")


def test_a_session_without_other_providers_says_what_is_not_ready(provider: SlowlyMade) -> None:
    """In a run, where none can take over either."""
    provider.made, provider.known = True, {4}
    text = "g (float[N, 3] x) => (float[N, 3] y) { y = Neg(x) }"
    with ort_py.InferenceSession(model_of(text).SerializeToString(), None, [NAME]) as session:
        with pytest.raises(RegionNotReady, match="for other shapes"):
            session.run(None, {"x": floats(5, 3)})
        provider.known = None
        assert np.all(session.run(None, {"x": X})[0] == WRONG)


def test_one_of_several_threads_takes_the_regions_in(provider: SlowlyMade) -> None:
    with _open() as session:
        provider.made = True
        asked = provider.asked
        barrier = threading.Barrier(4)
        found: list[str] = []

        def work() -> None:
            barrier.wait()
            found.extend(_who(session) for _ in range(20))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(found) == 80
        assert _who(session) == NAME
        assert provider.asked == asked + 2, "two regions were compiled, once"


def test_a_provider_is_settled_when_all_its_regions_are() -> None:
    awaited = AwaitedRegions()
    done = [True, False]
    for number in range(2):
        awaited.add(NAME, RegionNotReady("Not yet.", ready=partial(done.__getitem__, number)))
    assert awaited.settled() is None
    done[1] = True
    assert awaited.settled() == Settled(NAME)
    assert awaited.settled() == Settled(NAME), "until it is forgotten"
    awaited.forget(NAME)
    assert not awaited


def test_the_answer_can_be_sent_to_another_process() -> None:
    """As all errors can; nobody can be asked there whether it is ready."""
    again = pickle.loads(pickle.dumps(RegionNotReady("Not yet.", why="because", fix="wait")))
    assert (again.what, again.why, again.fix, again.ready()) == ("Not yet.", ("because",), "wait", False)


def test_a_provider_that_only_says_ready_is_not_planned_with_for_ever(provider: SlowlyMade) -> None:
    """The report has the reason, and no sentence that it was tried again."""
    with _open() as session:
        provider.compile = _at_once  # type: ignore[method-assign]
        provider.made = True
        for _ in range(12):
            assert _who(session) == HOST
        assert not session.engine.observed
        report = session.fallback_report
        assert "its regions are ready, and they were not" in str(report)
        assert "tried again" not in [one.action for one in report]
        assert session.state == "degraded"


def _at_once(region: RegionView) -> CompiledRegion:
    raise RegionNotReady("Just a moment.", ready=lambda: True)


def test_a_region_that_is_ready_and_does_not_compile_is_reported(provider: SlowlyMade) -> None:
    """The provider was not tried in a run, and stays left out."""
    with _open() as session:
        provider.made = True
        provider.compile = _broken  # type: ignore[method-assign]
        assert [_who(session) for _ in range(3)] == [HOST] * 3
        assert "There is no such kernel" in str(session.fallback_report)
        assert "tried again" not in [one.action for one in session.fallback_report]
        assert session.state == "degraded"
        assert not session.engine.observed


def _broken(region: RegionView) -> CompiledRegion:
    raise EPFail("There is no such kernel.")


def test_a_provider_that_is_tried_again_and_is_not_ready_is_awaited(provider: SlowlyMade) -> None:
    """It was left out for a failure; until its region is ready, the session is as without it."""
    provider.made = True
    with _open() as session:
        provider.fails = True
        assert _who(session) == HOST
        provider.fails = provider.made = False
        clock = session.engine.recovery.circuits.clock
        session.engine.recovery.circuits.of(NAME)._clock = lambda: clock() + 1000
        assert _who(session) == HOST
        assert session.state == "degraded"
        provider.made = True
        assert _who(session) == NAME
        assert session.state == "ready"


def test_a_session_that_raises_failures_takes_ready_regions_in(provider: SlowlyMade) -> None:
    """To be ready is no failure; what fails then is raised."""
    with _open() as session:
        session.disable_fallback()
        assert _who(session) == HOST
        provider.made = True
        assert _who(session) == NAME
        provider.fails = True
        with pytest.raises(EPFail, match="It broke"):
            _who(session)


def test_a_closed_session_keeps_nothing_that_was_made(provider: SlowlyMade) -> None:
    """Neither does one that was made without the provider hold on to errors, without a collector of cycles."""
    made = _Made()
    provider.compile = made.refuse  # type: ignore[method-assign]
    gc.disable()
    try:
        session = _open()
        session.close()
        seen = weakref.ref(made)
        del provider.compile, made
        assert seen() is None
        assert session.state == "closed"
    finally:
        gc.enable()


class _Made:
    """The artifact that a provider holds for a region until it is asked for."""

    def ready(self) -> bool:
        return False

    def refuse(self, region: RegionView) -> CompiledRegion:
        raise RegionNotReady("A region is being made.", ready=self.ready)
