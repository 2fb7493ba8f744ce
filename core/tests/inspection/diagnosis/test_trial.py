"""The trial models and their known answers."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import ort_py
from ort_py.contracts import ProviderFactory
from ort_py.inspection.diagnosis.trial import Refused, try_provider
from ort_py_kit.fake_device import FakeBehaviour, FakeFactory, fake_kernels

CPU = "CPUExecutionProvider"
FAKE = "FakeExecutionProvider"
Register = Callable[[ProviderFactory], None]


@pytest.fixture
def offered(register: Register) -> Callable[..., None]:
    """A fake provider that takes some operators."""

    def offer(*operators: str, **behaviour: object) -> None:
        register(FakeFactory(behaviour=FakeBehaviour(operators=operators, **behaviour)))  # type: ignore[arg-type]  # of keywords

    return offer


def test_the_cpu_provider() -> None:
    """It runs the first model, exactly."""
    trial = try_provider(CPU, [])
    assert (trial.model, trial.nodes, trial.max_error) == ("MatMul → Add → Relu", {CPU: 3}, 0.0)
    assert 0 < trial.best_ms <= trial.first_ms * 1000


def test_what_a_provider_lacks_is_completed(offered: Callable[..., None]) -> None:
    """Its own nodes are what counts."""
    offered("Add")
    trial = try_provider(FAKE, [CPU])
    assert trial.nodes == {FAKE: 1, CPU: 2}
    assert trial.max_error == 0


def test_without_completion_a_smaller_model_is_tried(offered: Callable[..., None]) -> None:
    offered("Mul")
    trial = try_provider(FAKE, [])
    assert (trial.model, trial.nodes) == ("Mul", {FAKE: 1})


def test_a_provider_that_takes_nothing(offered: Callable[..., None]) -> None:
    offered("Sin")
    with pytest.raises(Refused, match="Add"):
        try_provider(FAKE, [CPU])


def test_failures_are_not_covered_up(offered: Callable[..., None]) -> None:
    """No other provider answers for one that fails."""
    offered("Add", fail_runs={1})
    with pytest.raises(ort_py.OrtPyError, match="set to fail in run 1"):
        try_provider(FAKE, [CPU])


def test_wrong_answers_are_seen(register: Register) -> None:
    """The report has the largest difference: here b is added twice, at most 3."""
    (add,) = [kernel for kernel in fake_kernels() if kernel.op_type == "Add"]
    twice = add.replace(factory=lambda ctx: lambda x, y: ctx.xp.add(ctx.xp.add(x, y), y), out=False, inplace=())
    register(FakeFactory(behaviour=FakeBehaviour(kernels=[twice])))
    assert try_provider(FAKE, [CPU]).max_error == 3.0
