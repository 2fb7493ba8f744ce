"""Classification of a failed run's error: its cause, and whether it concerns memory, a device or something else."""

from __future__ import annotations

import pytest

from core.tests.driving import HostProvider
from ort_py.contracts import FailureKind
from ort_py.errors import (
    DeviceReset,
    EPFail,
    ExecutionError,
    InvalidArgument,
    KernelInputError,
    Location,
    MemoryLimitError,
    OrtPyError,
)
from ort_py.fallback.failure import failure_of

PLACE = Location(node="conv_1", provider="HostExecutionProvider")


def caused(cause: BaseException) -> ExecutionError:
    """The error that a step makes from an exception."""
    error = ExecutionError("Conv 'conv_1' failed", where=PLACE)
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (caused(ValueError("x")), FailureKind.FAILED),
        (EPFail("x", where=PLACE), FailureKind.FAILED),
        (caused(MemoryError("x")), FailureKind.OUT_OF_MEMORY),
        (MemoryError("x"), FailureKind.OUT_OF_MEMORY),
        (MemoryLimitError("x"), FailureKind.OUT_OF_MEMORY),
        (DeviceReset("x", where=PLACE), FailureKind.DEVICE_LOST),
        (caused(DeviceReset("x")), FailureKind.DEVICE_LOST),
        (InvalidArgument("x"), FailureKind.CALLER),
        (KernelInputError("x", where=PLACE), FailureKind.CALLER),
        (TypeError("of the caller's own feed"), FailureKind.CALLER),
    ],
    ids=lambda value: getattr(value, "name", type(value).__name__),
)
def test_kinds(error: Exception, kind: FailureKind) -> None:
    """By class, of the error or of its cause."""
    assert failure_of(error, [HostProvider()]).kind is kind


def test_place_and_reason() -> None:
    """Provider and node from the error's place, the reason from the provider's own exception."""
    failure = failure_of(caused(OSError("no such device")), [])
    assert (failure.provider, failure.node) == ("HostExecutionProvider", "conv_1")
    assert failure.reason == "OSError: no such device"


def test_the_reason_of_an_error_with_four_parts_is_its_first() -> None:
    failure = failure_of(EPFail("The stream broke.", where=PLACE, why="because", fix="Mend it."), [])
    assert failure.reason == "EPFail: The stream broke."


def test_a_limit_is_told_from_a_device() -> None:
    """Another device does not have more of a limited resource."""
    assert failure_of(MemoryLimitError("x"), []).limited
    assert not failure_of(MemoryError("x"), []).limited


def test_providers_speak_for_their_own_exceptions_only() -> None:
    """A provider that did not fail is not asked."""

    class Other(HostProvider):
        """Would call everything a lost device."""

        def failure_kind(self, error: BaseException) -> FailureKind | None:
            return FailureKind.DEVICE_LOST

    assert failure_of(caused(ValueError()), [Other(name="Other"), HostProvider()]).kind is FailureKind.FAILED
    assert failure_of(caused(ValueError()), [Other()]).kind is FailureKind.DEVICE_LOST


def test_a_callers_mistake_is_not_asked_about() -> None:
    class Eager(HostProvider):
        """Would call everything its own failure."""

        def failure_kind(self, error: BaseException) -> FailureKind | None:
            return FailureKind.FAILED

    assert failure_of(KernelInputError("x", where=PLACE), [Eager()]).kind is FailureKind.CALLER


def test_errors_without_a_place() -> None:
    """The core itself ran short, or an error says only in words where it was."""
    assert failure_of(OrtPyError("x", where="somewhere"), []).provider == ""
