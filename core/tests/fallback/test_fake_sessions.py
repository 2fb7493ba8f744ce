"""Sessions with a provider that fails to order: what is raised, what falls back, and what the report says."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import ort_py
from core.tests.driving import HostProvider, floats, model_of
from ort_py.contracts import Availability, IExecutionProvider, ProviderFactory, SessionContext
from ort_py.discovery import default_catalog
from ort_py.errors import ExecutionError, PluginError
from ort_py_kit.fake_device import FakeBehaviour, FakeDevice, FakeFactory

FAKE, HOST = "FakeExecutionProvider", "HostExecutionProvider"
TEXT = "g (float[n] x) => (float[m] y) { a = Neg(x) b = Concat<axis = 0>(a, a) y = Abs(b) }"


class HostFactory(ProviderFactory):
    """The host provider of these tests as an installed one."""

    @property
    def name(self) -> str:
        return HOST

    def probe(self) -> Availability:
        return Availability(True)

    def create(self, options: Any, context: SessionContext) -> IExecutionProvider:
        return HostProvider(name=HOST)


Make = Callable[..., tuple[ort_py.InferenceSession, FakeFactory]]


@pytest.fixture
def session() -> Iterator[Make]:
    """Makes sessions with a fake device in front of the host."""
    opened: list[ort_py.InferenceSession] = []
    catalog = default_catalog()
    catalog.reset()

    def make(
        behaviour: FakeBehaviour | None = None,
        owner: FakeDevice | None = None,
        providers: tuple[str, ...] = (FAKE, HOST),
        **keywords: Any,
    ) -> tuple[ort_py.InferenceSession, FakeFactory]:
        factory = FakeFactory(FAKE, behaviour, owner)
        catalog.register_provider(factory)
        catalog.register_provider(HostFactory())
        options = ort_py.SessionOptions()
        options.cost_model = "always"
        model = model_of(TEXT).SerializeToString()
        opened.append(ort_py.InferenceSession(model, options, list(providers), **keywords))
        return opened[-1], factory

    yield make
    for one in opened:
        one.close()
    catalog.reset()


def expected(x: Any) -> Any:
    """The expected result of the model."""
    return np.abs(np.concatenate([x, x]))


@pytest.mark.parametrize("compiles", [False, True])
def test_a_device_in_front_runs_what_it_can(session: Make, compiles: bool) -> None:
    """Kernels or a region on the device; the report is empty."""
    made, factory = session(FakeBehaviour(compiles=compiles))
    x = floats(3)
    np.testing.assert_array_equal(made.run(None, {"x": x})[0], expected(x))
    assert made.placement.counts() == {FAKE: 3}
    assert made.fallback_report == []
    assert factory.created[0].runs == 1


@pytest.mark.parametrize(
    ("behaviour", "reason"),
    [
        (FakeBehaviour(fail_capability=True), "set to fail in get_capability"),
        (FakeBehaviour(compiles=True, fail_compile=True), "set to fail in compile"),
    ],
)
def test_a_provider_that_fails_while_it_is_asked_loses_its_nodes(
    session: Make, behaviour: FakeBehaviour, reason: str
) -> None:
    """Assignment fallback: the next provider runs the nodes, and the report says why."""
    made, _ = session(behaviour)
    x = floats(3)
    np.testing.assert_array_equal(made.run(None, {"x": x})[0], expected(x))
    assert made.placement.counts() == {HOST: 3}
    (record,) = made.fallback_report
    assert (record.kind, record.provider, record.replacement) == ("assignment", FAKE, HOST)
    assert reason in record.reason


@pytest.mark.parametrize(
    "behaviour", [FakeBehaviour(fail_capability=True), FakeBehaviour(compiles=True, fail_compile=True)]
)
def test_without_fallback_such_a_provider_ends_the_session(session: Make, behaviour: FakeBehaviour) -> None:
    """The provider's own exception is the cause."""
    with pytest.raises(PluginError, match=f"{FAKE} failed while the session was created") as caught:
        session(behaviour, enable_fallback=0)
    assert isinstance(caught.value.__cause__, RuntimeError)


@pytest.mark.parametrize("compiles", [False, True])
def test_a_failing_run_is_repeated_without_the_provider(session: Make, compiles: bool) -> None:
    """Run fallback: the caller gets the right result, later runs do not ask the provider again."""
    made, _ = session(FakeBehaviour(compiles=compiles, fail_runs={2} if not compiles else ()), FakeDevice(largest=32))
    small, large = floats(3), floats(100)
    made.run(None, {"x": small})
    np.testing.assert_array_equal(made.run(None, {"x": large})[0], expected(large))
    np.testing.assert_array_equal(made.run(None, {"x": small})[0], expected(small))
    assert made.placement.counts() == {HOST: 3}
    assert made.state == "degraded"
    freed, record = made.fallback_report
    assert (freed.action, freed.provider) == ("memory freed", FAKE)
    assert (record.kind, record.provider, record.replacement) == ("run", FAKE, HOST)


def test_a_failing_run_is_raised_where_fallback_is_off(session: Make) -> None:
    """The next run works again: the session is not broken."""
    made, factory = session(FakeBehaviour(fail_runs={2}), enable_fallback=0)
    x = floats(3)
    made.run(None, {"x": x})
    with pytest.raises(ExecutionError, match="set to fail in run 2"):
        made.run(None, {"x": x})
    np.testing.assert_array_equal(made.run(None, {"x": x})[0], expected(x))
    assert factory.created[0].runs == 3


def test_closing_releases_the_device(session: Make) -> None:
    """After `close` the provider is closed, its instances too, and no memory of the device is in use."""
    made, factory = session(FakeBehaviour(compiles=True))
    made.run(None, {"x": floats(3)})
    (provider,) = factory.created
    instances = [instance for region in provider.regions for instance in region.instances]
    assert instances
    made.close()
    assert provider.closed
    assert all(instance.closed for instance in instances)
    gc.collect()
    assert factory.owner.stats.bytes_in_use == 0


def test_a_session_keeps_no_feed_alive(session: Make) -> None:
    """A feed dies with the caller's last reference."""

    class Feed(np.ndarray[Any, Any]):
        """An array that can be watched dying."""

    made, _ = session()
    x = floats(3).view(Feed)
    gone = weakref.ref(x)
    made.run(None, {"x": x})
    del x
    assert gone() is None


def test_threads_survive_a_fallback_under_way(session: Make) -> None:
    """While one thread's run falls back, the others' results are right too."""
    made, _ = session(FakeBehaviour(fail_runs={20}))
    failures: list[BaseException] = []

    def work(seed: int) -> None:
        x = floats(5, seed=seed)
        try:
            for _ in range(10):
                np.testing.assert_array_equal(made.run(None, {"x": x})[0], expected(x))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert made.state == "degraded"
