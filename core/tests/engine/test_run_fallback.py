"""Failures of a provider: in a run, while compiling, in a survey; and the switches that forbid fallbacks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import ort_py
from core.tests.small_models import CPU, RELU, model_bytes
from ort_py.contracts import ProviderFactory
from ort_py_kit.fake_device import FakeBehaviour, FakeFactory

Register = Callable[[ProviderFactory], None]

X = np.array([[-1.0, 2.0, -3.0]], np.float32)
PAYS = -1e9
"""A cost that makes every island pay."""


def open_on_fake(
    register: Register, behaviour: FakeBehaviour, options: ort_py.SessionOptions | None = None
) -> ort_py.InferenceSession:
    """A session whose nodes a fake accelerator takes."""
    register(FakeFactory(behaviour=behaviour))
    return ort_py.InferenceSession(model_bytes(RELU), options)


def test_fake_runs_the_node(register: Register) -> None:
    """Without failures the accelerator has the node: the tests below are about something."""
    session = open_on_fake(register, FakeBehaviour(cost_us=PAYS))
    assert session.placement.counts() == {"FakeExecutionProvider": 1}
    np.testing.assert_array_equal(session.run(None, {"x": X})[0], np.maximum(X, 0))


@pytest.mark.parametrize("compiles", [False, True], ids=["kernel", "region"])
def test_failure_in_a_run_is_answered_by_the_next_provider(register: Register, compiles: bool) -> None:
    """The run that fails is repeated elsewhere; the caller gets the right result."""
    session = open_on_fake(register, FakeBehaviour(cost_us=PAYS, fail_runs=[1], compiles=compiles))
    np.testing.assert_array_equal(session.run(None, {"x": X})[0], np.maximum(X, 0))
    assert session.state == "degraded"
    assert session.placement.counts() == {"CPUExecutionProvider": 1}


def test_failure_in_a_later_run(register: Register) -> None:
    """Also a provider that worked before may fail."""
    session = open_on_fake(register, FakeBehaviour(cost_us=PAYS, fail_runs=[2]))
    assert session.run(None, {"x": X})
    assert session.state == "ready"
    np.testing.assert_array_equal(session.run(None, {"x": X})[0], np.maximum(X, 0))
    assert session.state == "degraded"


def test_fallback_of_a_run_is_on_record(register: Register) -> None:
    """The report names who failed, where, why, and who took over."""
    session = open_on_fake(register, FakeBehaviour(cost_us=PAYS, fail_runs=[1]))
    session.run(None, {"x": X})
    (record,) = session.fallback_report
    assert (record.kind, record.provider, record.replacement) == ("run", "FakeExecutionProvider", CPU[0])
    assert "set to fail in run 1" in record.reason
    assert record.node


def test_recovered_session_goes_on(register: Register) -> None:
    """Later runs need no further fallback."""
    session = open_on_fake(register, FakeBehaviour(cost_us=PAYS, fail_runs=[1]))
    for _ in range(3):
        np.testing.assert_array_equal(session.run(None, {"x": X})[0], np.maximum(X, 0))
    assert len(session.fallback_report) == 1


@pytest.mark.parametrize("level", ["provider", "node"])
def test_strict_forbids_it(register: Register, level: str) -> None:
    """In strict mode the failure is raised with its cause."""
    options = ort_py.SessionOptions()
    options.strict = level
    session = open_on_fake(register, FakeBehaviour(cost_us=PAYS, fail_runs=[1]), options)
    with pytest.raises(ort_py.ExecutionError, match="set to fail in run 1") as caught:
        session.run(None, {"x": X})
    assert isinstance(caught.value.__cause__, RuntimeError)
    assert session.state == "ready"


def test_disable_fallback_forbids_it(register: Register) -> None:
    """`disable_fallback` raises failures, `enable_fallback` answers them again."""
    session = open_on_fake(register, FakeBehaviour(cost_us=PAYS, fail_runs=[1, 2]))
    session.disable_fallback()
    with pytest.raises(ort_py.ExecutionError, match="set to fail in run 1"):
        session.run(None, {"x": X})
    session.enable_fallback()
    np.testing.assert_array_equal(session.run(None, {"x": X})[0], np.maximum(X, 0))
    assert session.state == "degraded"


def test_callers_mistake_is_no_fallback(register: Register) -> None:
    """A wrong feed is refused; the accelerator keeps its nodes."""
    session = open_on_fake(register, FakeBehaviour(cost_us=PAYS))
    with pytest.raises(ort_py.InvalidArgument):
        session.run(None, {"x": X.astype(np.float64)})
    assert (session.state, session.fallback_report) == ("ready", [])


def test_failure_while_compiling(register: Register) -> None:
    """A region that cannot be compiled goes to the next provider, on record."""
    session = open_on_fake(register, FakeBehaviour(cost_us=PAYS, compiles=True, fail_compile=True))
    assert session.placement.counts() == {"CPUExecutionProvider": 1}
    (record,) = session.fallback_report
    assert (record.kind, record.provider) == ("assignment", "FakeExecutionProvider")
    assert "set to fail in compile" in record.reason


def test_failure_while_being_asked(register: Register) -> None:
    """A provider that raises when asked what it runs gets nothing, on record."""
    session = open_on_fake(register, FakeBehaviour(cost_us=PAYS, fail_capability=True))
    assert session.placement.counts() == {"CPUExecutionProvider": 1}
    assert "set to fail in get_capability" in session.fallback_report[0].reason


@pytest.mark.parametrize(
    "behaviour",
    [FakeBehaviour(fail_capability=True), FakeBehaviour(compiles=True, fail_compile=True, cost_us=PAYS)],
    ids=["asked", "compiling"],
)
def test_strict_forbids_fallback_at_creation(register: Register, behaviour: FakeBehaviour) -> None:
    """In strict mode such a provider fails the session."""
    options = ort_py.SessionOptions()
    options.strict = "provider"
    with pytest.raises(ort_py.PluginError, match="FakeExecutionProvider failed while the session was created"):
        open_on_fake(register, behaviour, options)


def test_strict_node_forbids_the_host(register: Register) -> None:
    """In strict mode ``node`` no node may end on the completing CPU provider."""
    options = ort_py.SessionOptions()
    options.strict = "node"
    with pytest.raises(ort_py.OrtPyError, match="Relu") as caught:
        open_on_fake(register, FakeBehaviour(operators=["Add"], cost_us=PAYS), options)
    assert "FakeExecutionProvider" in str(caught.value)


def test_refusals_are_in_the_placement(register: Register) -> None:
    """A node the accelerator refused says so."""
    session = open_on_fake(register, FakeBehaviour(operators=["Add"], cost_us=PAYS))
    (node,) = session.placement
    assert node.provider == "CPUExecutionProvider"
    assert node.refusals[0][0] == "FakeExecutionProvider"


def test_providers_are_closed_with_the_session(register: Register) -> None:
    factory = FakeFactory(behaviour=FakeBehaviour(cost_us=PAYS))
    register(factory)
    with ort_py.InferenceSession(model_bytes(RELU)):
        (provider,) = factory.created
        assert not provider.closed
    assert provider.closed


def test_providers_are_closed_when_creation_fails(register: Register) -> None:
    """A session that cannot be made leaves no provider open."""
    factory = FakeFactory()
    register(factory)
    with pytest.raises(ort_py.OrtPyError):
        ort_py.InferenceSession(b"garbage")
    assert all(provider.closed for provider in factory.created)
