"""Guards catch whatever a plug-in raises, Ctrl-C excepted."""

from __future__ import annotations

import pytest

from ort_py.hooks.guard import Raised, describe, guarded


def _raise(error: BaseException) -> None:
    raise error


def test_value_passes_through() -> None:
    """A call that returns gives its value."""
    assert guarded(lambda: 3) == 3


@pytest.mark.parametrize("error", [ImportError("x"), OSError("libx.so"), SystemExit(3), BaseException("panic")])
def test_every_exception_is_a_failure(error: BaseException) -> None:
    """ImportError is not the only way to break: missing libraries, exits and panics are caught as they are."""
    outcome = guarded(lambda: _raise(error))
    assert isinstance(outcome, Raised)
    assert outcome.error is error


def test_interrupt_passes() -> None:
    """Ctrl-C is the user's, not the plug-in's."""
    with pytest.raises(KeyboardInterrupt):
        guarded(lambda: _raise(KeyboardInterrupt()))


def test_description_has_type_and_text() -> None:
    """The form is ``Type: text``, or only the type if there is no text."""
    assert describe(OSError("libx.so: not found")) == "OSError: libx.so: not found"
    assert str(Raised(ValueError())) == "ValueError"


def test_description_survives_a_broken_text() -> None:
    """An exception class whose text raises is still described."""

    class Rude(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert describe(Rude()) == "Rude: (its text raised RuntimeError)"
