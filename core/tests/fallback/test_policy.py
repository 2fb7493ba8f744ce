"""Failures that another provider may handle."""

from __future__ import annotations

import pytest

from ort_py.errors import (
    DeviceReset,
    EPFail,
    ExecutionError,
    InvalidArgument,
    InvalidGraph,
    KernelInputError,
    LimitError,
    MissingInputError,
    PluginError,
    RuntimeException,
)
from ort_py.fallback.policy import FallbackPolicy, Strictness

PROVIDERS_FAULT = [ExecutionError("x"), EPFail("x"), DeviceReset("x"), RuntimeError("x"), MemoryError(), ImportError()]
CALLERS_FAULT = [
    InvalidArgument("x"),
    MissingInputError("x"),
    KernelInputError("x"),
    InvalidGraph("x"),
    LimitError("x"),
]
OTHER = [PluginError("x"), RuntimeException("x")]


@pytest.mark.parametrize("error", PROVIDERS_FAULT, ids=lambda error: type(error).__name__)
def test_a_providers_failure_may_be_answered(error: Exception) -> None:
    """Kernels, devices and whatever a plug-in raises."""
    assert FallbackPolicy().may_replace(error)


@pytest.mark.parametrize("error", CALLERS_FAULT, ids=lambda error: type(error).__name__)
def test_a_callers_mistake_never_falls_back(error: Exception) -> None:
    """It would fail anywhere, or worse, not; a limit is a limit everywhere."""
    assert not FallbackPolicy().may_replace(error)


@pytest.mark.parametrize("error", OTHER, ids=lambda error: type(error).__name__)
def test_what_another_provider_cannot_heal_is_raised(error: Exception) -> None:
    """Errors of ort-py that are not a provider's failure to run."""
    assert not FallbackPolicy().may_replace(error)


@pytest.mark.parametrize("strictness", [Strictness.PROVIDER, Strictness.NODE])
def test_strict_sessions_never_fall_back(strictness: Strictness) -> None:
    """Either strictness turns every fallback into an error."""
    assert not FallbackPolicy(strictness).may_replace(EPFail("x"))


def test_fallback_can_be_switched_off_and_on() -> None:
    policy = FallbackPolicy(enabled=False)
    assert not policy.may_replace(EPFail("x"))
    policy.enabled = True
    assert policy.may_replace(EPFail("x"))
